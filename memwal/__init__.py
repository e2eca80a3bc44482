"""The MemWAL format of Lance tables: what is on disk, read and written without SQL and without Flight.

Storage and errors

- `storage`: a table's directory on a local disk or S3; `backends` are the two kinds behind it.
- `errors`: everything the project raises on purpose, with the status that a client sees.
- `lance_errors`: what Lance's own errors say to a person.
- `contention`: commits that are done again when somebody else's came first.
- `quantities`: durations and sizes as people write them.

State of a table

- `layout`: where files are below a table's directory, and how they are named.
- `manifest`: a region's versioned state; finding the newest version, committing the next.
- `index_details`: the base table's MemWAL index: region specs, merge and index progress.
- `base_versions`: versions of a base table that are committed on one version and on no other.
- `region_snapshots`: all regions as that index remembers them.
- `wal`: durable rows that no flush has covered yet.
- `stored_fields`: columns by field id, whatever they were called when rows were stored.

Making tables

- `creating`: a base table and its MemWAL in one step, region specs as text, keys and NOT NULL of schemas.

Keys

- `bloom`: which flushed generations certainly lack a key: Lance's filters and our own.
- `siphash`: the hash behind Lance's filters.

Regions

- `transforms`: from a row's columns to its region's values, for every transform of the specification.
- `expressions`: the free form of a region field, evaluated by DataFusion.
- `determinism`: which expressions follow from their row alone, as DataFusion tells it.
- `murmur3`: the hash behind buckets, in both of its readings.
- `raw_values`: region values as the bytes that manifests record.
- `region_ids`: which id a region of certain values has, LanceDB's or our own, and what an id stands for;
  `region_rows`: the values of regions that record none, by their rows.
"""

import os

# Lance reads it as it is imported. Else it tells of every text search that the MemWAL index has no fields, of
# every table that is made that it was not there, and of every region that another writer took over.
os.environ.setdefault(
    "LANCE_LOG", "warn,lance::index=off,lance::dataset::write::insert=error,lance::dataset::mem_wal=error"
)
