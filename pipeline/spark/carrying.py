"""Errors on their way from executors to the driver.

Spark tells the driver of a failed task by text: a Python traceback in a Java stack trace. Our errors write
themselves into that text in a form that is found again.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from memwal import errors
from memwal.errors import LanceGatewayError, PreconditionError, UnavailableError
from memwal.writing import FencedError, NotOwnerError, OutcomeUnknownError
from pipeline.spark.versions import Versions

Part = TypeVar("Part")
Result = TypeVar("Result")

_MARK = re.compile(r"lance-gateway-error:([A-Za-z0-9_=-]+):")
_LAST_LINE = re.compile(r"^(?:[\w.]*\.)?(\w+(?:Error|Exception|Interrupt|Exit)\b.*)$", re.MULTILINE)
_MISSING_MODULE = re.compile(r"No module named '((?:pipeline|memwal|lance|pyarrow)\b[\w.]*)'")
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
        """What is found again in any text."""
        packed = json.dumps([self.kind, self.status, self.message]).encode()
        return f"lance-gateway-error:{base64.urlsafe_b64encode(packed).decode()}:"


def is_retriable(error: LanceGatewayError) -> bool:
    """Whether Spark may try the task again."""
    return error.status == UnavailableError.status


@contextmanager
def carrying() -> Iterator[None]:
    """On an executor: let errors of ours fail the task in a way that `told` finds them again.

    Raises:
        CarriedError: in their place.
    """
    try:
        yield
    except LanceGatewayError as error:
        # Spark shows this line in its log: our message comes first.
        msg = f"{error} [{Parcel.of(error).text()}]"
        raise CarriedError(msg) from None


@dataclass(frozen=True, slots=True)
class Carried(Generic[Part, Result]):
    """A function for executors: errors that trying again can't mend are a result, others fail the task.

    Attributes:
        function: what is called.
        versions: of the driver.
    """

    function: Callable[[Part], Result]
    versions: Versions

    def __call__(self, part: Part) -> tuple[Result | None, Parcel | None]:
        """Call the function; its result, or the error that it failed with.

        Raises:
            CarriedError: it failed in a way that may pass.
        """
        with carrying():
            try:
                self.versions.check()
                return self.function(part), None
            except LanceGatewayError as error:
                if is_retriable(error):
                    raise
                return None, Parcel.of(error)


def told(error: Exception, job: str) -> LanceGatewayError:
    """What a failed Spark job says, as an error of ours.

    Args:
        error: of pyspark or py4j.
        job: its name, for errors that are not ours.
    """
    text = str(error)
    found = _MARK.search(text)
    if found is not None:
        return Parcel(*json.loads(base64.urlsafe_b64decode(found[1]))).error()
    missing = _MISSING_MODULE.search(text)
    if missing is not None:
        return PreconditionError(
            f"{job}: Spark executors have no module {missing[1]!r}: install lance-gateway on them in the "
            "driver's version, or ship the driver's environment with --archives"
        )
    lines = _LAST_LINE.findall(text)
    reason = (lines[-1] if lines else text.strip().split("\n", 1)[0])[:500]
    if any(sign in text for sign in _LOST):
        return UnavailableError(f"{job}: Spark lost executors, and its tries were used up: {reason}")
    return LanceGatewayError(f"{job}: a task failed on Spark: {reason}")
