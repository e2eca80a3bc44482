"""Interleaved timing: candidates take turns in every round, so that drift of the machine hits all alike."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_gateway.memwal.errors import InvalidInputError

Candidate = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Samples:
    """Seconds of each candidate, one value per round, in round order."""

    seconds: Mapping[str, npt.NDArray[np.float64]]

    def median_ms(self, name: str) -> float:
        """Return the median of a candidate in milliseconds."""
        return self.percentile_ms(name, 50)

    def percentile_ms(self, name: str, percentile: float) -> float:
        """Return a percentile (0-100) of a candidate in milliseconds."""
        return float(np.percentile(self.seconds[name], percentile)) * 1e3

    def ratio(self, name: str, against: str) -> float:
        """Return the median over rounds of this candidate's time divided by the other's in the same round."""
        return float(np.median(self.seconds[name] / self.seconds[against]))


def interleave(candidates: Mapping[str, Candidate], *, rounds: int, warmups: int = 1) -> Samples:
    """Time candidates in turn.

    Args:
        candidates: Name to callable; it is called with the round number (warm-up rounds are negative) and its
            result is dropped before the clock stops.
        rounds: Timed rounds. The order of the candidates rotates from round to round.
        warmups: Untimed rounds beforehand.

    Returns:
        The samples of every candidate.

    Raises:
        InvalidInputError: When there is nothing to time.
    """
    if not candidates or rounds < 1:
        raise InvalidInputError(
            f"{len(candidates)} candidates in {rounds} rounds: at least one of each is needed"
        )
    names = list(candidates)
    seconds = {name: np.zeros(rounds) for name in names}
    for round_number in range(-warmups, rounds):
        shift = round_number % len(names)
        for name in names[shift:] + names[:shift]:
            elapsed = time_call(lambda name=name, number=round_number: candidates[name](number))  # type: ignore[misc]
            if round_number >= 0:
                seconds[name][round_number] = elapsed
    return Samples(seconds)


def time_call(action: Callable[[], object]) -> float:
    """Return the seconds that one call takes, including the release of its result."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started
