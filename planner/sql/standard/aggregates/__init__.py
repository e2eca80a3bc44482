"""Clauses of aggregates that DataFusion lacks or misreads."""
