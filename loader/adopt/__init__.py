"""Taking over a dataset that a stock dlt pipeline wrote: its tables gain what exactly-once loading needs.

Its rows stay."""
