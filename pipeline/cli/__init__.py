"""`lance-gateway pipeline`, one command per file.

- `ingesting`: `ingest`
- `merging`: `merge`; `cleaning`: `clean`
- `indexing`: `index`
- `runner`: where a command runs the parts of its job
- `snapshotting`: `snapshot`; `status`: `status`; `running`: `run`; `reference`: `reference`
- `options`: options that commands share; `failing`: what a command that fails says
"""

import typer

from pipeline.cli import cleaning, indexing, ingesting, merging, reference, running, snapshotting, status

app = typer.Typer(
    help="Keep tables healthy: merge, index, clean up; bring rows in from Spark.", no_args_is_help=True
)
app.command("ingest")(ingesting.ingest)
app.command("merge")(merging.merge)
app.command("index")(indexing.index)
app.command("clean")(cleaning.clean)
app.command("snapshot")(snapshotting.snapshot)
app.command("status")(status.status)
app.command("run")(running.run)
app.command("reference")(reference.reference)
