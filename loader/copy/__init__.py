"""Copy: one bundle becomes one transaction, with one load id. Rows go out by COPY, a bad row goes alone."""
