"""What the segments of a vector index share, trained once: centroids, a codebook, a rotation.

Segments that share them can be merged into one, and one set of partitions serves a search of all rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from lance.indices import IndicesBuilder
from lance.lance import indices as native

from pipeline.indexing.spec import IndexSpec

_SAMPLE_RATE: Final = 256
_LEAST_SAMPLE_RATE: Final = 2


def shared_model(dataset: Any, spec: IndexSpec, rows: int) -> Mapping[str, Any] | None:  # noqa: ANN401 (lance types)
    """Train what segments share, as arguments of Lance's `create_index_uncommitted`.

    Args:
        dataset: the `lance.LanceDataset`.
        spec: of a vector index.
        rows: of the dataset.

    Returns:
        None where there are too few rows to sample them.
    """
    given = spec.parameters
    partitions = given.get("num_partitions") or max(round(math.sqrt(rows)), 1)
    bits = given.get("num_bits", 8)
    classes = max(partitions, 2**bits if spec.kind.has_codebook else 1)
    rate = min(given.get("sample_rate", _SAMPLE_RATE), rows // classes)
    if rate < _LEAST_SAMPLE_RATE:
        return None
    iterations = given.get("max_iters", 50)
    builder = IndicesBuilder(dataset, spec.column)
    metric = given.get("metric", "l2")
    centroids = builder.train_ivf(partitions, distance_type=metric, sample_rate=rate, max_iters=iterations)
    arguments = {"num_partitions": partitions, "ivf_centroids": centroids.centroids}
    if spec.kind.has_codebook:
        codebook = builder.train_pq(
            centroids,
            given.get("num_sub_vectors"),
            sample_rate=rate,
            max_iters=iterations,
            num_bits=bits,
        )
        arguments |= {"pq_codebook": codebook.codebook, "num_sub_vectors": codebook.num_subvectors}
    if spec.type == "IVF_RQ":
        bits = given.get("num_bits", 1)
        element = str(dataset.schema.field(spec.column).type.value_type)
        kind = {"halffloat": "float16", "float": "float32", "double": "float64"}.get(element, element)
        arguments |= {
            "rabitq_model": native.build_rq_model(builder.dimension, bits, kind),
            "num_bits": bits,
        }
    return arguments
