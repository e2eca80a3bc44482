"""Errors that a user of the gateway can meet, each with the gRPC-style status that a client sees."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import ClassVar, Final, TypeVar

from lance_gateway.memwal.lance_errors import is_read_alone

_CAUSES: Final = tuple(
    (re.compile(pattern), cause)
    for pattern, cause in (
        (r"\b(os error|Errno) 28\b", "The disk is full (no restart is needed once there is room)"),
        (r"\b(os error|Errno) 122\b", "The disk quota is used up"),
        (r"\b(os error|Errno) 30\b", "The file system is read-only"),
        (r"\b(os error|Errno) (24|23)\b", "No file descriptors are left (raise the limit, ulimit -n)"),
        (r"\b(os error|Errno) (13|1)\b", "The file system refuses access (check owner and mode)"),
        (r"\b(os error|Errno) 5\b", "The disk does not read or write"),
        (
            r"AccessDenied|403 Forbidden|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken",
            "The object store refuses access (check credentials and rights)",
        ),
    )
)
"""What the operating system and object stores say, and what that means. Errors of Lance and obstore have no
number or kind: their texts are all that tells."""
_STORE_ERROR: Final = re.compile(r"\bGeneric (?:S3|GCS|MicrosoftAzure) error\b")


def find_storage_cause(text: str) -> str | None:
    """Return what is wrong with storage by the text of an error; None if the text does not tell."""
    return next((cause for pattern, cause in _CAUSES if cause in text or pattern.search(text)), None)


def shorten_error(error: BaseException) -> str:
    """Return the text of an error without positions in Lance's source code."""
    return str(error).split(", /")[0].split(", rust/")[0].strip()


class PanicError(Exception):
    """A panic of Rust that is handled like other errors."""


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic of Rust, which bindings raise as no `Exception`.

    Each library has a class of that name of its own, and offers none of them.
    """
    return isinstance(error, PanicError) or type(error).__name__ == "PanicException"


def is_storage_failure(error: BaseException) -> bool:
    """Return whether an error of Lance says that storage did not serve a request.

    Lance raises the same types for a file that it can't read. What its object store calls generic is neither
    an absent file nor a damaged one: no answer in time, no connection, a server that failed.
    """
    text = str(error)
    return _STORE_ERROR.search(text) is not None or find_storage_cause(text) is not None


def build_read_error(message: str, error: BaseException) -> LanceGatewayError:
    """Return the error for what Lance failed to read: damaged, unless the object store did not serve it.

    Args:
        message: what can't be read, and why.
        error: of Lance.
    """
    if is_read_alone(error):
        return UnsupportedError(
            f"{message}. Lance can't read a list of fixed size whose elements are structs together with "
            "other columns: leave that column out, or read it alone"
        )
    if is_storage_failure(error):
        return UnavailableError(f"{message}. Check that storage is reachable and permitted, then retry")
    return CorruptDataError(message)


class LanceGatewayError(Exception):
    """Base class of all errors that this project raises on purpose.

    A message names the object, the value and a remedy. `status` is the gRPC status of the error.
    `names_files` is whether the message may say where files are, which clients must not learn. Messages of
    the others quote what a client sent, or values of its rows, as they are.
    """

    status: ClassVar[str] = "INTERNAL"
    names_files: ClassVar[bool] = True

    def __reduce__(self) -> tuple[Callable[..., LanceGatewayError], tuple[object, ...]]:
        # Errors pass between processes, and not every class is constructed from its message alone.
        return _build_error, (type(self), self.args, self.__dict__)


Failure = TypeVar("Failure", bound=LanceGatewayError)


def copy_error(error: Failure, message: object = None) -> Failure:
    """Return a copy of an error, without its traceback and its cause.

    Args:
        error: of any class; the copy keeps its attributes.
        message: of the copy; None for that of the error.
    """
    return _build_error(type(error), error.args if message is None else (message,), error.__dict__)


def _build_error(kind: type[Failure], args: tuple[object, ...], attributes: Mapping[str, object]) -> Failure:
    """Build an error without calling its class, which may take more than a message."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


class InvalidInputError(LanceGatewayError):
    """A statement, parameter, option or constructor argument is invalid."""

    status: ClassVar[str] = "INVALID_ARGUMENT"
    names_files: ClassVar[bool] = False


class NotFoundError(LanceGatewayError):
    """A table, view, column or directory does not exist."""

    status: ClassVar[str] = "NOT_FOUND"


class UnknownNameError(NotFoundError):
    """A statement names a table, view or schema that does not exist for the principal."""

    names_files: ClassVar[bool] = False


class PermissionDeniedError(LanceGatewayError):
    """The principal lacks a right."""

    status: ClassVar[str] = "PERMISSION_DENIED"


class UnsupportedError(LanceGatewayError):
    """The request or the stored data is valid, but this version does not support it."""

    status: ClassVar[str] = "UNIMPLEMENTED"


class UnavailableError(LanceGatewayError):
    """Storage failed; the same request may succeed later.

    If the message says what is wrong with storage, its first words do.

    Args:
        message: what failed, and why.
    """

    status: ClassVar[str] = "UNAVAILABLE"

    def __init__(self, message: str = "", *others: object) -> None:
        cause = find_storage_cause(message)
        if cause is not None and not message.startswith(cause):
            message = f"{cause}: {message.replace(f'{cause}: ', '')}"
        super().__init__(message, *others)


class PreconditionError(LanceGatewayError):
    """The environment or a table is not in the state that the request needs."""

    status: ClassVar[str] = "FAILED_PRECONDITION"


class ConflictError(LanceGatewayError):
    """Others changed what a transaction has read and wants to change; nothing of it was written."""

    status: ClassVar[str] = "ABORTED"


class AlreadyExistsError(LanceGatewayError):
    """The object to create already exists."""

    status: ClassVar[str] = "ALREADY_EXISTS"


class ResourcesExhaustedError(LanceGatewayError):
    """A statement needs more memory or disk than it may have."""

    status: ClassVar[str] = "RESOURCE_EXHAUSTED"


class CorruptDataError(LanceGatewayError):
    """A stored file violates its format; the message names the file."""

    status: ClassVar[str] = "DATA_LOSS"
