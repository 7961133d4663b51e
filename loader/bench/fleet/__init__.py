"""A fleet under fire: real workers on a backlog while a controller plays the managed instance group and breaks things.
At the end each published message is accounted for by its content; `loader bench fleet` runs it."""
