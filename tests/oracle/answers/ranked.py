"""Is a list of keys and scores a right answer to "the best k", when equals may come in any order?"""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Closeness:
    """When two scores count as the same.

    Attributes:
        value: how far, relatively, a score may be from the expected one.
        order: how far apart, relatively, two scores may be that change places.
        floor: what either may be off in any case.
    """

    value: float
    order: float
    floor: float = 0.0

    def same(self, actual: float, expected: float) -> bool:
        return abs(actual - expected) <= self.floor + self.value * abs(expected)

    def slack(self, score: float) -> float:
        return self.floor + self.order * abs(score)


DISTANCES = Closeness(value=1e-5, order=1e-5, floor=1e-5)
SCORES = Closeness(value=1e-3, order=1e-5, floor=1e-6)


@dataclass(frozen=True, slots=True)
class Ranking:
    """What every row that can be found scores, whatever is asked for.

    Attributes:
        scores: by key; a smaller one is better unless ``descending``.
    """

    scores: Mapping[Key, float]
    closeness: Closeness
    descending: bool = False

    def check(
        self,
        found: Sequence[tuple[Key, float]],
        k: int,
        context: str,
        *,
        kept: Callable[[Key], bool] = lambda _: True,
    ) -> None:
        """Are these the best ``k``, best first, of which a condition applied afterwards keeps some?"""
        keys = [key for key, _ in found]
        assert len(set(keys)) == len(keys), f"a row is found twice: {found}; {context}"
        unknown = [key for key in keys if key not in self.scores]
        assert not unknown, f"{unknown} are stale, deleted or hidden; {context}"
        for key, score in found:
            assert self.closeness.same(score, self.scores[key]), (
                f"{key} scores {score} instead of {self.scores[key]}; {context}"
            )
            assert kept(key), f"{key} does not satisfy the condition; {context}"
        costs = [self._cost(key) for key in keys]
        for before, after in itertools.pairwise(costs):
            assert before <= after + self.closeness.slack(after), f"not best first: {found}; {context}"
        self._check_choice(keys, k, context, kept)

    def best(self, k: int) -> list[Key]:
        """One right answer."""
        return sorted(self.scores, key=self._cost)[:k]

    def ties(self, k: int) -> bool:
        """Whether several sets of rows are right."""
        ordered = sorted(map(self._cost, self.scores))
        return k < len(ordered) and ordered[k] - ordered[k - 1] <= self.closeness.slack(ordered[k])

    def _cost(self, key: Key) -> float:
        return -self.scores[key] if self.descending else self.scores[key]

    def _check_choice(
        self, found: Collection[Key], k: int, context: str, kept: Callable[[Key], bool]
    ) -> None:
        wanted = min(k, len(self.scores))
        if not wanted:
            assert not found, f"{found} instead of nothing; {context}"
            return
        last = sorted(map(self._cost, self.scores))[wanted - 1]
        slack = self.closeness.slack(last)
        sure = {key for key in self.scores if self._cost(key) < last - slack}
        level = {key for key in self.scores if abs(self._cost(key) - last) <= slack}
        missing = {key for key in sure if kept(key)} - set(found)
        assert not missing, f"{missing} are missing from {found}; {context}"
        extra = set(found) - sure - level
        assert not extra, f"{extra} are not among the best {k}; {context}"
        chosen, open_places = len(level.intersection(found)), wanted - len(sure)
        level_kept = sum(map(kept, level))
        assert open_places - (len(level) - level_kept) <= chosen <= open_places, (
            f"{len(found)} rows of the best {wanted} (of {len(self.scores)}), "
            f"{chosen} of {level_kept} equal ones; {context}"
        )
