"""Families of scans, lookups by key and whole suites of analytic queries, in process."""
