"""A keeper that runs as a query of Spark Structured Streaming: one look at all tables for each trigger."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from memwal.errors import LanceGatewayError, UnavailableError
from pipeline.keeping.keeper import Keeper

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)
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

    def look(_rows: DataFrame, _batch: int) -> None:
        if stop.is_set():
            return
        try:
            keeper.round()
        except LanceGatewayError as error:
            logger.warning("tables can't be listed: %s", error)

    clock = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    query = (
        clock.writeStream.queryName(QUERY)
        .foreachBatch(look)
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
        msg = f"the query {QUERY} ended by itself: {reason}"
        raise UnavailableError(msg)
