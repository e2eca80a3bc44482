"""Read and write the MemWAL format of Lance tables, without SQL and without Flight.

- `storage`: a table's directory on a local disk or S3, and the paths of its files.
- `base`: the base table: versions, MemWAL index, and commits.
- `regions`: manifests, ids, log entries, and snapshots of regions.
- `transforms`: the region transforms of the specification.
- `creating`: creation of tables; region specs as text; keys and NOT NULL in schemas.
- `rules`: lengths, checks and defaults of rows.
- `writing`: durable writes to the regions of rows.
- `bloom`: key filters of flushed generations.
- `stored_fields`: columns by field id.
- `errors`: the errors of the project, with the status that a client sees.
- `quantities`: durations and sizes as text.
"""

import os

# Lance reads it as it is imported. Else it tells of every text search that the MemWAL index has no fields, of
# every table that is made that it was not there, and of every region that another writer took over. The
# pattern behind the slash leaves out "Task '..' error handling message: Writer fenced ..": so says a writer
# that lost its region when it is closed.
os.environ.setdefault(
    "LANCE_LOG",
    "warn,lance::index=off,lance::dataset::write::insert=error,lance::dataset::mem_wal=error"
    "/^[^T]|^T[^a]|^Ta[^s]|panicked|message: [^W]|message: Writer [^f]",
)
