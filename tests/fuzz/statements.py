"""Statements by the thousand: grammatical ones, trees that sqlglot prints, and texts with damage in them."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

NUMBER, TEXT, TRUTH, MOMENT = KINDS = ("number", "text", "truth", "moment")
COLUMNS: dict[str, dict[str, tuple[str, ...]]] = {
    "orders": {NUMBER: ("id", "amount"), TEXT: ("customer",)},
    "big_orders": {NUMBER: ("id", "amount")},
    "typed": {
        NUMBER: ("id", "tiny", "ularge", "single", "price"),
        TEXT: ("text",),
        TRUTH: ("flag",),
        MOMENT: ("day", "moment", "instant"),
    },
    "system.tables": {TEXT: ("name",)},
}
LITERALS: dict[str, tuple[str, ...]] = {
    NUMBER: ("0", "1", "-1", "42", "9223372036854775807", "9223372036854775808", "1e308", "0.1", "NULL"),
    TEXT: ("''", "'customer 3'", "'grün'", "'''quoted'''", "'2026-02-28'", "'%_'", "'1'", "NULL"),
    TRUTH: ("TRUE", "FALSE", "NULL"),
    MOMENT: ("DATE '2026-02-28'", "TIMESTAMP '2026-02-28 23:59:59.123456'", "now()", "CAST(NULL AS DATE)"),
}
# What there is to call: the kind of the result, and what stands in it and of which kinds.
CALLS: dict[str, tuple[tuple[str, ...], ...]] = {
    NUMBER: (
        ("({} + {})", NUMBER, NUMBER), ("({} / {})", NUMBER, NUMBER), ("({} % {})", NUMBER, NUMBER),
        ("abs({})", NUMBER), ("round({}, {})", NUMBER, NUMBER), ("sqrt({})", NUMBER), ("length({})", TEXT),
        ("power({}, {})", NUMBER, NUMBER), ("sum({})", NUMBER), ("count(DISTINCT {})", TEXT),
        ("avg({}) OVER (PARTITION BY {})", NUMBER, TEXT), ("row_number() OVER (ORDER BY {})", MOMENT),
        ("coalesce({}, {})", NUMBER, NUMBER), ("CASE WHEN {} THEN {} ELSE {} END", TRUTH, NUMBER, NUMBER),
        ("CAST({} AS SMALLINT)", NUMBER), ("CAST({} AS DECIMAL(5, 1))", TEXT), ("lag({}, 1) OVER ()", NUMBER),
        ("EXTRACT(YEAR FROM {})", MOMENT), ("(SELECT max(id) FROM orders WHERE {})", TRUTH),
        ("make_array({}, {})[1]", NUMBER, NUMBER),
    ),
    TEXT: (
        ("lower({})", TEXT), ("({} || {})", TEXT, TEXT), ("substr({}, {}, 2)", TEXT, NUMBER),
        ("max({})", TEXT),
        ("CAST({} AS VARCHAR)", NUMBER), ("regexp_replace({}, {}, 'x')", TEXT, TEXT),
        ("coalesce({}, {})", TEXT, TEXT), ("nullif({}, {})", TEXT, TEXT), ("concat({}, {})", TEXT, NUMBER),
    ),
    TRUTH: (
        ("{} = {}", NUMBER, NUMBER), ("{} < {}", MOMENT, MOMENT), ("{} <> {}", TEXT, TEXT), ("NOT {}", TRUTH),
        ("{} LIKE {}", TEXT, TEXT), ("({} OR {})", TRUTH, TRUTH), ("({} AND {})", TRUTH, TRUTH),
        ("{} IS NULL", TEXT), ("{} IN (1, {}, NULL)", NUMBER, NUMBER), ("{} ~ {}", TEXT, TEXT),
        ("{} IN (SELECT id FROM big_orders)", NUMBER), ("EXISTS (SELECT 1 FROM typed WHERE {})", TRUTH),
        ("{} BETWEEN {} AND {}", NUMBER, NUMBER, NUMBER), ("{} IS DISTINCT FROM {}", TEXT, TEXT),
    ),
    MOMENT: (
        ("date_trunc('month', {})", MOMENT), ("({} + INTERVAL '1 month')", MOMENT), ("max({})", MOMENT),
        ("CAST({} AS TIMESTAMP)", TEXT), ("to_timestamp({})", NUMBER), ("nullif({}, {})", MOMENT, MOMENT),
    ),
}  # fmt: skip
SPLICES = (
    "'", '"', "(", ")", ";", "--", "/*", "*/", "$1", "?", "\\", "\x00", "\u202e", "\U0001f4a5", "é", "\n",
    "0", "9" * 30, "SELECT", " FROM ", " UNION ", "#1", "orders#1", "::", "E'\\x'", "$$", "$tag$", "{", "@",
)  # fmt: skip
DIALECTS = ("postgres", "spark", "duckdb", "mysql", "snowflake", "bigquery", "trino")


@dataclass(frozen=True, slots=True)
class Grammar:
    """Writes queries that are right more often than not, over tables and columns that mostly exist."""

    rng: random.Random

    def statement(self) -> str:
        """A query, sometimes explained, combined with another, or under a common table expression."""
        query, chance = self.query(), self.rng.random()
        if chance < 0.05:
            return f"EXPLAIN {query}"
        if chance < 0.1:
            return f"WITH c AS ({query}) SELECT * FROM c AS a, c AS b LIMIT 10"
        if chance < 0.15:
            return f"{query} {self.rng.choice(('UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT'))} {self.query()}"
        if chance < 0.2:
            return f"SELECT count(*) FROM ({query}) AS s"
        return query

    def query(self) -> str:
        """One query block."""
        pick, chance = self.rng.choice, self.rng.random
        table = pick(tuple(COLUMNS))
        columns = COLUMNS[table]
        items = [self.expression(columns, pick(KINDS), 2) for _ in range(self.rng.randint(1, 3))]
        projection = ", ".join(items) if chance() < 0.8 else pick(("*", "count(*)", "*, 1", "_gen, *"))
        source = table if chance() < 0.95 else pick(("nowhere", f"{table} AS o", f'"{table}"'))
        if chance() < 0.15:
            kind = pick(("JOIN", "LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"))
            source += f" {kind} (SELECT id AS k FROM orders) AS u ON {self.expression(columns, TRUTH, 1)}"
        text = f"SELECT {pick(('', '', 'DISTINCT '))}{projection} FROM {source}"
        if chance() < 0.6:
            text += f" WHERE {self.expression(columns, TRUTH, 2)}"
        if chance() < 0.15:
            text += f" GROUP BY {pick(('1', '1, 2', 'id'))} HAVING {self.expression(columns, TRUTH, 1)}"
        if chance() < 0.3:
            text += f" ORDER BY {pick(('1', '2', 'id', 'random()'))}{pick(('', ' DESC', ' NULLS FIRST'))}"
        return text + (f" LIMIT {pick(('0', '1', '10', '1 + 1'))}" if chance() < 0.3 else "")

    def expression(self, columns: dict[str, tuple[str, ...]], kind: str, depth: int) -> str:
        """A scalar expression of a kind; now and then of another."""
        if self.rng.random() < 0.01:
            kind = self.rng.choice(KINDS)
        if depth == 0 or self.rng.random() < 0.4:
            known = columns.get(kind, ())
            return self.rng.choice(known if known and self.rng.random() < 0.7 else LITERALS[kind])
        call, *arguments = self.rng.choice(CALLS[kind])
        return call.format(*(self.expression(columns, argument, depth - 1) for argument in arguments))


def damaged(rng: random.Random, text: str) -> str:
    """The text with up to three places cut out, doubled, spliced into, or overwritten."""
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.randint(0, 12))
        head, cut, tail = text[:start], text[start:end], text[end:]
        text = head + rng.choice(("", cut + cut, rng.choice(SPLICES) + cut, rng.choice(SPLICES))) + tail
    return text


def transplanted(rng: random.Random, text: str, donor: str) -> str:
    """A query with an expression of another in its place, as sqlglot prints the tree in some dialect."""
    try:
        tree, other = (sqlglot.parse_one(one, dialect="postgres") for one in (text, donor))
        places = [node for node in tree.walk() if isinstance(node, exp.Condition) and node.parent]
        pieces = [node for node in other.walk() if isinstance(node, exp.Condition)]
        if places and pieces:
            rng.choice(places).replace(rng.choice(pieces).copy())
        return tree.sql(dialect=rng.choice(DIALECTS))
    except (SqlglotError, LookupError, TypeError, ValueError, AttributeError):
        # Not what sqlglot can read, or write: as it is, then.
        return text


def statements(seed: int, count: int) -> Iterator[tuple[str, str]]:
    """As many statements of all sorts, each with the dialect to send it in; the same for the same seed."""
    rng = random.Random(seed)
    grammar = Grammar(rng)
    sorts: tuple[Callable[[str], str], ...] = (
        lambda text: text,
        lambda text: damaged(rng, text),
        lambda text: transplanted(rng, text, grammar.query()),
    )
    for number in range(count):
        dialect = DIALECTS[number % len(DIALECTS)] if number % 2 else "postgres"
        yield dialect, sorts[number % len(sorts)](grammar.statement())
