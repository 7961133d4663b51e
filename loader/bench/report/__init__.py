"""One report of all benchmarks, made from their records: tables, goals and the page of the README.
Nothing here measures."""
