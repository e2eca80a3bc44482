"""Random typed SQL over random lakes, and the judges of its answers; `python -m tests.fuzz.sql --help`."""
