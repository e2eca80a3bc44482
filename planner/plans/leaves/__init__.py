"""Leaves whose rows are computed: those of the schemas `system` and `information_schema`."""
