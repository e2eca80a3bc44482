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
            `{key}` the key of a row.
        expected: The rows by the values of `{e}`; the arguments are these values and the key. None: not known.
        same_as: The statement that must give the same rows, where `expected` is none.
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
    """The sum, the mean and how many there are of each; None beyond 64 bits and for what is no number."""
    there = [one for one in values.values() if one is not None]
    if any(one == "NaN" or math.isinf(one) for one in there):
        return None
    total = math.fsum(there) if any(isinstance(one, float) for one in there) else sum(there)
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
    Place("CTE", "WITH q AS (SELECT t.id, {e} AS c FROM {t} AS t) SELECT id FROM q WHERE c", _true),
    Place("UNION ALL", "SELECT id FROM {t} AS t WHERE {e} UNION ALL SELECT {last} ORDER BY id LIMIT 100",
          lambda values, _: [*_true(values, 0), (LAST,)]),
    Place("policy", "SELECT id FROM {t}", _true, qualifier=""),
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
    Place("JOIN =", "SELECT t.id, r.id FROM {t} AS t JOIN {u} AS r ON ({e}) = {r}",
          same_as="SELECT t.id, r.id FROM {t} AS t CROSS JOIN {u} AS r WHERE (({e}) = {r}) IS TRUE", is_condition=False, groups=_KEYS),
)  # fmt: skip
