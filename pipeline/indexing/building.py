"""Builds an index: in one segment for few rows, in parallel segments for many.

Centroids, codebook and rotation of a vector index are trained once and shared by its segments. So the
segments can be merged into one, and a search of all rows uses one set of partitions.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from lance.indices import IndicesBuilder
from lance.lance import indices as native

from lance_gateway.memwal.base.versions import commit_with_retries
from lance_gateway.memwal.creating.key_index import name_key_index
from lance_gateway.memwal.errors import AlreadyExistsError, PreconditionError
from lance_gateway.pipeline.indexing.indexes import Fragment, TableIndexes, record_training
from lance_gateway.pipeline.indexing.optimising import catch_up
from lance_gateway.pipeline.indexing.spec import IndexSpec
from lance_gateway.pipeline.jobs.lake import LakeTable, keeps_in_place
from lance_gateway.pipeline.jobs.runners import Progress, Runner, Threads, ignore_progress

_SAMPLE_RATE: Final = 256
_LEAST_SAMPLE_RATE: Final = 2


def train_shared_model(dataset: Any, spec: IndexSpec, rows: int) -> Mapping[str, Any] | None:  # noqa: ANN401 - lance types
    """Train the model that segments share, as arguments of Lance's `create_index_uncommitted`.

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
            centroids, given.get("num_sub_vectors"), sample_rate=rate, max_iters=iterations, num_bits=bits
        )
        arguments |= {"pq_codebook": codebook.codebook, "num_sub_vectors": codebook.num_subvectors}
    if spec.type == "IVF_RQ":
        bits = given.get("num_bits", 1)
        element = str(dataset.schema.field(spec.column).type.value_type)
        kind = {"halffloat": "float16", "float": "float32", "double": "float64"}.get(element, element)
        arguments |= {"rabitq_model": native.build_rq_model(builder.dimension, bits, kind), "num_bits": bits}
    return arguments


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The result of a build.

    Attributes:
        table: name of the table.
        index: name of the index.
        segments: number of segments that were built in parallel and merged.
        rows: number of rows that the index covers.
        version: version of the base table afterwards.
        is_maintained: whether generations flushed from now on have the index; true without MemWAL.
    """

    table: str
    index: str
    segments: int
    rows: int
    version: int
    is_maintained: bool


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """Fragments whose rows make one segment.

    Attributes:
        table: whose rows they are.
        version: of the base table.
        spec: of the index.
        fragments: ids, ascending.
        arguments: as Lance takes them.
    """

    table: LakeTable
    version: int
    spec: IndexSpec
    fragments: tuple[int, ...]
    arguments: Mapping[str, Any] = field(hash=False, repr=False)


@keeps_in_place
def build(
    table: LakeTable, spec: IndexSpec, *, runner: Runner | None = None, progress: Progress = ignore_progress
) -> BuildReport:
    """Build an index of a table.

    Rows that are merged meanwhile are added afterwards. The build begins again if a compaction is committed
    meanwhile.

    Args:
        table: table with a MemWAL or without.
        spec: specification of the index.
        runner: builds the segments.
        progress: shows the progress.

    Raises:
        NotFoundError: the table or column does not exist.
        UnsupportedError: the column can't have such an index.
        AlreadyExistsError: an index of that name exists.
        PreconditionError: Lance refuses the index; names its reason.
        UnavailableError: other commits came first in every attempt.
    """
    runner = runner or Threads()
    what = f"table {table.name!r}: can't build index {spec.name!r}"
    segments = commit_with_retries(what, lambda: _build_index(table, spec, runner, progress))
    catch_up(table, (spec.name,), runner, progress)
    after = TableIndexes.read(table)
    index = after.index(spec.name)
    if index is None:
        raise PreconditionError(
            f"table {table.name!r}: index {spec.name!r} was dropped as soon as it was built"
        )
    if index.is_vector:
        record_training(table.storage, None, index, after.rows, added=False)
    details = after.details
    is_maintained = details is None or (
        spec.kind.is_maintained and (details.maintain_all_indexes or spec.name in details.maintained_indexes)
    )
    rows = after.rows - index.unindexed_rows
    return BuildReport(table.name, spec.name, segments, rows, after.version, is_maintained)


def build_key_indexes(
    table: LakeTable, columns: Sequence[str], runner: Runner, progress: Progress
) -> tuple[str, ...]:
    """Build the indexes of key columns, and return their names.

    Indexes that others build meanwhile are left to them.

    Raises:
        PreconditionError: Lance refuses an index; names its reason.
        UnavailableError: other commits came first in every attempt.
    """
    built = []
    for column in columns:
        indexes = TableIndexes.read(table)
        if column not in indexes.unindexed_key_columns:
            continue
        name = name_key_index(column, {index.name for index in indexes.indexes})
        with suppress(AlreadyExistsError):
            build(table, IndexSpec(column, name=name), runner=runner, progress=progress)
            built.append(name)
    return tuple(built)


def build_segment(part: SegmentPart) -> Any:  # noqa: ANN401 - lance types
    """Build a segment, which belongs to no version yet; safe to repeat."""
    dataset = part.table.dataset(part.version)
    return dataset.create_index_uncommitted(
        part.spec.column,
        part.spec.type,
        name=part.spec.name,
        replace=part.spec.replaces,
        fragment_ids=list(part.fragments),
        **part.arguments,
    )


def _build_index(table: LakeTable, spec: IndexSpec, runner: Runner, progress: Progress) -> int:
    """Build and commit; returns how many segments it took."""
    indexes = TableIndexes.read(table)
    dataset = indexes.dataset
    spec.check(table, dataset.schema)
    if indexes.index(spec.name) is not None and not spec.replaces:
        raise AlreadyExistsError(
            f"table {table.name!r} has an index {spec.name!r} already: give another name, or say that it "
            "is to be replaced (--replace)"
        )
    if spec.kind.is_vector and not indexes.rows:
        raise PreconditionError(
            f"table {table.name!r}: an index of type {spec.type} is trained on rows of the base table, and "
            f"it has none yet: merge its generations first (lance-gateway pipeline merge {table.name})"
        )
    groups = _group_fragments(indexes.fragments, spec.segment_rows)
    arguments: dict[str, Any] = dict(spec.parameters)
    if spec.kind.is_vector:
        arguments.setdefault("metric", "l2")
    model: Mapping[str, Any] | None = {}
    if len(groups) > 1 and spec.kind.is_vector:
        with progress(f"train {spec.name} of {table.name}", 1, "model"):
            model = train_shared_model(dataset, spec, indexes.rows)
    if len(groups) < 2 or model is None:
        create = dataset.create_index if spec.kind.is_vector else dataset.create_scalar_index
        with progress(f"build {spec.name} of {table.name}", 1, "index"):
            create(spec.column, spec.type, name=spec.name, replace=spec.replaces, **arguments)
        return 1
    parts = [SegmentPart(table, indexes.version, spec, group, {**arguments, **model}) for group in groups]
    segments = []
    with progress(f"build {spec.name} of {table.name}", len(parts), "segment") as advance:
        for segment in runner.run(build_segment, parts, name=f"build {spec.name} of {table.name}"):
            segments.append(segment)
            advance(1)
    with progress(f"merge segments of {spec.name}", 1, "index"):
        whole = dataset.merge_existing_index_segments(segments)
    # On the version that it was built from: Lance refuses it if one of its fragments is gone since.
    dataset.commit_existing_index_segments(spec.name, spec.column, [whole])
    return len(parts)


def _group_fragments(fragments: Sequence[Fragment], segment_rows: int) -> tuple[tuple[int, ...], ...]:
    """Neighbours of about so many rows together."""
    groups: list[tuple[int, ...]] = []
    group: list[int] = []
    rows = 0
    for fragment in fragments:
        group.append(fragment.fragment_id)
        rows += fragment.rows
        if rows >= segment_rows:
            groups.append(tuple(group))
            group, rows = [], 0
    if group:
        groups.append(tuple(group))
    return tuple(groups)
