"""What a caller who is not let in is told."""

from typing import ClassVar

from memwal.errors import LanceGatewayError


class UnauthenticatedError(LanceGatewayError):
    """A call whose credentials are missing or wrong.

    The text never tells whether a user exists; what was wrong in particular goes to the log.
    """

    status: ClassVar[str] = "UNAUTHENTICATED"
