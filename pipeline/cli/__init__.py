"""`lance-gateway pipeline`: one command for each job."""

import typer

from pipeline.cli import indexing, ingesting, merging, running
from pipeline.cli import indexing as snapshotting
from pipeline.cli import merging as cleaning
from pipeline.cli import running as reference
from pipeline.cli import running as status

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
