"""Benchmarks of Lance Gateway, each against a floor or a peer measured in the same run.

`python -m benchmarks` builds real MemWAL tables with Lance's own writer (and reuses them while their
parameters match), runs the families below and writes one Markdown report: medians, ratios, bars, verdicts.

- `scans`: group-by, filtered scan and count(*) over base + generations, engine warm
- `first_touch`: the first group-by of a fresh process, against the floor's; the first count of an engine by
  types of keys and sizes, against a semi-join of the keys; the same after a restart
- `lsm_scanner`: the scans once more, against Lance's own `LsmScanner`
- `lookups`: point lookups in process, by a prepared statement
- `adbc_lookups`: the same lookups by ADBC, against a server process
- `planning`: a key lookup over 1, 10, 100 and 1,000 regions, pruned and unpruned
- `generations_cost`: the same fresh rows in 1, 10 and 100 generations
- `streaming`: a whole-table result by Flight, against a bare Flight server that holds it in memory
- `memory`: resident memory of the server while it streams
- `vector_search`, `text_search`, `hybrid_search`: top-10 in process and by ADBC, warm and cold, with recall
- `search_curves`: recall and latency by effort, index type and number of generations, drawn in `docs/plots`
- `search_memory`: resident memory of the server while a thousand searches meet ever new rows
- `roapi`: latency, throughput of many clients and streaming by ADBC, against ROAPI on the same rows
- `ingest`: bulk ingest by ADBC, against the same batches put into Lance's own region writers
- `inserts`: durable single-row INSERTs: latency, throughput of many clients, on disk and on a slow store
- `freshness`: from the acknowledgement of a row to the first answer of another gateway that has it
- `scans_while_writing`: a group-by while another process writes, against the same at rest
- `write_costs`: UPDATE, DELETE, MERGE, INSERT .. SELECT and executemany, and plain Lance commits
- `write_curves`: an INSERT by number of open regions and by length of the log, drawn in `docs/plots`
- `merging`: generations into the base table, against a bare `merge_insert`; batches; curves in `docs/plots`
- `maintenance`: status, snapshot and a look for garbage, by number of regions
- `spark_ingest`: Parquet files into regions by a Spark job, against a Lance append and Lance's region writers
- `spark_read`: a table into Spark through the gateway and in direct mode, against JDBC, on one and two cores

The floor is Lance's own SQL over the base table: what DataFusion does with the same files when it ignores
fresh rows, so its answer is stale; for searches it is Lance's own search of the base.
Peers are Lance's own `LsmScanner`, `LsmPointLookupPlanner` and `LsmVectorSearchPlanner`, and ROAPI.
"""

import os

# Lance says of every full-text search on a table with MemWAL that the MemWAL index has no fields.
os.environ.setdefault("LANCE_LOG", "error,lance::index=off")
