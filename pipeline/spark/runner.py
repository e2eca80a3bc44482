"""Runs the parts of a job on Spark's executors, and brings their errors to the driver.

Driver and executors must have the same versions of what writes files. Spark tells the driver of a failed task
by text: a Python traceback in a Java stack trace. Our errors write themselves into that text in a form that
is found again.
"""

from __future__ import annotations

import base64
import json
import platform
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from lance_gateway.memwal import errors
from lance_gateway.memwal.errors import LanceGatewayError, PreconditionError, UnavailableError
from lance_gateway.memwal.writing import FencedError, NotOwnerError, OutcomeUnknownError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Part = TypeVar("Part")
Result = TypeVar("Result")
_SHIP = "ship the driver's: lance-gateway pipeline archive FILE, then --archive FILE"
_NAMES = {"lance_gateway": "lance-gateway", "pylance": "pylance", "pyarrow": "pyarrow", "python": "Python"}


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions in one process; sent with every task.

    Attributes:
        lance_gateway: of this package.
        pylance: of Lance, which writes files that an older one may not read.
        pyarrow: major and minor, of Arrow.
        python: major and minor, of Python, between which functions can't travel.
    """

    lance_gateway: str
    pylance: str
    pyarrow: str
    python: str

    def check(self, here: Versions | None = None) -> None:
        """Compare the driver's versions with those of this process.

        Args:
            here: those of this process; looked up by default.

        Raises:
            PreconditionError: names both, for what differs.
        """
        here = here or versions()
        for field in fields(self):
            wanted, found = getattr(self, field.name), getattr(here, field.name)
            if wanted != found:
                name = _NAMES[field.name]
                raise PreconditionError(
                    f"a Spark executor on {platform.node()} has {name} {found}, but the driver has {wanted}: "
                    f"install the same versions on both, or {_SHIP}"
                )


@cache
def versions() -> Versions:
    """Those of this process."""
    return Versions(
        metadata.version("lance-gateway"),
        metadata.version("pylance"),
        ".".join(metadata.version("pyarrow").split(".")[:2]),
        ".".join(platform.python_version_tuple()[:2]),
    )


_MARK = re.compile(r"lance-gateway-error:([A-Za-z0-9_=-]+):")
_LAST_LINE = re.compile(r"^(?:[\w.]*\.)?(\w+(?:Error|Exception|Interrupt|Exit)\b.*)$", re.MULTILINE)
_MISSING_MODULE = re.compile(r"No module named '((?:lance_gateway|lance|pyarrow)\b[\w.]*)'")
_MISSING_PYTHON = re.compile(r'Cannot run program "([^"]+)"')
_OTHER_PYTHON = re.compile(r"Python in worker has different version: (\S+) than that in driver: ([\d.]*\d)")
_LOST = ("ExecutorLostFailure", "Python worker exited unexpectedly", "crashed")
_KINDS = {
    one.__name__: one
    for one in (
        *(kind for kind in vars(errors).values() if isinstance(kind, type)),
        FencedError,
        NotOwnerError,
        OutcomeUnknownError,
    )
    if issubclass(one, LanceGatewayError)
}


class CarriedError(Exception):
    """A task failed with an error of ours and is to be tried again; its text contains that error."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """An error as plain text.

    Attributes:
        kind: name of its class.
        status: as `LanceGatewayError.status`.
        message: what it says.
    """

    kind: str
    status: str
    message: str

    @staticmethod
    def of(error: LanceGatewayError) -> Parcel:
        """Pack an error."""
        return Parcel(type(error).__name__, error.status, str(error))

    def error(self) -> LanceGatewayError:
        """The error again; one of the same status where its class needs more than a message."""
        kind = _KINDS.get(self.kind)
        if kind is None:
            kind = next((one for one in _KINDS.values() if one.status == self.status), LanceGatewayError)
        return kind(self.message)

    def text(self) -> str:
        """Encode the parcel so that it can be found in any text."""
        packed = json.dumps([self.kind, self.status, self.message]).encode()
        return f"lance-gateway-error:{base64.urlsafe_b64encode(packed).decode()}:"


@contextmanager
def carry_errors() -> Iterator[None]:
    """On an executor: let errors of ours fail the task in a way that `translate_error` finds them again.

    Raises:
        CarriedError: in their place.
    """
    try:
        yield
    except LanceGatewayError as error:
        # Spark shows this line in its log: our message comes first.
        raise CarriedError(f"{error} [{Parcel.of(error).text()}]") from None


@dataclass(frozen=True, slots=True)
class Carried(Generic[Part, Result]):
    """A function for executors: errors that trying again can't mend are a result, others fail the task."""

    function: Callable[[Part], Result]
    versions: Versions

    def __call__(self, part: Part) -> tuple[Result | None, Parcel | None]:
        """Call the function; its result, or the error that it failed with.

        Raises:
            CarriedError: it failed in a way that may pass.
        """
        with carry_errors():
            try:
                self.versions.check()
                return self.function(part), None
            except LanceGatewayError as error:
                if error.status == UnavailableError.status:  # Spark may try it again
                    raise
                return None, Parcel.of(error)


def translate_error(error: Exception, job: str) -> LanceGatewayError:
    """Translate the error of a failed Spark job; restores errors of ours that its tasks raised.

    Args:
        error: error of pyspark or py4j.
        job: name of the job, for other errors.
    """
    text = str(error)
    found = _MARK.search(text)
    if found is not None:
        return Parcel(*json.loads(base64.urlsafe_b64decode(found[1]))).error()
    missing = _MISSING_MODULE.search(text)
    if missing is not None:
        return PreconditionError(
            f"{job}: Spark executors have no module {missing[1]!r}: install lance-gateway on them in the "
            f"driver's version and name their Python in PYSPARK_PYTHON, or {_SHIP}"
        )
    unknown = _MISSING_PYTHON.search(text)
    if unknown is not None:
        return PreconditionError(
            f"{job}: Spark executors can't start Python {unknown[1]!r}: name in PYSPARK_PYTHON one that is "
            f"there and has lance-gateway in the driver's version, or {_SHIP}"
        )
    other = _OTHER_PYTHON.search(text)
    if other is not None:
        return PreconditionError(
            f"{job}: Spark executors start Python {other[1]}, but the driver is Python {other[2]}: name one "
            f"of the driver's version in PYSPARK_PYTHON, or {_SHIP}"
        )
    lines = _LAST_LINE.findall(text)
    reason = (lines[-1] if lines else text.strip().split("\n", 1)[0])[:500]
    if any(sign in text for sign in _LOST):
        return UnavailableError(f"{job}: Spark lost executors, and its tries were used up: {reason}")
    return LanceGatewayError(f"{job}: a task failed on Spark: {reason}")


_LEAST_AT_A_TIME = 32
"""Spark queues what it has no cores for; executors may be added while a job runs."""


@dataclass(frozen=True, slots=True)
class OnSpark:
    """A `Runner`: each part is a Spark job of one task, so that results come as they are there.

    A part that fails in a way that may pass is tried again by Spark, elsewhere perhaps.
    """

    spark: SparkSession

    def run(
        self, function: Callable[[Part], Result], parts: Sequence[Part], *, name: str
    ) -> Iterator[Result]:
        """Call a function for every part, each as a Spark job of one task."""
        context = self.spark.sparkContext
        task = Carried(function, versions())
        tag = f"lance-gateway-{uuid.uuid4()}"

        def one(part: Part) -> Result:
            context.addJobTag(tag)
            context.setJobDescription(name)
            try:
                ((result, failed),) = context.parallelize([part], 1).map(task).collect()
            except Exception as error:
                raise translate_error(error, name) from error
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
