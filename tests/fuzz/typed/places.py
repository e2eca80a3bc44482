"""Places of a statement in which an expression is written, and the rows that each must give.

What each must give follows from the values of the expression in `SELECT`, or from another statement.
"""

# ruff: noqa: E501 - rows of tables

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Values = Mapping[int, Any]
"""The expression's value in each row, by its key."""
Rows = list[tuple[Any, ...]]
LAST = 999
"""A key that no row has."""


@dataclass(frozen=True)
class Place:
    """A statement with an expression in it.

    Attributes:
        sql: `{e}` is the expression, `{l}` what it is compared with, `{t}` and `{u}` tables with the same rows,
            `{key}` the key of a row, `{bound}` the same as a parameter.
        expected: The rows by the values of `{e}`; the arguments are these values and the key. None: not known.
        same_as: The statement that must give the same rows, where `expected` is none, and that is refused alike.
        is_condition: Whether the expression is a condition.
        is_ordered: Whether the order of rows counts.
        qualifier: Before the names of columns.
        digits: That floats have in common.
        groups: Of the values; empty for all.
    """

    name: str
    sql: str
    expected: Callable[[Values, int], Rows | None] | None = None
    same_as: str = ""
    is_condition: bool = True
    is_ordered: bool = False
    qualifier: str = "t."
    digits: int = 12
    groups: tuple[str, ...] = ()

    def takes(self, group: str) -> bool:
        """Return whether expressions of a group are written there."""
        return group == "truth" if self.is_condition else not self.groups or group in self.groups

    @property
    def has_partner(self) -> bool:
        """Whether it compares the expression with something."""
        return "{l}" in self.sql or "{r}" in self.sql


def _with(wanted: Callable[[Any], bool]) -> Callable[[Values, int], Rows]:
    return lambda values, _: [(key,) for key, value in values.items() if wanted(value)]


_true = _with(lambda value: value is True)
_false = _with(lambda value: value is False)
_all = _with(lambda _: True)
_not_true = _with(lambda value: value is not True)


def _order(values: Iterable[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """NULL is last, and NaN the greatest number, where it is not one of several texts."""
    are_texts = any(isinstance(one, str) and one != "NaN" for one in values)
    return lambda value: (2,) if value is None else (1,) if value == "NaN" and not are_texts else (0, value)


def _sorted(values: Values, _: int) -> Rows:
    sort_key = _order(values.values())
    return [(key,) for key, _ in sorted(values.items(), key=lambda item: (sort_key(item[1]), item[0]))]


def _sorted_down(values: Values, _: int) -> Rows:
    """The first three from behind, NULL first."""
    keys = sorted(values, key=lambda key: -key)
    sort_key = _order(values.values())
    return [(key,) for key in sorted(keys, key=lambda key: sort_key(values[key]), reverse=True)][:3]


def _extremes(values: Values, _: int) -> Rows:
    there = sorted((one for one in values.values() if one is not None), key=_order(values.values()))
    return [(there[0], there[-1], len(there))] if there else [(None, None, 0)]


def _totals(values: Values, _: int) -> Rows | None:
    """Return the sum, the mean and the number of distinct values; None if the result is not determined.

    It is not for sums beyond 64 bits, for NaN and infinity, and for large doubles that cancel each other.
    """
    there = [one for one in values.values() if one is not None]
    if any(one == "NaN" or math.isinf(one) for one in there):
        return None
    total = math.fsum(there) if any(isinstance(one, float) for one in there) else sum(there)
    if isinstance(total, float) and max(map(abs, there)) > 1e6 * abs(total):
        return None
    if abs(total) >= 2**63 or any(isinstance(one, int) and abs(one) > 2**53 for one in there):
        return None  # Means of integers are those of doubles.
    if not there:
        return [(None, None, 0)]
    mean: Any = total / len(there)
    if isinstance(total, Decimal) and (digits := min(4 - int(total.as_tuple().exponent), 38)):
        # The mean of decimals has four digits more, and is cut off.
        mean = Decimal(total).scaleb(digits) / len(there)
        mean = Decimal(int(mean)).scaleb(-digits)
    return [(total, float(mean), len(set(there)))]


def _ranks(values: Values, _: int) -> Rows:
    sort_key = _order(values.values())
    ranked = sorted(map(sort_key, values.values()))
    return [(key, 1 + ranked.index(sort_key(value))) for key, value in values.items()]


def _before(values: Values, _: int) -> Rows:
    return [(key, values.get(key - 1)) for key in values]


def _running(values: Values, _: int) -> Rows:
    """How many rows come before each, or are equal to it."""
    sort_key = _order(values.values())
    ranked = list(map(sort_key, values.values()))
    return [(key, sum(one <= sort_key(value) for one in ranked)) for key, value in values.items()]


def _extremes_of_groups(values: Values, _: int) -> Rows:
    groups = [{key: value for key, value in values.items() if key % 3 == rest} for rest in range(3)]
    return [(rest, *_extremes(group, 0)[0]) for rest, group in enumerate(groups)]


def _order_of_extremes(values: Values, _: int) -> Rows:
    sort_key = _order(values.values())
    groups = [(rest, greatest) for rest, _, greatest, _ in _extremes_of_groups(values, 0)]
    return sorted(groups, key=lambda group: (sort_key(group[1]), group[0]), reverse=True)


def _extremes_of_frames(values: Values, _: int) -> Rows:
    frames = {key: {one: values[one] for one in (key - 2, key - 1, key) if one in values} for key in values}
    return [(key, *_extremes(frame, 0)[0][:2]) for key, frame in frames.items()]


def _counts_of_frames(values: Values, _: int) -> Rows:
    counts = {key: sum(values.get(one) is not None for one in (key - 2, key - 1, key)) for key in values}
    return [(key, count) for key, count in sorted(counts.items(), key=lambda item: (item[1], item[0]))]


def _both_orders(values: Values, _: int) -> Rows:
    there = {one for one in values.values() if one is not None}
    found = sorted(there, key=_order(there))
    return [(tuple(found), tuple(reversed(found)))] if found else [(None, None)]


def _totals_of_groups(values: Values, _: int) -> Rows:
    return [*Counter(values.values()).items(), (None, len(values))]


def _totals_of_a_constant(values: Values, _: int) -> Rows:
    """The groups below 5, with their total, and all rows."""
    groups = [(5, *one) for one in _totals_of_groups(values, 0)]
    sort_key = _order(values.values())
    return [*sorted(groups, key=lambda one: (sort_key(one[1]), one[2])), (None, None, len(values))]


def _members_before(values: Values, key: int) -> Rows:
    """Keys that are not in a list, of keys up to them, one of which is NULL."""
    true = [one for one, value in values.items() if value is True]
    return [(one,) for one in values if one not in true and not (key in true and key <= one)]


_ORDERED = ("number", "text", "date", "moment", "instant", "clock", "bytes", "truth", "uuid")
_KEYS = (*_ORDERED, "list", "struct")

PLACES = (
    # Conditions.
    Place("WHERE", "SELECT id FROM {t} AS t WHERE {e}", _true),
    Place("WHERE NOT", "SELECT id FROM {t} AS t WHERE NOT ({e})", _false),
    Place("IS NOT TRUE", "SELECT id FROM {t} AS t WHERE ({e}) IS NOT TRUE", _not_true),
    Place("IS NULL", "SELECT id FROM {t} AS t WHERE ({e}) IS NULL", _with(lambda value: value is None)),
    Place("WHERE and key", "SELECT id FROM {t} AS t WHERE id = {key} AND ({e})",
          lambda values, key: [(key,)] if values[key] is True else []),
    Place("WHERE or key", "SELECT id FROM {t} AS t WHERE ({e}) OR id = {key}",
          lambda values, key: [(one,) for one, value in values.items() if value is True or one == key]),
    Place("WHERE twice", "SELECT id FROM {t} AS t WHERE ({e}) AND ({e}) AND id <> {key}",
          lambda values, key: [(one,) for one, value in values.items() if value is True and one != key]),
    Place("WHERE columns", "SELECT t.* FROM {t} AS t WHERE {e}", _true),
    Place("count", "SELECT count(*) FROM {t} AS t WHERE {e}", lambda values, _: [(len(_true(values, 0)),)]),
    Place("CASE", "SELECT id, CASE WHEN {e} THEN 1 WHEN NOT ({e}) THEN 0 END FROM {t} AS t",
          lambda values, _: [(key, None if value is None else int(value)) for key, value in values.items()]),
    Place("FILTER", "SELECT count(*) FILTER (WHERE {e}) FROM {t} AS t", lambda values, _: [(len(_true(values, 0)),)]),
    Place("HAVING", "SELECT id FROM {t} AS t GROUP BY id HAVING bool_or({e})", _true),
    Place("subquery", "SELECT id FROM {u} WHERE id IN (SELECT t.id FROM {t} AS t WHERE {e})", _true),
    Place("EXISTS", "SELECT u.id FROM {u} AS u WHERE EXISTS (SELECT 1 FROM {t} AS t WHERE t.id = u.id AND ({e}))", _true),
    Place("NOT EXISTS", "SELECT u.id FROM {u} AS u WHERE NOT EXISTS (SELECT 1 FROM {t} AS t WHERE t.id = u.id AND ({e}))", _not_true),
    Place("JOIN", "SELECT u.id FROM {u} AS u JOIN {t} AS t ON u.id = t.id AND ({e})", _true),
    Place("LEFT JOIN", "SELECT u.id, t.id FROM {u} AS u LEFT JOIN {t} AS t ON u.id = t.id AND ({e})",
          lambda values, _: [(key, key if value is True else None) for key, value in values.items()]),
    Place("above LEFT JOIN", "SELECT u.id FROM {u} AS u LEFT JOIN {t} AS t ON u.id = t.id WHERE {e}", _true),
    Place("correlated LEFT JOIN",
          "SELECT o.id, (SELECT count(*) FROM {u} AS u LEFT JOIN {t} AS t ON u.id = t.id AND t.id = o.id AND ({e}) WHERE u.id < 5), "
          "(SELECT count(t.id) FROM {u} AS u LEFT JOIN {t} AS t ON u.id = t.id AND t.id = o.id AND ({e}) WHERE u.id < 5) "
          "FROM {u} AS o WHERE o.id < 8",
          lambda values, _: [(key, 5, int(key < 5 and values[key] is True)) for key in sorted(values)[:8]]),
    Place("IS DISTINCT AND", "SELECT id FROM {t} AS t WHERE ({e}) IS DISTINCT FROM TRUE AND id <> {key}",
          lambda values, key: [(one,) for one, value in values.items() if value is not True and one != key]),
    Place("HAVING of a subquery", "SELECT count(*) FROM {t} AS t HAVING (SELECT bool_or({e}) FROM {u} AS t)",
          lambda values, _: [(len(values),)] if True in values.values() else []),
    Place("condition on a total", "SELECT n FROM (SELECT {key} AS a, count(*) AS n FROM {t} AS t WHERE {e}) q WHERE a = -1",
          lambda *_: []),
    Place("ON FALSE of a total", "SELECT u.id, s.n FROM {u} AS u LEFT JOIN (SELECT count(*) AS n, bool_or({e}) AS m FROM {t} AS t) s ON FALSE",
          lambda values, _: [(key, None) for key in values]),
    Place("above RIGHT JOIN", "SELECT y.id FROM {t} AS x RIGHT JOIN (SELECT * FROM {u} AS t WHERE {e}) y ON x.id = y.id AND x.id > {key} WHERE x.{c} IS NULL",
          same_as="SELECT y.id FROM (SELECT * FROM {u} AS t WHERE {e}) y LEFT JOIN {t} AS x ON x.id = y.id AND x.id > {key} WHERE x.{c} IS NULL"),
    Place("constant of FULL JOIN", "SELECT x.k, y.id FROM (SELECT t.id, 7 AS k FROM {t} AS t WHERE {e}) x FULL JOIN {u} AS y ON x.id = y.id ORDER BY x.k, y.id",
          lambda values, _: [*((7, key) for key, value in values.items() if value is True), *((None, key) for key, value in values.items() if value is not True)],
          is_ordered=True),
    Place("IS NULL of a subquery", "SELECT u.id FROM {u} AS u WHERE (SELECT 5 FROM {t} AS t WHERE t.id = u.id AND ({e})) IS NULL", _not_true),
    Place("constant of a total", "SELECT u.id, (SELECT 5 + 0 * count(*) FROM {t} AS t WHERE t.id = u.id AND ({e})) FROM {u} AS u",
          lambda values, _: [(key, 5) for key in values]),
    Place("EXISTS of a total", "SELECT u.id FROM {u} AS u WHERE EXISTS (SELECT 1 FROM {t} AS t WHERE t.id = u.id AND ({e}) HAVING count(*) = 0)", _not_true),
    Place("NOT IN of keys", "SELECT u.id FROM {u} AS u WHERE u.id NOT IN (SELECT nullif(t.id, {key}) FROM {t} AS t WHERE ({e}) AND t.id <= u.id)", _members_before),
    Place("IN or NULL", "SELECT u.id FROM {u} AS u WHERE (u.id IN (SELECT nullif(t.id, {key}) FROM {t} AS t WHERE {e})) IS NULL",
          lambda values, key: [(one,) for one, value in values.items() if values[key] is True and (value is not True or one == key)]),
    Place("NOT of IN", "SELECT u.id FROM {u} AS u WHERE NOT nullif(u.id, {key}) IN (SELECT t.id FROM {t} AS t WHERE {e})",
          lambda values, key: [(one,) for one, value in values.items() if True not in values.values() or (value is not True and one != key)]),
    Place("alias of a column", "SELECT {c}.id FROM {u} AS {c} WHERE EXISTS (SELECT 1 FROM {t} AS t WHERE t.id = {c}.id AND ({e}))", _true),
    Place("count before", "SELECT u.id, (SELECT count(*) FROM {t} AS t WHERE t.id < u.id AND ({e})) FROM {u} AS u",
          lambda values, _: [(key, sum(value is True for one, value in values.items() if one < key)) for key in values]),
    Place("JOIN with constants", "SELECT u.id FROM {u} AS u JOIN {t} AS t ON u.id = t.id AND {key} = t.id AND ({e}) WHERE t.id = {key}",
          lambda values, key: [(key,)] if values[key] is True else []),
    Place("merged column", "SELECT id FROM (SELECT t.id FROM {t} AS t WHERE {e}) q FULL JOIN {u} AS a USING (id)", _all),
    Place("LATERAL", "SELECT u.id, q.id FROM {u} AS u LEFT JOIN LATERAL (SELECT t.id FROM {t} AS t WHERE t.id = u.id AND ({e}) LIMIT 1) q ON TRUE",
          lambda values, _: [(key, key if value is True else None) for key, value in values.items()]),
    Place("CTE twice", "WITH q AS (SELECT t.id FROM {t} AS t WHERE {e}) SELECT a.id, (SELECT count(*) FROM q) FROM q AS a LEFT JOIN q AS b ON a.id = b.id",
          lambda values, _: [(key, len(_true(values, 0))) for (key,) in _true(values, 0)]),
    Place("CTE", "WITH q AS (SELECT t.id, {e} AS c FROM {t} AS t) SELECT id FROM q WHERE c", _true),
    Place("UNION ALL", "SELECT id FROM {t} AS t WHERE {e} UNION ALL SELECT {last} ORDER BY id LIMIT 100",
          lambda values, _: [*_true(values, 0), (LAST,)]),
    # A row of NULLs shows whether a policy fits.
    Place("policy", "SELECT id FROM {t}", _true, "SELECT {e} FROM (SELECT 1) AS one LEFT JOIN {t} ON FALSE", qualifier=""),
    Place("DELETE", "DELETE FROM {t} WHERE {e}", lambda values, _: [(len(_true(values, 0)),)], qualifier="{t}."),
    # Values.
    Place("GROUP BY", "SELECT {e} AS k, count(*) FROM {t} AS t GROUP BY {e}",
          lambda values, _: list(Counter(values.values()).items()), is_condition=False, groups=_KEYS),
    Place("DISTINCT", "SELECT DISTINCT {e} AS k FROM {t} AS t", lambda values, _: [(one,) for one in set(values.values())],
          is_condition=False, groups=_KEYS),
    Place("UNION", "SELECT {e} AS k FROM {t} AS t UNION SELECT {e} FROM {u} AS t",
          lambda values, _: [(one,) for one in set(values.values())], is_condition=False, groups=_KEYS),
    Place("ORDER BY", "SELECT id FROM {t} AS t ORDER BY {e}, id", _sorted, is_condition=False, is_ordered=True, groups=_ORDERED),
    Place("ORDER BY LIMIT", "SELECT id FROM {t} AS t ORDER BY {e} DESC, id DESC LIMIT 3", _sorted_down,
          is_condition=False, is_ordered=True, groups=_ORDERED),
    Place("extremes", "SELECT min({e}), max({e}), count({e}) FROM {t} AS t", _extremes, is_condition=False, groups=_ORDERED[:-2]),
    Place("scalar subquery", "SELECT u.id, (SELECT {e} FROM {t} AS t WHERE t.id = u.id) AS v FROM {u} AS u",
          lambda values, _: list(values.items()), is_condition=False),
    Place("totals", "SELECT sum({e}), CAST(avg({e}) AS DOUBLE), count(DISTINCT {e}) FROM {t} AS t", _totals,
          digits=5, is_condition=False, groups=("number",)),
    Place("rank", "SELECT id, rank() OVER (ORDER BY {e}) FROM {t} AS t", _ranks, is_condition=False, groups=_ORDERED),
    Place("lag", "SELECT id, lag({e}) OVER (ORDER BY id) FROM {t} AS t", _before, is_condition=False),
    Place("array_agg", "SELECT array_agg({e} ORDER BY id) FROM {t} AS t",
          lambda values, _: [(tuple(values[key] for key in sorted(values)),)], is_condition=False),
    Place("window", "SELECT id, count(*) OVER (PARTITION BY {e}) FROM {t} AS t",
          lambda values, _: [(key, list(values.values()).count(value)) for key, value in values.items()],
          is_condition=False, groups=_KEYS),
    Place("view", "SELECT id, v FROM (SELECT t.id, {e} AS v FROM {t} AS t ORDER BY id LIMIT 1000) q WHERE v IS NOT NULL",
          lambda values, _: [(key, value) for key, value in values.items() if value is not None], is_condition=False),
    Place("beside a parameter", "SELECT t.id, {e} AS v FROM {t} AS t WHERE t.id <= {bound}",
          lambda values, key: [(one, value) for one, value in values.items() if one <= key], is_condition=False),
    Place("LIMIT of a parameter", "SELECT {e} AS v FROM {t} AS t ORDER BY t.id LIMIT {bound}",
          lambda values, key: [(values[one],) for one in sorted(values)[:key]], is_condition=False, is_ordered=True),
    Place("running count", "SELECT id, count(*) OVER (ORDER BY {e}) FROM {t} AS t", _running, is_condition=False, groups=_ORDERED),
    Place("named window", "SELECT id, count(*) OVER (w ORDER BY id) FROM {t} AS t WINDOW w AS (PARTITION BY {e})",
          lambda values, _: [(key, [values[one] for one in sorted(values) if one <= key].count(value)) for key, value in values.items()],
          is_condition=False, groups=_KEYS),
    Place("extremes of groups", "SELECT id % 3, min({e}), max({e}), count({e}) FROM {t} AS t GROUP BY id % 3", _extremes_of_groups,
          is_condition=False, groups=_ORDERED[:-2]),
    Place("order of extremes", "SELECT id % 3, max({e}) FROM {t} AS t GROUP BY id % 3 ORDER BY 2 DESC, 1 DESC", _order_of_extremes,
          is_condition=False, is_ordered=True, groups=_ORDERED[:-2]),
    Place("extremes of frames", "SELECT id, min({e}) OVER (ORDER BY id ROWS 2 PRECEDING), max({e}) OVER (ORDER BY id ROWS 2 PRECEDING) FROM {t} AS t",
          _extremes_of_frames, is_condition=False, groups=_ORDERED[:-2]),
    Place("count of frames", "SELECT id, count({e}) OVER (ORDER BY id ROWS 2 PRECEDING) AS n FROM {t} AS t ORDER BY n, id", _counts_of_frames,
          is_condition=False, is_ordered=True),
    Place("default of lag", "SELECT id, lag({e}, 1, {e}) OVER (ORDER BY id) FROM {t} AS t",
          lambda values, _: [(key, values[max(key - 1, 0)]) for key in values], is_condition=False),
    Place("both orders", "SELECT array_agg(DISTINCT {e} ORDER BY {e}), array_agg(DISTINCT {e} ORDER BY {e} DESC) FROM {t} AS t WHERE ({e}) IS NOT NULL",
          _both_orders, is_condition=False, groups=_ORDERED),
    Place("distinct pairs", "SELECT count(DISTINCT {e}, id % 3) FROM {t} AS t",
          lambda values, _: [(len({(value, key % 3) for key, value in values.items() if value is not None}),)], is_condition=False, groups=_KEYS),
    Place("DISTINCT of groups", "SELECT DISTINCT v FROM (SELECT q.v, u.id, count(*) AS n FROM (SELECT {e} AS v, count(*) AS n FROM {t} AS t GROUP BY {e}) q "
          "CROSS JOIN {u} AS u GROUP BY q.v, u.id) g", lambda values, _: [(one,) for one in set(values.values())], is_condition=False, groups=_KEYS),
    Place("order of groups", "SELECT v, id FROM (SELECT DISTINCT q.v, u.id FROM (SELECT {e} AS v, count(*) AS n FROM {t} AS t GROUP BY {e}) q, {u} AS u WHERE u.id < 2) r "
          "ORDER BY v, id DESC", lambda values, _: [(one, key) for one in sorted(set(values.values()), key=_order(values.values())) for key in (1, 0)],
          is_condition=False, is_ordered=True, groups=_ORDERED),
    Place("ROLLUP", "SELECT v, count(*) FROM (SELECT {e} AS v FROM {t} AS t) q GROUP BY ROLLUP (v)", _totals_of_groups, is_condition=False, groups=_KEYS),
    Place("ROLLUP of no rows", "SELECT v, count(*) FROM (SELECT {e} AS v FROM {t} AS t WHERE FALSE) q GROUP BY ROLLUP (v)", lambda *_: [(None, 0)],
          is_condition=False, groups=_KEYS),
    Place("ROLLUP of a constant", "SELECT n, v, count(*) FROM (SELECT 5 AS n, {e} AS v FROM {t} AS t) q GROUP BY ROLLUP (n, v) ORDER BY n, v, count(*)", _totals_of_a_constant,
          is_condition=False, is_ordered=True, groups=_ORDERED),
    Place("GROUP BY twice", "SELECT v, v AS w, count(*) FROM (SELECT {e} AS v FROM {t} AS t) q GROUP BY 1, 2",
          lambda values, _: [(value, value, count) for value, count in Counter(values.values()).items()], is_condition=False, groups=_KEYS),
    Place("GROUP BY name", "SELECT q.v, count(*) FROM (SELECT {e} AS v FROM {t} AS t) q GROUP BY v, q.v",
          lambda values, _: list(Counter(values.values()).items()), is_condition=False, groups=_KEYS),
    Place("GROUP BY cast", "SELECT count(*) FROM (SELECT {e} AS v FROM {t} AS t) q GROUP BY v, CAST(v AS TEXT)",
          lambda values, _: [(one,) for one in Counter(values.values()).values()], is_condition=False, groups=("number", "text", "truth", "date")),
    Place("order of a cast", "SELECT max(id) AS s, CAST(s AS TEXT) AS k FROM (SELECT t.id, {e} AS s FROM {t} AS t) q GROUP BY CAST(s AS TEXT) ORDER BY max(id)",
          same_as="SELECT s, k FROM (SELECT max(id) AS s, nullif(CAST(s AS TEXT), NULL) AS k FROM (SELECT t.id, {e} AS s FROM {t} AS t) q GROUP BY CAST(s AS TEXT)) r ORDER BY s",
          is_condition=False, is_ordered=True, groups=("number", "text", "truth", "date")),
    Place("UNION of constants", "SELECT n, v, id FROM (SELECT 2 AS n, {e} AS v, id FROM {t} AS t UNION ALL SELECT 1, {e}, id FROM {u} AS t) q ORDER BY n, v DESC, id DESC LIMIT 3",
          lambda values, _: [(1, values[key], key) for (key,) in _sorted_down(values, 0)], is_condition=False, is_ordered=True, groups=_ORDERED),
    Place("JOIN of values", "SELECT count(*) FROM {t} AS t JOIN (SELECT {e} AS v FROM {u} AS t) q ON ({e}) = q.v",
          lambda values, _: [(sum(count * count for value, count in Counter(values.values()).items() if value is not None),)],
          is_condition=False, groups=_ORDERED),
    Place("EXCEPT ALL", "SELECT {e} AS v FROM {t} AS t EXCEPT ALL SELECT {e} FROM {u} AS t WHERE id = {key}",
          lambda values, key: [(one,) for one in (Counter(values.values()) - Counter([values[key]])).elements()], is_condition=False, groups=_KEYS),
    Place("INTERSECT ALL", "SELECT {e} AS v FROM {t} AS t INTERSECT ALL SELECT {e} FROM {u} AS t WHERE id <= {key}",
          lambda values, key: [(values[one],) for one in values if one <= key], is_condition=False, groups=_KEYS),
    Place("value of a subquery", "SELECT u.id FROM {u} AS u WHERE (SELECT {e} FROM {t} AS t WHERE t.id = u.id AND t.id <> {key}) IS NULL",
          lambda values, key: [(one,) for one, value in values.items() if value is None or one == key], is_condition=False),
    Place("LATERAL value", "SELECT u.id, q.v FROM {u} AS u CROSS JOIN LATERAL (SELECT {e} AS v FROM {t} AS t WHERE t.id = u.id) q",
          lambda values, _: list(values.items()), is_condition=False),
    Place("total row", "SELECT id, {e} AS v FROM {t} AS t UNION ALL SELECT {last}, {l} ORDER BY id LIMIT 100",
          same_as="SELECT id, v FROM (SELECT id, {e} AS v FROM {t} AS t UNION ALL SELECT {last}, {l}) q",
          is_condition=False, groups=_KEYS),
    Place("JOIN VALUES", "SELECT t.id FROM {t} AS t JOIN (VALUES ({l})) AS v(x) ON ({e}) = x",
          same_as="SELECT t.id FROM {t} AS t WHERE ({e}) = {l}", is_condition=False, groups=_KEYS),
    Place("IN subquery", "SELECT t.id FROM {t} AS t WHERE ({e}) IN (SELECT {l} FROM {u} WHERE id = 0)",
          same_as="SELECT t.id FROM {t} AS t WHERE ({e}) = {l}", is_condition=False, groups=_KEYS),
    Place("EXCEPT", "SELECT {e} AS v FROM {t} AS t EXCEPT SELECT {l}",
          same_as="SELECT DISTINCT {e} AS v FROM {t} AS t WHERE ({e}) IS DISTINCT FROM {l}", is_condition=False, groups=_KEYS),
    Place("INTERSECT", "SELECT {e} AS v FROM {t} AS t INTERSECT SELECT {l}",
          same_as="SELECT DISTINCT {e} AS v FROM {t} AS t WHERE ({e}) IS NOT DISTINCT FROM {l}", is_condition=False, groups=_KEYS),
    Place("JOIN of NULL", "SELECT t.id, r.id FROM {t} AS t JOIN {u} AS r ON nullif(t.id % 2, 0) IS NOT DISTINCT FROM nullif(r.id % 2, 0) WHERE ({e}) = {r}",
          same_as="SELECT t.id, r.id FROM {t} AS t CROSS JOIN {u} AS r WHERE ((t.id + r.id) % 2 = 0) AND (({e}) = {r}) IS TRUE", is_condition=False, groups=_KEYS),
    Place("JOIN of three", "SELECT t.id, r.id FROM {t} AS t JOIN {u} AS r ON ({e}) IS NOT DISTINCT FROM {r} JOIN {t} AS w ON r.id = w.id",
          same_as="SELECT t.id, r.id FROM {t} AS t CROSS JOIN {u} AS r WHERE (({e}) IS NOT DISTINCT FROM {r}) IS TRUE", is_condition=False, groups=_KEYS),
    Place("membership", "SELECT t.id, ({e}) IN (SELECT {r} FROM {u} AS r) FROM {t} AS t",
          same_as="SELECT t.id, bool_or(({e}) = {r}) OR CASE WHEN bool_or((({e}) = {r}) IS NULL) THEN NULL ELSE FALSE END FROM {t} AS t CROSS JOIN {u} AS r GROUP BY t.id",
          is_condition=False, groups=_KEYS),
    Place("NOT IN", "SELECT t.id FROM {t} AS t WHERE ({e}) NOT IN (SELECT {r} FROM {u} AS r WHERE r.id <> {key})",
          same_as="SELECT t.id FROM {t} AS t CROSS JOIN {u} AS r WHERE r.id <> {key} GROUP BY t.id HAVING bool_and(coalesce(({e}) <> {r}, FALSE))",
          is_condition=False, groups=_KEYS),
    Place("LEFT JOIN =", "SELECT t.id, count(r.id) FROM {t} AS t LEFT JOIN {u} AS r ON ({e}) = {r} GROUP BY t.id",
          same_as="SELECT t.id, count(CASE WHEN ({e}) = {r} THEN 1 END) FROM {t} AS t CROSS JOIN {u} AS r GROUP BY t.id", is_condition=False, groups=_KEYS),
    Place("JOIN <", "SELECT t.id, r.id FROM {t} AS t JOIN {u} AS r ON ({e}) < {r}",
          same_as="SELECT t.id, r.id FROM {t} AS t CROSS JOIN {u} AS r WHERE (({e}) < {r}) IS TRUE", is_condition=False, groups=_ORDERED),
    Place("correlated value", "SELECT t.id, (SELECT count(*) FROM {u} AS r WHERE {r} = ({e})) FROM {t} AS t",
          same_as="SELECT t.id, count(CASE WHEN ({e}) = {r} THEN 1 END) FROM {t} AS t CROSS JOIN {u} AS r GROUP BY t.id", is_condition=False, groups=_KEYS),
    Place("nested CASE", "SELECT t.id, CASE WHEN t.id < {key} THEN CASE WHEN ({e}) = {l} THEN {e} ELSE {l} END ELSE {e} END AS v FROM {t} AS t",
          same_as="SELECT t.id, CASE WHEN t.id < {key} AND (({e}) = {l}) IS NOT TRUE THEN {l} ELSE {e} END AS v FROM {t} AS t", is_condition=False, groups=_KEYS),
    Place("distinct constants", "SELECT t.id FROM {t} AS t WHERE ({e}) IS NULL AND (SELECT count(DISTINCT x) + 0 * count(*) FROM (SELECT nullif({l}, {l}) AS x FROM (VALUES (1), (2)) w(y)) q) = 0",
          same_as="SELECT t.id FROM {t} AS t WHERE ({e}) IS NULL", is_condition=False, groups=_KEYS),
    Place("JOIN =", "SELECT t.id, r.id FROM {t} AS t JOIN {u} AS r ON ({e}) = {r}",
          same_as="SELECT t.id, r.id FROM {t} AS t CROSS JOIN {u} AS r WHERE (({e}) = {r}) IS TRUE", is_condition=False, groups=_KEYS),
)  # fmt: skip
