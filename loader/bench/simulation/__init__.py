"""The managed instance group played without processes: traffic, autoscaler, VMs, ages and money.
Plain functions on plain data; `loader bench simulate` prints what they find."""
