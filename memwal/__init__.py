"""The MemWAL format of Lance tables: what is on disk, read and written without SQL and without Flight.

- `storage`: a table's directory on a local disk or S3, and where files are in it.
- `base`: the base table: its versions, its MemWAL index, and commits to it.
- `regions`: manifests, ids and log entries of regions, and the snapshots of all of them in the index.
- `transforms`: from a row's columns to its region's values, for every transform of the specification.
- `creating`: a base table and its MemWAL in one step, region specs as text, keys and NOT NULL of schemas.
- `writing`: rows find their region and become durable.
- `bloom`: which flushed generations certainly lack a key.
- `stored_fields`: columns by field id, whatever they were called when rows were stored.
- `errors`: everything the project raises on purpose, with the status that a client sees.
- `quantities`: durations and sizes as people write them.
"""

import os

# Lance reads it as it is imported. Else it tells of every text search that the MemWAL index has no fields, of
# every table that is made that it was not there, and of every region that another writer took over.
os.environ.setdefault(
    "LANCE_LOG", "warn,lance::index=off,lance::dataset::write::insert=error,lance::dataset::mem_wal=error"
)
