"""Vectors and texts of the tables that are searched: few, so that they meet, tie and miss."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tests.oracle.answers.predicates import Draw

DIMENSION = 8  # the smallest that every index type takes
VECTOR = pa.field("vec", pa.list_(pa.float32(), DIMENSION))
TEXT = pa.field("txt", pa.string())
TITLE = pa.field("title", pa.string())

WORDS = ("apple", "apples", "banana", "cherry", "éclair", "the", "of", "zoo", "appel", "Zoo", "running", "x1")
CENTRES = np.array([[0] * 8, [4, 4, 0, 0, -4, 0, 0, 1], [0, -6, 1, 0, 0, 6, 0, 0]], np.float32)

FAR = (1e3, -1e3, 1e3, 0.0, 0.0, 0.0, 0.0, -1e3)


def _palette() -> tuple[tuple[float, ...] | None, ...]:
    steps = np.concatenate([np.zeros((1, 8)), np.eye(8)[:3], -np.eye(8)[3:5], np.eye(8)[6:] / 3]).astype("f4")
    near = [tuple((centre + step).tolist()) for centre in CENTRES for step in steps]
    return (None, *near, tuple((CENTRES[1] * 2).tolist()), FAR)


VECTORS = _palette()
TEXTS: tuple[str | None, ...] = (
    None,
    "",
    "the of",
    "apple",
    "apple banana",
    "banana apple",
    "the apple of the banana",
    "Apples, apples: apples!",
    "cherry",
    "cherry zoo cherry zoo cherry",
    "running zoo",
    "x1 appel éclair",
    "eclair banana cherry apple zoo",
    "banana banana banana banana",
    " ".join(["zoo"] * 12 + ["apple"]),
)


def vector(draw: Draw, *, nullable: bool = True) -> tuple[float, ...] | None:
    return draw(st.sampled_from(VECTORS[0 if nullable else 1 :]))


def text(draw: Draw) -> str | None:
    return draw(st.sampled_from(TEXTS))


def many(seed: int, count: int) -> list[dict[str, Any]]:
    """Vectors and texts of ``count`` rows, some from the palette and some like nothing else."""
    source = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for _ in range(count):
        centre = CENTRES[source.randrange(len(CENTRES))]
        noisy = [float(np.float32(value + source.gauss(0, 1))) for value in centre]
        palette = source.random() < 0.4
        words = " ".join(source.choices(WORDS, k=source.randrange(0, 9)))
        rows.append(
            {
                "vec": source.choice(VECTORS) if palette else noisy,
                "txt": source.choice(TEXTS) if palette else words,
                "title": source.choice(TEXTS),
            }
        )
    return rows
