"""`lance-gateway pipeline`: one command for each job."""

import typer

from lance_gateway.pipeline.cli import indexing, ingesting, merging, running

app = typer.Typer(
    help="Keep tables healthy: merge, index, clean up; bring rows in from Spark.", no_args_is_help=True
)
app.command("ingest")(ingesting.ingest)
app.command("merge")(merging.merge)
app.command("index")(indexing.index)
app.command("clean")(merging.clean)
app.command("snapshot")(indexing.snapshot)
app.command("status")(running.status)
app.command("run")(running.run)
app.command("archive")(running.archive)
app.command("reference")(running.reference)
