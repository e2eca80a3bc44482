"""Vectors and texts to search: clustered as embeddings are, worded as language is, the same in every run."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Vectors = npt.NDArray[np.float32]
Keys = npt.NDArray[np.int64]

GROUPS = 100
_LATENT_DIMENSIONS = 16
_ROWS_PER_CLUSTER = 400
_SPREAD = 0.8
_NOISE = 0.05
_SLICE = 100_000

_VOCABULARY = 20_000
_SHORTEST, _LONGEST = 20, 50
# Words end in "o": the English stemmer leaves them as they are, and none is a stop word.
_SYLLABLES = [a + b for a in "bdfgklmnprtvz" for b in "aiou"]

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field("grp", pa.int32()),
        pa.field("text", pa.string()),
    ]
)
"""The table's columns but for `vec`, whose dimension is the shape's to say."""


def schema(dimension: int) -> pa.Schema:
    """Return the columns of a table with vectors of a dimension."""
    return SCHEMA.append(pa.field("vec", pa.list_(pa.float32(), dimension)))


class VectorSource:
    """Draws vectors around the centres of many clusters; few directions carry most of what differs."""

    def __init__(self, rows: int, dimension: int, rng: np.random.Generator) -> None:
        latent = min(_LATENT_DIMENSIONS, dimension)
        self._rng = rng
        self._centres = rng.standard_normal((max(16, rows // _ROWS_PER_CLUSTER), latent), dtype=np.float32)
        mapping = rng.standard_normal((latent, dimension), dtype=np.float32)
        self._mapping = mapping / np.float32(np.sqrt(latent))

    def draw(self, count: int) -> Vectors:
        """So many vectors, one a row."""
        parts = [self._draw_some(min(_SLICE, count - start)) for start in range(0, count, _SLICE)]
        return np.concatenate(parts) if parts else self._draw_some(0)

    def _draw_some(self, count: int) -> Vectors:
        rng = self._rng
        chosen = self._centres[rng.integers(0, len(self._centres), count)]
        latent = chosen + np.float32(_SPREAD) * rng.standard_normal(chosen.shape, dtype=np.float32)
        noise = rng.standard_normal((count, self._mapping.shape[1]), dtype=np.float32)
        vectors: Vectors = latent @ self._mapping + np.float32(_NOISE) * noise
        return vectors


class TextSource:
    """Draws texts of 20 to 50 words; the n-th most frequent word comes n times less often than the first."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._words = pa.array(_draw_vocabulary())
        weights = 1 / np.arange(1, _VOCABULARY + 1)
        self._cumulative = np.cumsum(weights / weights.sum())

    def draw(self, count: int) -> pa.StringArray:
        """So many texts."""
        lengths = self._rng.integers(_SHORTEST, _LONGEST + 1, count)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        ranks = np.searchsorted(self._cumulative, self._rng.random(int(offsets[-1])))
        words = self._words.take(pa.array(np.minimum(ranks, _VOCABULARY - 1)))
        return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), words), " ")

    def draw_queries(self, count: int) -> list[str]:
        """Return queries of two or three words, frequent ones and rare ones."""
        drawn = np.exp(self._rng.uniform(np.log(10), np.log(5_000), (count, 3))).astype(np.int64)
        words = self._words.to_pylist()
        return [" ".join(words[rank] for rank in row[: 2 + n % 2]) for n, row in enumerate(drawn)]


class SearchContent:
    """The newest version of every row, while versions are drawn one after the other.

    Args:
        rows: of the base table.
        dimension: of the vectors.
        texts: whether rows have texts; otherwise these are empty.
    """

    def __init__(self, rows: int, dimension: int, *, texts: bool = True) -> None:
        rng = np.random.default_rng(0)
        self._vector_source = VectorSource(rows, dimension, rng)
        self._text_source = TextSource(rng)
        self._dimension = dimension
        self._has_texts = texts
        self.vectors = self._vector_source.draw(rows)
        self.texts = self._draw_texts(rows)

    def table(self) -> pa.Table:
        """Return the newest version of every row, by ascending key."""
        return self._build_table(np.arange(len(self.vectors)), self.vectors, self.texts)

    def put(self, ids: Keys) -> pa.Table:
        """New versions of these distinct rows, far from where they were; keys at the end grow the table."""
        vectors, texts = self._vector_source.draw(len(ids)), self._draw_texts(len(ids))
        missing = int(ids.max(initial=-1)) + 1 - len(self.vectors)
        if missing > 0:
            self.vectors = np.concatenate([self.vectors, np.zeros((missing, self._dimension), np.float32)])
            self.texts = np.concatenate([self.texts, _create_empty(missing)])
        self.vectors[ids] = vectors
        self.texts[ids] = texts
        return self._build_table(ids, vectors, texts)

    def draw_queries(self, count: int) -> tuple[Vectors, list[str]]:
        """So many vectors that no row holds, from among the same clusters, and texts to search for."""
        return self._vector_source.draw(count), self._text_source.draw_queries(count)

    def _draw_texts(self, count: int) -> npt.NDArray[np.object_]:
        if not self._has_texts:
            return _create_empty(count)
        return np.asarray(self._text_source.draw(count).to_pylist(), dtype=object)

    def _build_table(self, ids: Keys, vectors: Vectors, texts: npt.NDArray[np.object_]) -> pa.Table:
        flat = pa.array(np.ascontiguousarray(vectors).ravel())
        columns = {
            "id": ids,
            "grp": (ids % GROUPS).astype(np.int32),
            "text": pa.array(texts, pa.string()),
            "vec": pa.FixedSizeListArray.from_arrays(flat, self._dimension),
        }
        return pa.table(columns, schema=schema(self._dimension))


def find_nearest(vectors: Vectors, queries: Vectors, k: int) -> Keys:
    """Return the row numbers of the k nearest vectors (squared l2) of each query by brute force."""
    best_distances = np.full((len(queries), k), np.inf, dtype=np.float32)
    best = np.zeros((len(queries), k), dtype=np.int64)
    for start in range(0, len(vectors), _SLICE):
        part = vectors[start : start + _SLICE]
        # The query's own square is the same for all rows: it does not change the order.
        distances = np.einsum("ij,ij->i", part, part)[None, :] - 2 * queries @ part.T
        rows = np.broadcast_to(np.arange(start, start + len(part)), distances.shape)
        distances = np.concatenate([best_distances, distances], axis=1)
        rows = np.concatenate([best, rows], axis=1)
        chosen = np.argpartition(distances, k - 1, axis=1)[:, :k]
        best_distances = np.take_along_axis(distances, chosen, axis=1)
        best = np.take_along_axis(rows, chosen, axis=1)
    return np.take_along_axis(best, np.argsort(best_distances, axis=1, kind="stable"), axis=1)


def _create_empty(count: int) -> npt.NDArray[np.object_]:
    return np.full(count, "", dtype=object)


def _draw_vocabulary() -> list[str]:
    """Return distinct words, short ones first."""
    words = [f"{a}{b}{c}o" for a in _SYLLABLES for b in _SYLLABLES for c in "bdfgklmnprtvz"]
    return words[:_VOCABULARY]
