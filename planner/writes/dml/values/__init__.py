"""Values of any type as values of a table's columns."""
