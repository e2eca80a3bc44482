"""What a run comes to: mismatches, counts and shares."""

import pickle
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.fuzz.typed.coverage import Cell


@dataclass(frozen=True)
class Mismatch:
    """A wrong answer.

    Attributes:
        judge: Who says so: a place, a state or another engine.
        kind: Tells which mismatches are alike.
        seed, lake, asked: A run with this seed, of this lake alone and with so many statements, comes to it.
        number: How many statements the run had asked.
    """

    judge: str
    kind: str
    sql: str
    detail: str
    seed: int
    lake: int
    asked: int
    number: int

    @property
    def again(self) -> str:
        """What runs it again."""
        return f"python -m tests.fuzz.typed --seed {self.seed} --lake {self.lake} --statements {self.asked}"

    def __str__(self) -> str:
        return f"{self.judge}: {self.kind}\n  {self.sql}\n  {self.detail}\n  {self.again}"


@dataclass
class Report:
    """What a run came to, or several.

    Attributes:
        seed: Of the run.
        lake: The one that comes next.
    """

    seed: int
    lake: int = 0
    mismatches: dict[str, Mismatch] = field(default_factory=dict)
    alike: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    pending: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    cells: Counter[Cell] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def statements(self) -> int:
        return self.counts["statements"]

    def save(self, path: Path) -> None:
        """Write what the run came to so far, in place of what was written before."""
        part = path.with_suffix(".part")
        part.write_bytes(pickle.dumps(self))
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return what a run has written."""
        report = pickle.loads(path.read_bytes())
        assert isinstance(report, cls)
        return report

    def add(self, other: Self) -> None:
        """Add what another run came to."""
        self.mismatches |= other.mismatches
        self.examples |= other.examples
        self.seconds += other.seconds
        for mine, others in (
            (self.alike, other.alike),
            (self.known, other.known),
            (self.counts, other.counts),
            (self.refusals, other.refusals),
        ):
            mine.update(others)
        self.cells.update(other.cells)

    def share(self, of: str) -> float:
        """Return which part of the statements are like that."""
        return self.counts[of] / max(1, self.statements)

    def figures(self) -> str:
        """Return counts, shares and refusals as text."""
        speed = self.statements / max(self.seconds, 1e-9)
        lines = [f"seed {self.seed}: {self.statements} statements, {speed:.0f} a second"]
        lines += [f"{count:10} {name}" for name, count in sorted(self.counts.items())]
        lines.append(
            f"{self.share('with rows'):.0%} return rows; "
            f"{self.share('of people'):.0%} compare a decimal, float, zoned time, struct or map"
        )
        lines += [f"{count:10} alike: {kind}" for kind, count in self.alike.most_common()]
        lines += [f"{count:10} known: {kind}" for kind, count in self.known.most_common()]
        lines += [
            f"{count:10} refused: {text}\n           e.g. {self.examples.get(text, '')}"
            for text, count in self.refusals.most_common(40)
        ]
        return "\n".join(lines)
