"""Errors that a user of the gateway can meet, each with the gRPC-style status that a client sees."""

from __future__ import annotations

from typing import ClassVar


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
    """Return whether an error of Lance says that the object store did not serve a request.

    Lance raises the same types for a file that it can't read. What its object store calls generic is neither
    an absent file nor a damaged one: no answer in time, no connection, a server that failed.
    """
    return "Generic S3 error" in str(error)


def build_read_error(message: str, error: BaseException) -> LanceGatewayError:
    """Return the error for what Lance failed to read: damaged, unless the object store did not serve it.

    Args:
        message: what can't be read, and why.
        error: of Lance.
    """
    if is_storage_failure(error):
        return UnavailableError(f"{message}. Check that storage is reachable and permitted, then retry")
    return CorruptDataError(message)


class LanceGatewayError(Exception):
    """Base class of all errors that this project raises on purpose.

    A message names the object, the value and a remedy. `status` is the gRPC status of the error.
    """

    status: ClassVar[str] = "INTERNAL"


class InvalidInputError(LanceGatewayError):
    """A statement, parameter, option or constructor argument is invalid."""

    status: ClassVar[str] = "INVALID_ARGUMENT"


class NotFoundError(LanceGatewayError):
    """A table, view, column or directory does not exist."""

    status: ClassVar[str] = "NOT_FOUND"


class PermissionDeniedError(LanceGatewayError):
    """The principal lacks a right."""

    status: ClassVar[str] = "PERMISSION_DENIED"


class UnsupportedError(LanceGatewayError):
    """The request or the stored data is valid, but this version does not support it."""

    status: ClassVar[str] = "UNIMPLEMENTED"


class UnavailableError(LanceGatewayError):
    """Storage failed; the same request may succeed later."""

    status: ClassVar[str] = "UNAVAILABLE"


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
