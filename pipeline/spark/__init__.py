"""Spark, as jobs use it; pyspark is imported when a session is asked for, and not before.

- `session`: finds or starts a session, or says what is missing.
- `quiet`: keeps what a JVM says away from a command's stderr.
- `runner`: runs the parts of a job on executors.
- `carrying`: errors on their way from executors to the driver.
- `versions`: what must be the same there and here.
"""
