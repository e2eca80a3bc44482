"""`lance-gateway pipeline`, one command per file.

- `merging`: `merge`
- `options`: options that commands share; `failing`: what a command that fails says
"""

import typer

from pipeline.cli import merging

app = typer.Typer(
    help="Keep tables healthy: merge, index, clean up; bring rows in from Spark.", no_args_is_help=True
)
app.command("merge")(merging.merge)
