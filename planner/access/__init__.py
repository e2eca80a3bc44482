"""Decide what a principal may see: names, tables, rows and values."""
