"""Differences that are known, each with its reason; everything else is a failure."""

from typing import NamedTuple


class KnownRefusal(NamedTuple):
    """What the gateway refuses and plain DataFusion answers."""

    words: str
    reason: str


KNOWN_REFUSALS: tuple[KnownRefusal, ...] = ()


def is_known_refusal(message: str) -> bool:
    """Whether the gateway refuses this by decision."""
    return any(one.words in message for one in KNOWN_REFUSALS)
