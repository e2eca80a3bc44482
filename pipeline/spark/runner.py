"""Runs the parts of a job on Spark's executors."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from pipeline.spark.carrying import Carried, told
from pipeline.spark.versions import versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Part = TypeVar("Part")
Result = TypeVar("Result")

_LEAST_AT_A_TIME = 32
"""Spark queues what it has no cores for; executors may be added while a job runs."""


@dataclass(frozen=True, slots=True)
class OnSpark:
    """A `Runner`: each part is a Spark job of one task, so that results come as they are there.

    A part that fails in a way that may pass is tried again by Spark, elsewhere perhaps.

    Attributes:
        spark: the session.
    """

    spark: SparkSession

    def run(
        self, function: Callable[[Part], Result], parts: Sequence[Part], *, name: str
    ) -> Iterator[Result]:
        """As `Runner.run`."""
        context = self.spark.sparkContext
        task = Carried(function, versions())
        tag = f"lance-gateway-{uuid.uuid4()}"

        def one(part: Part) -> Result:
            context.addJobTag(tag)
            context.setJobDescription(name)
            try:
                ((result, failed),) = context.parallelize([part], 1).map(task).collect()
            except Exception as error:
                raise told(error, name) from error
            if failed is not None:
                raise failed.error()
            return cast("Result", result)

        at_a_time = min(max(context.defaultParallelism, _LEAST_AT_A_TIME), max(len(parts), 1))
        with ThreadPoolExecutor(at_a_time, thread_name_prefix=name) as pool:
            futures = [pool.submit(one, part) for part in parts]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                left = [future for future in futures if not future.cancel() and not future.done()]
                if left:
                    context.cancelJobsWithTag(tag)
