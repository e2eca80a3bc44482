"""The tables of the schema `system` that describe the catalog."""
