"""Policies and statements at random, over the tables `t` (id, a, b, c) and `u` (k, n)."""

from hypothesis import strategies as st

from lance_gateway.planner.access.rights import TableAccess

_ROWS_OF_T = (
    "a > 2",
    "b = 'x'",
    "id IN (1, 3, 5, 7, 9)",
    "c IS NULL",
    "c IS NOT NULL AND c < 70",
    "NOT (a = 3)",
    "id = 4",
    "id <= c",
    "length(b) = 1",
    "a % 2 = 0",
    "b LIKE 'x%' OR a = 1",
    "coalesce(a, 0) < 4",
    "CASE WHEN b = '7' THEN a > 3 ELSE id > 2 END",
    "true",
    "false",
)
_MASKS_OF_T = {
    "id": ("id % 3", "7"),
    "a": ("NULL", "3", "a % 2", "-a", "CAST(id AS INT)"),
    "b": ("'x'", "upper(b)", "concat(b, '!')", "CASE WHEN a > 2 THEN b END", "NULL"),
    "c": ("NULL", "c / 10", "id", "coalesce(c, a)"),
}
_ROWS_OF_U = ("n > 1", "k < 6", "k % 2 = 0", "n IS NOT NULL AND k <> 3")
_MASKS_OF_U = {"n": ("NULL", "0", "n % 2"), "k": ("k + 1", "1")}


def _access(
    rows: tuple[str, ...], masks: dict[str, tuple[str, ...]], hideable: tuple[str, ...]
) -> st.SearchStrategy[TableAccess]:
    atoms = st.sampled_from(rows)
    pairs = st.tuples(atoms, st.sampled_from(("AND", "OR")), atoms)
    row_filters = st.none() | atoms | st.builds(lambda parts: "({}) {} ({})".format(*parts), pairs)
    masked = st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(texts) for name, texts in masks.items()}
    )
    hidden = st.just(frozenset()) | st.frozensets(st.sampled_from(hideable), max_size=1)

    def restricted(row_filter: str | None, masks: dict[str, str], hidden: frozenset[str]) -> TableAccess:
        kept = {name: text for name, text in masks.items() if name not in hidden}
        return TableAccess(row_filter, kept, hidden)

    return st.builds(restricted, row_filters, masked, hidden)


ACCESS_TO_T = _access(_ROWS_OF_T, _MASKS_OF_T, ("id", "a", "b", "c"))
ACCESS_TO_U = _access(_ROWS_OF_U, _MASKS_OF_U, ("n",))

# {x} is the alias of a reference to t.
_CONDITIONS = (
    "{x}.a > 2",
    "{x}.a <> 3",
    "3 >= {x}.a",
    "{x}.b = 'x'",
    "{x}.b <> 'X'",
    "{x}.b IN ('x', 'xy', 'X', 'x!')",
    "{x}.b IS NULL",
    "{x}.b > 'a'",
    "{x}.id = 5",
    "{x}.id = $1",
    "{x}.id IN (1, 4, 5, 12)",
    "{x}.id NOT IN (1, 4)",
    "{x}.id BETWEEN 2 AND 8",
    "{x}.c IS NOT NULL",
    "{x}.c < 50 OR {x}.a = 1",
    "{x}.c = {x}.id",
    "({x}.id, {x}.a) IN ((5, 3), (4, 1))",
    "10 / ({x}.a - 3) >= 0",
    "10 % ({x}.id - 4) < 9",
    "CAST({x}.b AS INT) > 0",
    "upper({x}.b) = 'X'",
    "{x}.b LIKE 'x_'",
    "EXISTS (SELECT 1 FROM u WHERE u.k = {x}.id AND u.n > 1)",
    "NOT EXISTS (SELECT 1 FROM u WHERE u.k = {x}.id)",
    "{x}.id IN (SELECT k FROM u)",
    "{x}.a = (SELECT max(n) FROM u)",
    "(SELECT count(*) FROM u WHERE u.k = {x}.id) > 0",
    "EXISTS (SELECT 1 FROM t q WHERE q.a = {x}.a AND q.id <> {x}.id)",
)
_STATEMENTS = (
    "SELECT * FROM t x WHERE {}",
    "SELECT x.id, x.b FROM t AS x WHERE {}",
    "SELECT x.id FROM t x WHERE {}",
    "SELECT id, a FROM t WHERE id = 5",
    "SELECT * FROM t WHERE id = $1",
    "SELECT * FROM t WHERE id IN (1, 2, 4, 5, 12, 40)",
    "SELECT * FROM t",
    "SELECT count(*) FROM t",
    "SELECT count(*) FROM t x WHERE {}",
    "SELECT count(*), sum(x.a), min(x.id), max(x.b), count(DISTINCT x.c) FROM t x WHERE {}",
    "SELECT x.b, count(*), max(x.a) FROM t x WHERE {} GROUP BY x.b HAVING count(*) < 4",
    "SELECT 10 / (x.a - 1), x.b || '?' FROM t x WHERE {}",
    "SELECT x.id, y.k, y.n FROM t x JOIN u y ON x.id = y.k WHERE {}",
    "SELECT x.id, y.n FROM t x LEFT JOIN u y ON x.id = y.k AND y.n > 1 WHERE {}",
    "SELECT x.id, y.k FROM t x FULL JOIN u y ON x.id = y.k",
    "SELECT x.id, y.id FROM t x JOIN t y USING (a) WHERE {}",
    "SELECT x.id, y.k FROM t x CROSS JOIN u y WHERE {}",
    "WITH t AS (SELECT * FROM t) SELECT * FROM t x WHERE {}",
    "WITH w AS (SELECT x.id, x.a FROM t x WHERE {}) SELECT a, count(*) FROM w, u WHERE id = k GROUP BY a",
    "WITH RECURSIVE r AS (SELECT min(a) i FROM t UNION ALL SELECT i + 1 FROM r WHERE i < 5) SELECT i FROM r",
    "SELECT x.id FROM t x WHERE {} UNION SELECT k FROM u",
    "SELECT k FROM u EXCEPT SELECT x.id FROM t x WHERE {}",
    "SELECT k FROM u INTERSECT SELECT x.id FROM t x WHERE {}",
    "SELECT * FROM (SELECT id, b AS a FROM t) AS x WHERE x.a = 'x'",
    "SELECT x.id, row_number() OVER (PARTITION BY x.b ORDER BY x.id), sum(x.a) OVER () FROM t x WHERE {}",
    "SELECT * FROM t ORDER BY id, a, b, c LIMIT 3",
    "SELECT id, b FROM t ORDER BY id DESC, b LIMIT 2 OFFSET 1",
    "SELECT DISTINCT x.b FROM t x WHERE {}",
    "SELECT x.k, (SELECT max(a) FROM t WHERE t.id = x.k) FROM u x",
    "SELECT x.id, l.n FROM t x, LATERAL (SELECT n FROM u WHERE u.k = x.id) AS l",
    "SELECT * FROM v x WHERE {}",
    "DESCRIBE t",
    "DESCRIBE SELECT * FROM v",
    "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 't'",
)


@st.composite
def statements(draw: st.DrawFn) -> str:
    """A statement; with $1 it has one parameter, an int64."""
    shape = draw(st.sampled_from(_STATEMENTS))
    atoms = draw(st.lists(st.sampled_from(_CONDITIONS), min_size=1, max_size=3))
    condition = draw(st.sampled_from((" AND ", " OR "))).join(f"({one})" for one in atoms)
    if draw(st.integers(0, 9)) == 0:
        condition = f"NOT ({condition})"
    return shape.format(condition.format(x="x"))
