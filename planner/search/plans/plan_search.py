"""The branches of a search: a tree of exec nodes for vectors, one for texts, or both, fused."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from execnodes import ExecNode, RowFilter, UnionExec
from execnodes.search.operators.empty import EmptyExec
from execnodes.search.operators.sort import LimitExec, SortExec
from execnodes.search.request import Staleness, VectorRequest
from execnodes.search.source import SCORE, TEXT_CANDIDATES, IndexDescription, SearchSource
from execnodes.storage.source import ColumnCache
from execnodes.text.admission import AdmittedRows
from execnodes.text.fts import FtsExec
from execnodes.text.global_bm25 import GlobalBM25Exec
from execnodes.text.query.clauses import analyze
from execnodes.text.query.query import TextQuery
from execnodes.text.query.tokenizer import Tokenizer
from execnodes.text.scoring.corpus import Corpus
from memwal.errors import PreconditionError
from planner.predicates.row_filter import PredicateFilter
from planner.search.conditions.row_admission import Admission
from planner.search.conditions.row_conditions import Condition
from planner.search.plans.vector import plan_vector
from planner.search.request.hybrid import plan_hybrid
from planner.search.request.search_request import Search
from planner.search.sources.catch_up import CatchUp, CatchUpMode
from planner.search.sources.index_coverage import (
    Coverage,
    IndexKind,
    coverage,
    described,
    index_metric,
    text_index,
)
from planner.search.sources.newer_rows import StaleRows, stale_rows, with_own_newest
from planner.search.sources.search_sources import search_sources
from planner.search.sources.source_texts import SourceTexts
from planner.tables.sources.base_table import BaseTable
from planner.tables.sources.byte_cache import ByteCache
from planner.tables.sources.snapshot import TableSnapshot
from planner.tables.state.table import Table
from planner.tables.visibility.visibility import SnapshotMasks, Visibility


def text_indexes(base: BaseTable, query: TextQuery, shown: Container[str]) -> dict[str, IndexDescription]:
    """The base table's text index on each column of a query: by its tokenizer all rows are searched.

    Args:
        base: the table.
        query: what is searched for.
        shown: columns of which messages may speak.

    Raises:
        InvalidInputError: a column has none.
        UnsupportedError: a column's index tokenizes in a way that can't be repeated.
        PreconditionError: an index that can't answer the query's phrases.
    """
    found = {column: described(text_index(base, column, shown)) for column in query.columns}
    tokenizers = {column: Tokenizer.of(index.details) for column, index in found.items()}
    for phrase in analyze(query, tokenizers).phrases:
        if not found[phrase.column].details.get("with_position"):
            msg = (
                f"the text index {found[phrase.column].name!r} on column {phrase.column!r} of table "
                f"{base.name!r} doesn't know where words stand, which a phrase needs: build it anew with "
                "with_position=True"
            )
            raise PreconditionError(msg)
    return found


def plan_text(
    visible: Sequence[SearchSource],
    admitted: Sequence[SearchSource],
    query: TextQuery,
    k: int,
    row_filter: RowFilter | None,
    indexes: Mapping[str, IndexDescription],
    cache: ByteCache,
    deletions: ColumnCache,
) -> ExecNode:
    """``LimitExec(SortExec(GlobalBM25Exec(UnionExec(FtsExec...))))``, giving `TEXT_CANDIDATES`.

    Args:
        visible: sources of all regions; their live rows are what statistics are about.
        admitted: those in which rows are to be found, by the same numbers, their masks perhaps narrower.
        query: what is searched for.
        k: rows wanted.
        row_filter: what rows must fulfil to be found.
        indexes: as `text_indexes` finds them for the columns of the query.
        cache: keeps postings and statistics.
        deletions: knows which rows Lance has deleted.
    """
    opened = SourceTexts(indexes, cache, deletions)
    texts = {one.number: opened.open(one) for one in visible}
    corpus = Corpus(query, opened.tokenizers, tuple(texts.values()), opened.quantized)
    searches = tuple(
        FtsExec(texts[one.number], corpus, k, AdmittedRows(one.live, row_filter)) for one in admitted
    )
    if not searches:
        return LimitExec(SortExec(EmptyExec(TEXT_CANDIDATES), SCORE, descending=True), k)
    found = GlobalBM25Exec(UnionExec(searches), corpus, k)
    return LimitExec(SortExec(found, SCORE, descending=True), k)


@dataclass(frozen=True, eq=False, slots=True)
class Found:
    """What a search finds.

    Attributes:
        candidates: node that gives them, best first.
        sources: which their numbers mean.
    """

    candidates: ExecNode
    sources: tuple[SearchSource, ...]


@dataclass(frozen=True, eq=False)
class Branches:
    """Plans the searches of one table reference.

    Args:
        table: that is searched.
        snapshot: of it.
        visibility: where masks come from.
        regions: whose fresh rows may be found; those of others only supersede, and count in text statistics.
        admission: says which rows the principal may see, and which fulfil conditions.
        before: what rows must fulfil to be ranked; None admits all.
        residual: more of that.
        catch_up: when merged generations answer for rows that an index lacks.
        uses_indexes: whether indexes find rows; without them, all rows are compared.
    """

    table: Table
    snapshot: TableSnapshot
    visibility: Visibility
    regions: frozenset[str]
    admission: Admission
    before: PredicateFilter | None
    residual: Sequence[Condition]
    catch_up: CatchUpMode = CatchUpMode.AUTO
    uses_indexes: bool = True

    def plan(self, search: Search) -> Found:
        """Candidates of a search, at most k for each query.

        Raises:
            LanceGatewayError: a source can't be read, or there is no text index.
        """
        if search.vector is None:
            assert search.text is not None  # noqa: S101 (a search is for one of them)
            return self._text(search.text, search.k)
        if search.text is None or search.hybrid is None:
            return self._vector(search.vector, self.regions)
        wanted = search.hybrid.candidates
        # Both look into the same sources, so that they mean the same row by the same place.
        vector_index = self._vector_coverage(search.vector)
        text_index = coverage(self.snapshot.base, search.text.columns[0], IndexKind.TEXT)
        everywhere = frozenset(self.snapshot.regions)
        vector = self._vector(replace(search.vector, k=wanted), everywhere, (text_index,))
        text = self._text(search.text, wanted, (vector_index,))
        queries = len(search.vector.vectors)
        candidates, sources = plan_hybrid(
            vector.candidates, vector.sources, text.candidates, text.sources, search.hybrid, queries
        )
        return Found(candidates, sources)

    def _vector(
        self, request: VectorRequest, regions: frozenset[str], together_with: tuple[Coverage, ...] = ()
    ) -> Found:
        covered = self._vector_coverage(request)
        metric = request.metric or index_metric(self.snapshot.base, request.column)
        stale: StaleRows | None = None
        if (
            request.staleness is Staleness.EXACT
            or together_with
            or not (self._supersedes and self.uses_indexes)
        ):
            sources = self._sources(covered, regions, metric, together_with)
        else:
            # Without masks, which take the keys of the base table to make.
            sources = search_sources(
                self.snapshot, None, regions, covered.column, covered.kind, metric=metric
            )
            sources = with_own_newest(self.snapshot, sources)
            stale = stale_rows(self.snapshot, sources, self.table.cache, self.table.columns)
        sources = self.admission.visible(sources)
        admitted, before = self.admission.admitted(self._searched(sources), self.before, self.residual)
        found = plan_vector(admitted, replace(request, metric=metric), before, self.table.cache, stale)
        return Found(found, sources)

    def _text(self, query: TextQuery, k: int, together_with: tuple[Coverage, ...] = ()) -> Found:
        base = self.snapshot.base
        indexes = text_indexes(base, query, self.admission.shown_columns(base.schema))
        covered = coverage(base, query.columns[0], IndexKind.TEXT)
        everywhere = frozenset(self.snapshot.regions)
        sources = self.admission.visible(self._sources(covered, everywhere, None, together_with))
        admitted, before = self.admission.admitted(self._searched(sources), self.before, self.residual)
        table = self.table
        found = plan_text(sources, admitted, query, k, before, indexes, table.cache, table.columns)
        return Found(found, sources)

    def _vector_coverage(self, request: VectorRequest) -> Coverage:
        return coverage(self.snapshot.base, request.column, IndexKind.VECTOR, request.metric)

    def _sources(
        self,
        covered: Coverage,
        regions: frozenset[str],
        metric: str | None,
        together_with: tuple[Coverage, ...],
    ) -> tuple[SearchSource, ...]:
        return search_sources(
            self.snapshot,
            self._masks,
            regions,
            covered.column,
            covered.kind,
            metric=metric,
            catch_up=CatchUp(self.table, self.visibility, self.catch_up, self.admission.check),
            together_with=together_with,
            uses_indexes=self.uses_indexes,
        )

    def _searched(self, sources: Sequence[SearchSource]) -> tuple[SearchSource, ...]:
        """The sources that may have rows to be found."""
        return tuple(one for one in sources if one.region_id is None or one.region_id in self.regions)

    @cached_property
    def _masks(self) -> SnapshotMasks | None:
        """What is live; None where no row supersedes another."""
        return self.visibility.masks(self.snapshot) if self._supersedes else None

    @property
    def _supersedes(self) -> bool:
        """Whether rows may supersede others."""
        return bool(self.snapshot.base.primary_key) and self.snapshot.has_fresh_rows
