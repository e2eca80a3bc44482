"""Dates, times and their differences in other dialects."""
