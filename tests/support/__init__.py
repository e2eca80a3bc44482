"""Helpers of the tests: tables, writers in another process, merges, servers and result comparison."""
