"""What a command that fails says: one line on stderr, and status 1."""

import typer

from memwal.errors import LanceGatewayError


class failing:  # noqa: N801 - reads as a statement
    """Ends the program with one line on stderr and status 1 when its block fails in a known way."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or isinstance(error, typer.Exit):
            return
        import pyarrow as pa  # noqa: PLC0415 - only needed for its exceptions

        if isinstance(error, LanceGatewayError):
            text = str(error)
        elif isinstance(error, pa.ArrowException):
            from protos.flight_sql import error_text  # noqa: PLC0415

            text = error_text(error)
        else:
            return
        typer.echo("error: " + " ".join(text.split()), err=True)
        raise typer.Exit(1) from None
