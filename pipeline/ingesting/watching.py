"""How far Spark is with a job."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipeline.jobs.progress import Progress, silent

if TYPE_CHECKING:
    from pyspark import SparkContext

_SECONDS = 0.5


@contextmanager
def watched(context: SparkContext, title: str, tasks: int, progress: Progress) -> Iterator[None]:
    """Tell how many tasks of the last stage are done while a block runs Spark jobs in this thread.

    Args:
        context: of Spark.
        title: of the job.
        tasks: of its last stage.
        progress: is told; nobody asks Spark where it is `silent`.
    """
    if progress is silent:
        yield
        return
    group = f"lance-gateway-{uuid.uuid4()}"
    context.setJobGroup(group, title)
    ended = threading.Event()
    with progress(title, tasks) as advance:

        def watch() -> None:
            told = 0
            while not ended.wait(_SECONDS):
                done = min(_done(context, group, tasks), tasks)
                advance(done - told)
                told = max(told, done)

        thread = threading.Thread(target=watch, name="watch-spark", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # as Spark clears it
            context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


def _done(context: SparkContext, group: str, tasks: int) -> int:
    """Tasks of the newest stage that are done; 0 while that is another than the last."""
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(one) for one in tracker.getJobIdsForGroup(group))
    stages = [stage for job in jobs if job is not None for stage in job.stageIds]
    newest = tracker.getStageInfo(max(stages)) if stages else None
    return newest.numCompletedTasks if newest is not None and newest.numTasks == tasks else 0
