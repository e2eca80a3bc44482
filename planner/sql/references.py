"""Where a statement names tables: one walk over its tokens, scope by scope.

The walk knows where SQL puts table names (after FROM, JOIN and the commas between them, at any nesting depth)
and which names are common table expressions there. It needs no grammar of expressions, so every expression
that DataFusion reads or will read passes through it untouched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memwal.errors import InvalidInputError, UnsupportedError
from planner.sql.as_of import AS_OF_STARTS, AsOf, read_as_of
from planner.sql.tokens import STRING, SqlText, at_position

__all__ = ["QUERY_STARTS", "ColumnChain", "FunctionSite", "References", "TableSite", "find_references"]

QUERY_STARTS = frozenset({"SELECT", "WITH", "VALUES", "FROM"})
_WRITES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
_MAX_DEPTH = 100
MAX_RELATIONS = 5000
"""So many tables may a statement read, counted as often as they are planned."""
_NO_OPENING = frozenset({"", ")", "]", "}"})
_CLOSERS = {"(": ")", "[": "]", "{": "}"}


def _split_words(words: str) -> frozenset[str]:
    return frozenset(words.split())


_END_OF_FROM = _split_words("""
    WHERE GROUP HAVING ORDER LIMIT OFFSET FETCH UNION EXCEPT INTERSECT MINUS WINDOW QUALIFY SELECT FOR SORT
    CLUSTER DISTRIBUTE PREWHERE
""")
_NO_TABLE_NAMES = _split_words("SELECT FROM WHERE INTO LIMIT HAVING ON JOIN GROUP ORDER UNION")
# Words that DataFusion's parser does not take for a table's alias unless AS stands before them.
_NO_IMPLICIT_ALIAS = _split_words("""
    WITH EXPLAIN ANALYZE SELECT WHERE GROUP SORT HAVING ORDER PIVOT UNPIVOT TOP LATERAL VIEW LIMIT OFFSET
    FETCH UNION EXCEPT INTERSECT MINUS ON JOIN INNER CROSS FULL LEFT RIGHT NATURAL USING CLUSTER DISTRIBUTE
    GLOBAL ANTI SEMI RETURNING OUTPUT ASOF MATCH_CONDITION OUTER SET QUALIFY WINDOW END FOR PARTITION ARRAY
    PREWHERE SETTINGS FORMAT START CONNECT MATCH_RECOGNIZE SAMPLE TABLESAMPLE FROM OPEN
""")


@dataclass(slots=True)
class TableSite:
    """One place where a table is named.

    `parts` is the name as DataFusion reads it, `first` and `last` are its tokens, `has_alias` says whether
    the text names the relation itself, `common_table` is the CTE that the name means (None: table or view),
    `as_of` the past that the text asks for behind the name; `last` is then its last token.
    """

    first: int
    last: int
    parts: tuple[str, ...]
    has_alias: bool
    common_table: str | None = None
    as_of: AsOf | None = None


@dataclass(slots=True)
class FunctionSite:
    """One place where a table function is called in FROM.

    `name` is as DataFusion reads it, `first` is its token, `opening` and `closing` those of its brackets.
    """

    first: int
    opening: int
    closing: int
    name: str
    has_alias: bool


@dataclass(frozen=True, slots=True)
class ColumnChain:
    """A dotted name of three parts or more outside FROM, e.g. main.orders.id, from token `first` on."""

    first: int
    parts: tuple[str, ...]


@dataclass(slots=True)
class References:
    """What the walk found."""

    tables: list[TableSite] = field(default_factory=list)
    functions: list[FunctionSite] = field(default_factory=list)
    chains: list[ColumnChain] = field(default_factory=list)
    aliases: set[str] = field(default_factory=set)
    common_tables: set[str] = field(default_factory=set)
    # Token index of a CTE's defining name -> the name that it gets, where its own is taken further out.
    renamed: dict[int, str] = field(default_factory=dict)


def find_references(text: SqlText, start: int = 0, *, taken: frozenset[str] = frozenset()) -> References:
    """Finds every table reference of the query that begins at token `start`.

    Args:
        text: The statement.
        start: Index of the query's first token.
        taken: Names of CTEs that surround this text: DataFusion refuses a second CTE of the same name inside.

    Raises:
        InvalidInputError: brackets that do not match, a WITH clause that cannot be read, too deep nesting,
            CTEs that multiply.
        UnsupportedError: SELECT ... INTO.
    """
    walk = _Walk(text, taken)
    end = walk.read_level(start, "", {})
    if end < len(text.tokens):
        raise text.error(end, f"Unexpected {text.tokens[end].text!r}")
    walk.count_relations(0, start)
    return walk.found


@dataclass(slots=True)
class _Level:
    """Where the walk stands within one bracket level that begins at token `first`."""

    first: int
    in_query: bool
    in_from: bool
    expects_table: bool
    piped: bool = False


class _Walk:
    def __init__(self, text: SqlText, taken: frozenset[str]) -> None:
        self.text = text
        self._names = text.names
        self.words = text.words
        self.found = References()
        self._taken = taken
        self._depth = 0
        self._relations: dict[str, int] = {}  # of each CTE

    def read_level(
        self,
        start: int,
        close: str,
        scope: Mapping[str, str],
        *,
        factor: bool = False,
        later: tuple[int, str, str] | None = None,
    ) -> int:
        """Walks one bracket level from token `start` to its closing word, whose index is returned.

        `factor` tells that the level is a parenthesis in FROM, so it begins with a table. `later` gives a
        token from which one more CTE is in scope: the second branch of a recursive CTE sees the CTE itself.
        """
        words = self.words
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self.text.error(start, f"Brackets are nested more than {_MAX_DEPTH} deep")
        i = start
        if words[i] == "WITH" and not factor:
            i, scope = self._read_common_tables(i, scope)
            if words[i] in _WRITES:
                message = f"{words[i]} is no query, and a query is expected here; it stands"
                raise UnsupportedError(at_position(self.text.sql, self.text.start(i), message))
        state = _Level(i, in_query=factor, in_from=factor, expects_table=factor)
        while True:
            if later is not None and i >= later[0]:
                scope, later = {**scope, later[1]: later[2]}, None
            if state.expects_table:
                state.expects_table = False
                i = self._read_table(i, scope)
            word = words[i]
            if word == close:
                self._depth -= 1
                return i
            if word in _CLOSERS:
                i = self._read_group(i, scope)
                continue
            if word in _NO_OPENING:
                raise self._unbalanced_error(start, i, close)
            if words[i - 1] != "." or i == state.first:
                self._follow_word(i, word, state)
            i += 1

    def _follow_word(self, i: int, word: str, state: _Level) -> None:
        """Follows one word of a level: does a table stand next, or does FROM end?"""
        if word == ",":
            state.expects_table = state.in_from
        elif word == "JOIN":
            state.expects_table = state.in_from or state.piped
        elif word == "FROM":
            if (state.in_query or i == state.first) and not self._is_distinct_from(i):
                state.in_query = state.in_from = state.expects_table = True
        elif word == "|>":
            state.piped, state.in_from = True, False
        elif word in _END_OF_FROM:
            state.in_query = state.in_query or word == "SELECT"
            state.in_from = False
        elif word == "INTO" and state.in_query and not state.in_from:
            message = "SELECT ... INTO is not offered: use CREATE TABLE ... AS SELECT; INTO stands"
            raise UnsupportedError(at_position(self.text.sql, self.text.start(i), message))
        elif self.words[i + 1] == ".":
            self._record_chain(i)

    def _read_group(self, i: int, scope: Mapping[str, str]) -> int:
        """Walks one bracketed group and returns the index after it."""
        return self.read_level(i + 1, _CLOSERS[self.words[i]], scope) + 1

    def _is_distinct_from(self, i: int) -> bool:
        return self.words[i - 1] == "DISTINCT" and self.words[i - 2] in {"IS", "NOT"}

    def _record_chain(self, i: int) -> None:
        """Records a dotted name, for uses like main.orders.id or lance.main.orders.*."""
        words = self.words
        if i not in self._names:
            return
        parts = [self._names[i]]
        j = i
        while words[j + 1] == "." and (j + 2 in self._names or words[j + 2] == "*"):
            j += 2
            parts.append("*" if words[j] == "*" else self._names[j])
        if len(parts) > 2:
            self.found.chains.append(ColumnChain(i, tuple(parts)))

    # Tables in FROM

    def _read_table(self, i: int, scope: Mapping[str, str]) -> int:
        """Reads one table factor and its alias; returns the index after what was read."""
        words = self.words
        if words[i] == "LATERAL" or (words[i] == "TABLE" and words[i + 1] == "("):
            i += 1
        if words[i] == "(":
            return self._read_parenthesis(i, scope)
        if words[i] == "VALUES" and words[i + 1] == "(":
            i = self._read_group(i + 1, scope)
            while words[i] == "," and words[i + 1] == "(":
                i = self._read_group(i + 1, scope)
            return self._skip_alias(i)[0]
        if i not in self._names or words[i] in _NO_TABLE_NAMES:
            return i  # no table name: DataFusion says what is wrong
        first, parts = i, [self._names[i]]
        while words[i + 1] == "." and i + 2 in self._names:
            i += 2
            parts.append(self._names[i])
        if words[i + 1] == "(":  # a table function; its arguments may hold subqueries
            after = self._read_group(i + 1, scope)
            if words[after] in AS_OF_STARTS and read_as_of(self.text, after) is not None:
                message = (
                    "Only tables are read as of a version or a time, and functions are not; AS OF stands"
                )
                raise self.text.error(after, message)
            end, has_alias = self._skip_alias(after)
            if len(parts) == 1:
                self.found.functions.append(FunctionSite(first, i + 1, after - 1, parts[0], has_alias))
            return end
        site = TableSite(first, i, tuple(parts), has_alias=False)
        if len(parts) == 1 and parts[0] in scope:
            site.common_table = scope[parts[0]]
        as_of = read_as_of(self.text, i + 1) if words[i + 1] in AS_OF_STARTS else None
        if as_of is not None:
            site.as_of, i = as_of[0], as_of[1] - 1
            site.last = i
        self.found.tables.append(site)
        self.found.aliases.add(parts[-1])
        i, site.has_alias = self._skip_alias(i + 1)
        return i

    def _skip_alias(self, i: int) -> tuple[int, bool]:
        """Steps over `AS alias` or `alias` and says whether one stood there."""
        words = self.words
        explicit = words[i] == "AS"
        name = i + 1 if explicit else i
        if name in self._names and (explicit or words[name] not in _NO_IMPLICIT_ALIAS):
            self.found.aliases.add(self._names[name])
            return name + 1, True
        if words[name] == STRING:
            return name + 1, True
        return name, False

    def _read_parenthesis(self, i: int, scope: Mapping[str, str]) -> int:
        """Reads a derived table or a parenthesised join."""
        before = len(self.found.tables)
        if self.words[i + 1] in QUERY_STARTS:
            end = self._read_group(i, scope)
        else:
            end = self.read_level(i + 1, ")", scope, factor=True) + 1
        after, has_alias = self._skip_alias(end)
        sites = self.found.tables[before:]
        if has_alias and len(sites) == 1:
            inside = (*self.words[i : sites[0].first], *self.words[sites[0].last + 1 : end])
            # "(orders) AS o" is one table with one alias: a second one inside would be refused.
            sites[0].has_alias = sites[0].has_alias or set(inside) <= {"(", ")"}
        return after

    # WITH

    def _read_common_tables(self, i: int, scope: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
        """Reads a WITH clause; returns the index after it and the scope of what follows."""
        words, text = self.words, self.text
        outer = self._taken | frozenset(scope)
        i += 1
        recursive = words[i] == "RECURSIVE"
        i += recursive
        while True:
            if i not in self._names:
                raise text.error(i, "WITH needs the name of a common table expression")
            name = self._names[i]
            shown = name
            if name in outer:
                shown = self._make_unused_name(name, outer)
                self.found.renamed[i] = shown
            self.found.common_tables.update((name, shown))
            self.found.aliases.add(name)
            i += 1
            if words[i] == "(" and words[i + 1] not in {*QUERY_STARTS, "("}:
                i = self._read_group(i, scope)
            while words[i] in {"AS", "NOT", "MATERIALIZED"}:
                i += 1
            if words[i] != "(":
                raise text.error(i, f"The common table expression {name!r} needs AS (SELECT ...)")
            later = (self._find_recursive_branch(i), name, shown) if recursive else None
            before, body = len(self.found.tables), i
            i = self.read_level(i + 1, ")", scope, later=later) + 1
            self._relations[shown] = self.count_relations(before, body)
            scope = {**scope, name: shown}
            if words[i] != ",":
                return i, scope
            i += 1

    def count_relations(self, first: int, start: int) -> int:
        """How many relations DataFusion plans for the tables found from number `first` on.

        It plans a CTE anew wherever that is named: CTEs that name the one before them twice multiply.

        Raises:
            InvalidInputError: they are too many; the text begins at token `start`.
        """
        sites = self.found.tables[first:]
        count = 1 + sum(self._relations.get(site.common_table or "", 1) for site in sites)
        if count > MAX_RELATIONS:
            message = f"Tables and common table expressions are read {count} times in all, more than"
            raise self.text.error(start, f"{message} the {MAX_RELATIONS} that are allowed, in the query")
        return count

    def _find_recursive_branch(self, i: int) -> int:
        """Index of the last UNION of the parenthesis that opens at `i`; past the end where there is none."""
        depth, union = 0, len(self.words)
        for j in range(i, len(self.words)):
            word = self.words[j]
            if word in _CLOSERS:
                depth += 1
            elif word in {")", "]", "}"}:
                depth -= 1
                if depth == 0:
                    return min(union, len(self.words))
            elif word == "UNION" and depth == 1:
                union = j
        return union

    def _make_unused_name(self, name: str, outer: frozenset[str]) -> str:
        number = 2
        while (fresh := f"{name}#cte{number}") in outer or fresh in self.found.common_tables:
            number += 1
        return fresh

    def _unbalanced_error(self, start: int, i: int, close: str) -> InvalidInputError:
        if not self.words[i]:
            return self.text.error(start - 1, f"The bracket is not closed with {close!r}: it opens")
        wanted = f"{close!r} is expected" if close else "no bracket is open"
        return self.text.error(i, f"Unexpected {self.words[i]!r} ({wanted})")
