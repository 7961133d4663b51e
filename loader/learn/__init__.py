"""Learning: misfits teach the schema. What is new is drafted, then made by dlt's DDL in one short transaction."""
