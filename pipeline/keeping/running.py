"""Looks at all tables again and again, by itself or as a query of Spark, until a signal comes."""

from __future__ import annotations

import logging
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from pythonjsonlogger.json import JsonFormatter

from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError
from lance_gateway.pipeline.keeping.keeper import Keeper

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY = "lance-pipeline"
_LOOK_SECONDS = 1


def stream_until(keeper: Keeper, spark: SparkSession, stop: threading.Event, interval_seconds: float) -> None:
    """Look at all tables until an event is set.

    The query reads a clock and writes nothing: nothing has to be remembered from one start to the next.

    Args:
        keeper: of the tables.
        spark: whose scheduler triggers looks.
        stop: ends it, after the current step.
        interval_seconds: from the beginning of one look to that of the next.

    Raises:
        UnavailableError: the query ended by itself.
    """

    def run_round(_rows: DataFrame, _batch: int) -> None:
        if stop.is_set():
            return
        try:
            keeper.round()
        except LanceGatewayError as error:
            logger.warning("tables can't be listed: %s", error)

    clock = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    query = (
        clock.writeStream.queryName(QUERY)
        .foreachBatch(run_round)
        .trigger(processingTime=f"{max(1, round(interval_seconds * 1000))} milliseconds")
        .start()
    )
    try:
        while not stop.is_set():
            if query.awaitTermination(_LOOK_SECONDS):
                break
    finally:
        query.stop()
    if not stop.is_set():
        reason = query.exception()
        raise UnavailableError(f"the query {QUERY} ended by itself: {reason}")


def configure(log_format: str, level: str) -> None:
    """Send all log lines of this process to stderr.

    Args:
        log_format: "text" or "json" (one object per line).
        level: the least severe level that is shown.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter(
            ["levelname", "name", "message", "threadName"],
            rename_fields={"levelname": "level", "name": "logger", "threadName": "thread"},
            timestamp="time",
        )
        if log_format == "json"
        else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger("py4j").setLevel(logging.WARNING)


logger = logging.getLogger(__name__)
_SPREAD = 0.1


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that SIGINT or SIGTERM set while the block runs; a second one ends the process as usual."""
    stop = threading.Event()
    before: dict[signal.Signals, Any] = {}

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        stop.set()
        _restore(before)
        logger.info("stopping after the current step, because of %s", signal.Signals(number).name)

    for one in (signal.SIGINT, signal.SIGTERM):
        before[one] = signal.signal(one, on_signal)
    try:
        yield stop
    finally:
        _restore(before)


def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def run_until(keeper: Keeper, stop: threading.Event, interval_seconds: float) -> None:
    """Look at all tables until an event is set.

    Args:
        keeper: of the tables.
        stop: ends it, after the current step.
        interval_seconds: from the beginning of one look to that of the next.
    """
    while not stop.is_set():
        began = time.monotonic()
        try:
            keeper.round()
        except LanceGatewayError as error:
            logger.warning("tables can't be listed: %s", error)
        # Several keepers of one root don't go in step.
        pause = interval_seconds * random.uniform(1 - _SPREAD, 1 + _SPREAD)  # noqa: S311 - no secret
        stop.wait(max(0.0, began + pause - time.monotonic()))
