"""How tables are: what waits to be merged, how far indexes and snapshots are behind.

- `reading`: a table's status, found in few round trips.
- `tables`: for people, on a terminal; `documents`: for programs, as JSON; `metrics`: for Prometheus.
"""

from pipeline.status.reading import IndexStatus, RegionStatus, TableStatus, read_status

__all__ = ["IndexStatus", "RegionStatus", "TableStatus", "read_status"]
