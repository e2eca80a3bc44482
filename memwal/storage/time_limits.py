"""Time limits of requests to an object store, in the words of pylance and of obstore.

Lance has no limit for a call with all of its retries: it lists again up to five times after a request that
failed, and reads again up to three times, each with requests that are retried in themselves. So that a call
ends within its total, requests are given up that receive nothing for a share of it, and such requests are
retried by the outer loops alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lance_gateway.memwal.errors import InvalidInputError

# The loop of Lance with the most attempts, and the pauses between them.
_ATTEMPTS: Final = 6
_PAUSES_SECONDS: Final = 4.0
_LEAST_TOTAL_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class StorageLimits:
    """How long an object store may take.

    Args:
        connect_seconds: to accept a connection.
        request_seconds: for one request, from its first byte to the last one of the answer.
        total_seconds: for a call with all of its retries; at least 10 s and `request_seconds`.

    Raises:
        InvalidInputError: a limit is not positive, or the total too short.
    """

    connect_seconds: float = 5.0
    request_seconds: float = 30.0
    total_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.connect_seconds <= 0 or self.request_seconds <= 0:
            raise InvalidInputError(
                f"a connect timeout of {self.connect_seconds:g} s and a request timeout of "
                f"{self.request_seconds:g} s: both must be more than 0"
            )
        least = max(_LEAST_TOTAL_SECONDS, self.request_seconds)
        if self.total_seconds < least:
            raise InvalidInputError(
                f"a total timeout of {self.total_seconds:g} s is too short for a request and its retries: "
                f"choose {least:g} s or more"
            )

    @property
    def silence_seconds(self) -> float:
        """After how long a request is given up that receives nothing."""
        return min(self.request_seconds, (self.total_seconds - _PAUSES_SECONDS) / _ATTEMPTS)

    def complete(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return storage options with these limits, as pylance takes them; options that are there stay.

        >>> StorageLimits(5, 30, 64).complete({"timeout": "1 minute"})["timeout"]
        '1 minute'
        """
        given = {name.lower() for name in options}
        limits = {
            "connect_timeout": format_duration(min(self.connect_seconds, self.silence_seconds)),
            "read_timeout": format_duration(self.silence_seconds),
            "timeout": format_duration(self.request_seconds),
            # Errors that come at once are retried by each request itself; silence is not.
            "client_retry_timeout": str(max(1, int(self.silence_seconds))),
        }
        return {**options, **{name: value for name, value in limits.items() if name not in given}}


DEFAULT_LIMITS: Final = StorageLimits()


def format_duration(seconds: float) -> str:
    """Return a duration as Rust's object stores read it.

    >>> format_duration(2.5)
    '2500ms'
    """
    return f"{max(1, round(seconds * 1000))}ms"
