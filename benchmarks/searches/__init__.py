"""Families of vector, text and hybrid search."""
