"""Indexes of base tables: built, kept up to date with merges, and looked at; and files put together."""

from pipeline.indexing.building import BuildReport, build
from pipeline.indexing.indexes import IndexPolicy
from pipeline.indexing.job import IndexReport, maintain
from pipeline.indexing.planning import needs
from pipeline.indexing.spec import IndexSpec

__all__ = ["BuildReport", "IndexPolicy", "IndexReport", "IndexSpec", "build", "maintain", "needs"]
