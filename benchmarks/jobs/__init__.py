"""Families of the pipeline's jobs, and of Spark."""
