"""Statements that change something: rows (`dml`) and tables (`ddl`)."""
