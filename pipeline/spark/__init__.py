"""Spark, as jobs use it; pyspark is imported when a session is asked for, and not before."""
