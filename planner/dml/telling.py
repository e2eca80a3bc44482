"""Errors with more to say than they had when they were raised."""

from __future__ import annotations

from memwal.errors import LanceGatewayError

__all__ = ["retold"]


def retold(error: LanceGatewayError, message: str) -> LanceGatewayError:
    """The same error with another message; what else it carries stays."""
    kind = type(error)
    # Not called like a class: some take more than a message.
    made = kind.__new__(kind, message)
    made.__dict__.update(error.__dict__)
    return made
