"""Where a command runs the parts of its job: in this process, or on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TypeAlias

import typer

from pipeline.runners import Runner, Threads

Master: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Run parts on Spark's executors: local[*], spark://host:port, yarn. Under spark-submit they do."
    ),
]


@contextmanager
def opened_runner(master: str | None) -> Iterator[Runner]:
    """The runner of a command; a Spark session that was started for it ends with the block.

    Raises:
        PreconditionError: pyspark or a JDK is missing.
        UnavailableError: Spark does not start.
    """
    from pipeline.spark.session import is_submitted, opened_session  # noqa: PLC0415 - keeps --help quick

    if master is None and not is_submitted():
        yield Threads()
        return
    from pipeline.spark.runner import OnSpark  # noqa: PLC0415

    with opened_session(master) as spark:
        yield OnSpark(spark)
