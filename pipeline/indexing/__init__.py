"""Indexes of base tables: built, kept up to date with merges, and looked at; and files put together."""

from lance_gateway.pipeline.indexing.building import BuildReport, build
from lance_gateway.pipeline.indexing.indexes import IndexPolicy
from lance_gateway.pipeline.indexing.job import IndexReport, maintain
from lance_gateway.pipeline.indexing.planning import needs
from lance_gateway.pipeline.indexing.spec import IndexSpec

__all__ = ["BuildReport", "IndexPolicy", "IndexReport", "IndexSpec", "build", "maintain", "needs"]
