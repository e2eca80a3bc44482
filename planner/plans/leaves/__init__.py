"""Leaves whose rows are computed: those of the schemas `system`, `information_schema` and `pg_catalog`."""
