"""A plan knows, for each table, which column takes which value; fitting a record with it yields rows.

Plans are filled from the real columns of the database and never change a value to make it fit."""
