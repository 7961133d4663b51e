"""Grafana dashboards and Prometheus alert rules for loader and bridge. The JSON files are made by dashboard.py:
`python -m loader.observability.dashboard`."""
