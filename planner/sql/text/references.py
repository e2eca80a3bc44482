"""Finds the table references of a statement in one walk over its tokens, scope by scope.

Table names stand after FROM, JOIN and the commas between them, at any nesting depth; some of them are common
table expressions. The walk does not parse expressions, so all expressions of DataFusion are supported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.planner.sql.text.as_of import AS_OF_STARTS, AsOf, read_as_of
from lance_gateway.planner.sql.text.tokens import STRING, PlacedMessage, SqlText

QUERY_STARTS = frozenset({"SELECT", "WITH", "VALUES", "FROM"})
_WRITES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
_MAX_DEPTH = 100
MAX_RELATIONS = 5000
"""The number of relations in a statement, each counted as often as it is planned."""
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
    """A table name in a statement.

    Attributes:
        first: its first token.
        last: its last token, or that of AS OF behind it.
        parts: of the name, as DataFusion reads it.
        has_alias: whether an alias follows.
        common_table: the CTE to which the name refers; None for a table or view.
        as_of: the past version behind the name.
    """

    first: int
    last: int
    parts: tuple[str, ...]
    has_alias: bool
    common_table: str | None = None
    as_of: AsOf | None = None


@dataclass(slots=True)
class FunctionSite:
    """A call of a table function in FROM.

    Attributes:
        first: token of the name.
        opening: token of the opening bracket.
        closing: token of the closing bracket.
        name: as DataFusion reads it.
        has_alias: whether an alias follows.
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
    """The references in a statement."""

    tables: list[TableSite] = field(default_factory=list)
    functions: list[FunctionSite] = field(default_factory=list)
    chains: list[ColumnChain] = field(default_factory=list)
    # First tokens of names of two parts outside FROM, e.g. orders.id.
    aliases: set[str] = field(default_factory=set)
    common_tables: set[str] = field(default_factory=set)
    # Token of a CTE's name -> its new name, if an outer CTE has the same name.
    renamed: dict[int, str] = field(default_factory=dict)


def find_references(text: SqlText, start: int = 0, *, taken: frozenset[str] = frozenset()) -> References:
    """Find the table references of the query that begins at token `start`.

    Args:
        text: the statement.
        start: index of the first token of the query.
        taken: names of outer CTEs, which DataFusion does not allow to be defined again.

    Raises:
        InvalidInputError: brackets do not match or are nested too deeply, a WITH clause is not valid, or CTEs
            are read too often.
        UnsupportedError: SELECT ... INTO.
    """
    walk = _Walk(text, taken)
    end = walk.read_level(start, "", {})
    if end < len(text.tokens):
        raise text.error(end, f"Unexpected {text.tokens[end].text!r}")
    walk.count_relations(0, start)
    return walk.references


@dataclass(slots=True)
class _Level:
    """The state of the walk within one bracket level that begins at token `first`."""

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
        self.references = References()
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
        """Walk one bracket level, and return the index of its closing word.

        Args:
            start: its first token.
            close: its closing word.
            scope: CTE -> name that it gets.
            factor: whether the level is a parenthesis in FROM, which begins with a table.
            later: a token from which one more CTE is in scope, with its name and new name: the second branch
                of a recursive CTE may read the CTE.
        """
        words = self.words
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self.text.error(start, f"Brackets are nested more than {_MAX_DEPTH} deep")
        i = start
        if words[i] == "WITH" and not factor:
            i, scope = self._read_common_tables(i, scope)
            if words[i] in _WRITES:
                message = f"{words[i]} is not a query, and a query is expected here"
                raise UnsupportedError(PlacedMessage(self.text.sql, self.text.start(i), message))
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
        """Update the state after one word: a table may follow, or FROM may end."""
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
            message = "SELECT ... INTO is not supported: use CREATE TABLE ... AS SELECT"
            raise UnsupportedError(PlacedMessage(self.text.sql, self.text.start(i), message))
        elif self.words[i + 1] == ".":
            self._record_chain(i)

    def _read_group(self, i: int, scope: Mapping[str, str]) -> int:
        """Walk one bracketed group, and return the index behind it."""
        return self.read_level(i + 1, _CLOSERS[self.words[i]], scope) + 1

    def _is_distinct_from(self, i: int) -> bool:
        return self.words[i - 1] == "DISTINCT" and self.words[i - 2] in {"IS", "NOT"}

    def _record_chain(self, i: int) -> None:
        """Record a name of two parts, or of more, such as main.orders.id or lance.main.orders.*."""
        words = self.words
        if i not in self._names:
            return
        parts = [self._names[i]]
        j = i
        while words[j + 1] == "." and (j + 2 in self._names or words[j + 2] == "*"):
            j += 2
            parts.append("*" if words[j] == "*" else self._names[j])
        if len(parts) > 2:
            self.references.chains.append(ColumnChain(i, tuple(parts)))

    # Tables in FROM

    def _read_table(self, i: int, scope: Mapping[str, str]) -> int:
        """Read one table factor and its alias; return the index behind them."""
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
            return i  # no table name: DataFusion raises the error
        first, parts = i, [self._names[i]]
        while words[i + 1] == "." and i + 2 in self._names:
            i += 2
            parts.append(self._names[i])
        if words[i + 1] == "(":  # a table function; its arguments may hold subqueries
            after = self._read_group(i + 1, scope)
            if words[after] in AS_OF_STARTS and read_as_of(self.text, after) is not None:
                message = "Only tables are read as of a version or a time, and functions are not"
                raise self.text.error(after, message)
            end, has_alias = self._skip_alias(after)
            if len(parts) == 1:
                self.references.functions.append(FunctionSite(first, i + 1, after - 1, parts[0], has_alias))
            return end
        site = TableSite(first, i, tuple(parts), has_alias=False)
        if len(parts) == 1 and parts[0] in scope:
            site.common_table = scope[parts[0]]
        as_of = read_as_of(self.text, i + 1) if words[i + 1] in AS_OF_STARTS else None
        if as_of is not None:
            site.as_of, i = as_of[0], as_of[1] - 1
            site.last = i
        self.references.tables.append(site)
        self.references.aliases.add(parts[-1])
        i, site.has_alias = self._skip_alias(i + 1)
        return i

    def _skip_alias(self, i: int) -> tuple[int, bool]:
        """Skip `AS alias` or `alias`; return the index behind it, and whether there is one."""
        words = self.words
        explicit = words[i] == "AS"
        name = i + 1 if explicit else i
        if name in self._names and (explicit or words[name] not in _NO_IMPLICIT_ALIAS):
            self.references.aliases.add(self._names[name])
            return name + 1, True
        if words[name] == STRING:
            return name + 1, True
        return name, False

    def _read_parenthesis(self, i: int, scope: Mapping[str, str]) -> int:
        """Read a derived table or a parenthesised join; return the index behind it."""
        before = len(self.references.tables)
        if self.words[i + 1] in QUERY_STARTS:
            end = self._read_group(i, scope)
        else:
            end = self.read_level(i + 1, ")", scope, factor=True) + 1
        after, has_alias = self._skip_alias(end)
        sites = self.references.tables[before:]
        if has_alias and len(sites) == 1:
            inside = (*self.words[i : sites[0].first], *self.words[sites[0].last + 1 : end])
            # "(orders) AS o" is a table with an alias, and DataFusion refuses a second alias inside.
            sites[0].has_alias = sites[0].has_alias or set(inside) <= {"(", ")"}
        return after

    # WITH

    def _read_common_tables(self, i: int, scope: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
        """Read a WITH clause; return the index behind it, and the scope of the query that follows."""
        words, text = self.words, self.text
        outer = self._taken | frozenset(scope)
        i += 1
        recursive = words[i] == "RECURSIVE"
        i += recursive
        while True:
            if i not in self._names:
                raise text.error(i, "WITH needs the name of a common table expression")
            name = self._names[i]
            unique_name = name
            if name in outer:
                unique_name = self._make_unused_name(name, outer)
                self.references.renamed[i] = unique_name
            self.references.common_tables.update((name, unique_name))
            self.references.aliases.add(name)
            i += 1
            if words[i] == "(" and words[i + 1] not in {*QUERY_STARTS, "("}:
                i = self._read_group(i, scope)
            while words[i] in {"AS", "NOT", "MATERIALIZED"}:
                i += 1
            if words[i] != "(":
                raise text.error(i, f"The common table expression {name!r} needs AS (SELECT ...)")
            later = (self._find_recursive_branch(i), name, unique_name) if recursive else None
            before, body = len(self.references.tables), i
            i = self.read_level(i + 1, ")", scope, later=later) + 1
            self._relations[unique_name] = self.count_relations(before, body)
            scope = {**scope, name: unique_name}
            if words[i] != ",":
                return i, scope
            i += 1

    def count_relations(self, first: int, start: int) -> int:
        """Count the relations that DataFusion plans for the tables from number `first` on.

        A CTE is planned again for each reference, so CTEs that read the one before them twice multiply.

        Raises:
            InvalidInputError: there are too many; the text begins at token `start`.
        """
        sites = self.references.tables[first:]
        count = 1 + sum(self._relations.get(site.common_table or "", 1) for site in sites)
        if count > MAX_RELATIONS:
            message = f"Tables and common table expressions are read {count} times in all, more than"
            raise self.text.error(start, f"{message} the {MAX_RELATIONS} that are allowed, in the query")
        return count

    def _find_recursive_branch(self, i: int) -> int:
        """Return the index of the last UNION in the parenthesis that opens at `i`; the end if none."""
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
        while (fresh := f"{name}#cte{number}") in outer or fresh in self.references.common_tables:
            number += 1
        return fresh

    def _unbalanced_error(self, start: int, i: int, close: str) -> InvalidInputError:
        if not self.words[i]:
            return self.text.error(start - 1, f"The bracket is not closed with {close!r}")
        wanted = f"{close!r} is expected" if close else "no bracket is open"
        return self.text.error(i, f"Unexpected {self.words[i]!r} ({wanted})")
