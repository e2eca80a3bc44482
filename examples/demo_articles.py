"""The table `articles` of the demo, which is searched: its base, its indexes, and what is written later."""

import shutil
import zlib
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from demo_tables import PRIMARY_KEY

ARTICLE_COUNT = 5_000
DIMENSION = 32
QUESTION = "lighthouse storm"
"""What the demo searches for."""
SUBJECTS = (
    "baker",
    "carpenter",
    "doctor",
    "farmer",
    "fisher",
    "gardener",
    "mason",
    "miller",
    "painter",
    "pilot",
    "sailor",
    "smith",
)
VERBS = ("builds", "finds", "mends", "paints", "remembers", "sells", "sings", "studies", "teaches", "watches")
OBJECTS = (
    "bridge",
    "cathedral",
    "engine",
    "harbour",
    "lighthouse",
    "market",
    "mountain",
    "orchard",
    "river",
    "storm",
    "theatre",
    "village",
)
ARTICLES = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("body", pa.string()),
        pa.field("embedding", pa.list_(pa.float32(), DIMENSION)),
    ]
)


def embed(text: str) -> list[float]:
    """Turn words into a vector of length one: a toy that stands in for a language model."""
    vector = np.zeros(DIMENSION, "f4")
    for word in text.split():
        digest = zlib.crc32(word.encode())
        vector[digest % DIMENSION] += 1
        vector[(digest >> 8) % DIMENSION] += 0.5
    return [float(one) for one in vector / np.linalg.norm(vector)]


def make_articles(bodies: dict[int, str]) -> pa.Table:
    """Return rows of `articles`, one per id and text."""
    columns = {
        "id": list(bodies),
        "body": list(bodies.values()),
        "embedding": [embed(body) for body in bodies.values()],
    }
    return pa.table(columns, schema=ARTICLES)


def create_articles(root: Path) -> None:
    """Write the table below `root` in place of an older one, with a text index and a vector index."""
    uri = str(root / "articles.lance")
    shutil.rmtree(uri, ignore_errors=True)
    rng = np.random.default_rng(7)
    parts = (SUBJECTS, VERBS, OBJECTS, OBJECTS)
    words = [
        "the {} {} the {} and the {}".format(*(rng.choice(part) for part in parts))
        for _ in range(ARTICLE_COUNT)
    ]
    articles = lance.write_dataset(make_articles(dict(enumerate(words))), uri)
    articles.create_scalar_index("body", "INVERTED")
    articles.create_index("embedding", "IVF_FLAT", num_partitions=8, metric="cosine")
    lance.dataset(uri).initialize_mem_wal(unsharded=True)


def plain_search(root: Path, text: str) -> list[int]:
    """Return the ids of the three best articles in the base table, best first."""
    base = lance.dataset(str(root / "articles.lance"))
    found = base.to_table(columns=["id", "_score"], full_text_query=text, limit=3)
    ids: list[int] = found["id"].to_pylist()
    return ids


def create_news(best: list[int]) -> dict[str, Any]:
    """Return an editor's changes: three new articles, the best one rewritten, the second one withdrawn."""
    fresh = {
        ARTICLE_COUNT + number: f"a {QUESTION} {QUESTION} keeps the {subject} awake"
        for number, subject in enumerate(SUBJECTS[:3])
    }
    return {"new": fresh, "rewritten": {best[0]: "the miller sells flour"}, "withdrawn": [best[1]]}
