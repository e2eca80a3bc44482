"""How tables are: what waits to be merged, how far indexes and snapshots are behind."""

from lance_gateway.pipeline.status.reading import IndexStatus, RegionStatus, TableStatus, read_status

__all__ = ["IndexStatus", "RegionStatus", "TableStatus", "read_status"]
