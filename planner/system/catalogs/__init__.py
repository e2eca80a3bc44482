"""The catalogs in which tools look for tables: information_schema, and pg_catalog of PostgreSQL.

`relations` gathers what there is for a principal; the tables of both catalogs are functions of that.
"""
