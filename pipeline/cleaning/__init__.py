"""Removes garbage: the specification's garbage collector, with one rule for each kind."""

from lance_gateway.pipeline.cleaning.garbage import CleanPolicy, CleanReport, Findings, Garbage, Kept, Kind
from lance_gateway.pipeline.cleaning.job import clean, find, remove

__all__ = ["CleanPolicy", "CleanReport", "Findings", "Garbage", "Kept", "Kind", "clean", "find", "remove"]
