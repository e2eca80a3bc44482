"""What Lance's errors say to a person."""

from __future__ import annotations


def brief(error: BaseException) -> str:
    """The text of an error, without the place in Lance's source code that stands behind it."""
    return str(error).split(", /")[0].split(", rust/")[0].strip()
