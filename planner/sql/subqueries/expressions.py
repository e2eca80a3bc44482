"""Puts joins in the place of subqueries that are values and conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from lance_gateway.planner.sql.subqueries.blocks import Block
from lance_gateway.planner.sql.subqueries.domains import Domain, output_names, select_from
from lance_gateway.planner.sql.subqueries.sites import Kind, Site
from lance_gateway.planner.sql.subqueries.statements import RewritingError
from lance_gateway.planner.sql.subqueries.totals import name_outputs
from lance_gateway.planner.sql.subqueries.trees import (
    aliased,
    call,
    column_of,
    derived,
    either,
    has_aggregates,
    is_volatile,
    key_of,
    number_of,
    replace,
)
from lance_gateway.planner.sql.tree.queries import conjuncts, without_subqueries

MORE_THAN_ONE: Final = "more than one row returned by a subquery used as an expression: "
"""Begins the text that can't be cast to a number where there are several rows."""
_TRUE, _FALSE, _NULL = (exp.Boolean(this=True), exp.Boolean(this=False), exp.Null())


class Expressions:
    """Replaces the subqueries of one SELECT.

    Args:
        block: the SELECT.
    """

    def __init__(self, block: Block) -> None:
        self._block, self._fresh = block, block.fresh
        self._values: dict[str, exp.Expr] = {}

    def replace(self, site: Site) -> None:
        """Put what is joined in the place of a subquery.

        Raises:
            RewritingError: it can't be joined.
        """
        if is_volatile(site.query):
            msg = "a subquery with a function that gives another value each time is not joined"
            raise RewritingError(msg)
        text = key_of(site.node)
        wanted_true = site.kind is Kind.MEMBER and self._wants_only_true(site)
        if wanted_true:
            text += " only true"
        value = self._values.get(text)
        if value is None:
            match site.kind:
                case Kind.VALUE:
                    value = self._value(site)
                case Kind.EXISTS:
                    value = self._exists(site)
                case Kind.MEMBER:
                    value = self._member(site, site.node.this, only_true=wanted_true)
                case Kind.COMPARED:
                    value = self._compared(site)
            self._values[text] = value
        replace(site.node, value.copy())

    def _wants_only_true(self, site: Site) -> bool:
        if site.clause != "where":
            return False
        where = self._block.select.args["where"]
        return any(one is site.node for one in conjuncts(where.this))

    # A value

    def _value(self, site: Site) -> exp.Expr:
        domain = self._block.make_domain(site.query)
        query = self._extend(site.query, domain)
        names = output_names(query)
        name = self._only_output(names, domain)
        alias = self._fresh.name("rows")
        scope = self._block.scope
        value = self._fresh.name("value")
        if domain is not None and _has_one_row(site.query):
            # Columns around it may be written without their relation: no other one may have their names.
            renamed = [value if one == name else one for one in names]
            self._block.join(query, renamed, domain.match(alias, scope), alias, renamed)
            return column_of(alias, value, scope)
        inner, inner_scope = self._fresh.name("rows"), self._fresh.number()
        rows = self._fresh.name("count")
        outputs = [
            aliased(call("first_value", column_of(inner, name, inner_scope)), value),
            aliased(call("count", exp.Star()), rows),
        ]
        grouped = self._group(query, domain, inner, inner_scope, outputs)
        self._join(grouped, [value, rows], domain, alias)
        number = column_of(alias, rows, scope)
        # concat() of NULL, which the optimizer may find, would be a text that can't be cast.
        text = exp.DPipe(this=exp.Literal.string(MORE_THAN_ONE), expression=number.copy())
        failing = exp.Cast(this=text, to=exp.DataType.build("BIGINT"))
        fails = either((exp.GT(this=number, expression=number_of(1)), failing))
        return either((exp.Is(this=fails, expression=exp.Null()), column_of(alias, value, scope)))

    # Conditions

    def _exists(self, site: Site) -> exp.Expr:
        domain = self._block.make_domain(site.query)
        inner, inner_scope = self._fresh.name("rows"), self._fresh.number()
        alias, found = self._fresh.name("rows"), self._fresh.name("found")
        if domain is None:
            few = select_from([number_of(1)], derived(site.query.copy(), inner), inner_scope)
            few.set("limit", exp.Limit(expression=number_of(1)))
            counted = aliased(exp.GT(this=call("count", exp.Star()), expression=number_of(0)), found)
            one = select_from([counted], derived(few, self._fresh.name("rows")), self._fresh.number())
            self._join(one, [found], None, alias)
            return column_of(alias, found, self._block.scope)
        query = self._block.extend(site.query, domain)
        outputs = [aliased(_TRUE.copy(), found)]
        distinct = self._group(query, domain, inner, inner_scope, outputs)
        self._join(distinct, [found], domain, alias)
        return _is_not_null(column_of(alias, found, self._block.scope))

    def _member(self, site: Site, subject: exp.Expr, *, only_true: bool = False) -> exp.Expr:
        _check_subject(subject)
        domain = self._block.make_domain(site.query)
        query = self._extend(site.query, domain)
        name = self._only_output(output_names(query), domain)
        alias, found, member = self._fresh.name("rows"), self._fresh.name("found"), self._fresh.name("member")
        inner, inner_scope = self._fresh.name("rows"), self._fresh.number()
        own = column_of(inner, name, inner_scope)
        outputs = [aliased(own, member), aliased(_TRUE.copy(), found)]
        members = self._group(query, domain, inner, inner_scope, outputs, [own])
        members.set("where", exp.Where(this=_is_not_null(own.copy())))
        scope = self._block.scope
        equal = exp.EQ(this=column_of(alias, member, scope), expression=exp.Paren(this=subject.copy()))
        self._join(members, [member, found], domain, alias, equal)
        hit = _is_not_null(column_of(alias, found, scope))
        if only_true:
            return hit
        state, *_ = self._summary(site.query, domain, ())
        return self._three_valued(hit, state, subject, _FALSE)

    def _compared(self, site: Site) -> exp.Expr:
        node, subject = site.node, site.node.this
        is_any = isinstance(node.expression, exp.Any)
        if is_any and isinstance(node, exp.EQ):
            return self._member(site, subject)
        if not is_any and isinstance(node, exp.NEQ):
            return exp.Not(this=exp.Paren(this=self._member(site, subject)))
        _check_subject(subject)
        domain = self._block.make_domain(site.query)
        if isinstance(node, exp.EQ | exp.NEQ):
            state, low, high = self._summary(site.query, domain, ("min", "max"))
            tests = [type(node)(this=subject.copy(), expression=one) for one in (low, high)]
            test: exp.Expr = exp.Or(this=tests[0], expression=tests[1])
            if isinstance(node, exp.EQ):
                test = exp.And(this=tests[0], expression=tests[1])
        else:
            wants_low = isinstance(node, exp.GT | exp.GTE) == is_any
            state, bound = self._summary(site.query, domain, ("min" if wants_low else "max",))
            test = type(node)(this=subject.copy(), expression=bound)
        if is_any:
            return self._three_valued(test, state, subject, _FALSE)
        return self._three_valued(exp.Not(this=exp.Paren(this=test)), state, subject, _TRUE)

    def _three_valued(
        self, decided: exp.Expr, state: exp.Expr, subject: exp.Expr, otherwise: exp.Boolean
    ) -> exp.Expr:
        """Return the value of a condition on all rows.

        Args:
            decided: whether one of the rows decides.
            state: 0 if there are no rows, 1 if none of them is NULL, else 2.
            subject: what is compared.
            otherwise: the value if no row decides, and none is NULL.
        """
        hit = exp.Boolean(this=not otherwise.this)
        return either(
            (decided, hit),
            (exp.EQ(this=state, expression=number_of(0)), otherwise.copy()),
            (exp.Is(this=exp.Paren(this=subject.copy()), expression=exp.Null()), _NULL.copy()),
            (exp.EQ(this=state.copy(), expression=number_of(2)), _NULL.copy()),
            default=otherwise.copy(),
        )

    def _summary(self, query: exp.Query, domain: Domain | None, functions: tuple[str, ...]) -> list[exp.Expr]:
        """Join what is told of all rows of a subquery: its state, and some aggregates of its output."""
        extended = self._extend(query, domain)
        name = self._only_output(output_names(extended), domain)
        inner, inner_scope = self._fresh.name("rows"), self._fresh.number()
        own = column_of(inner, name, inner_scope)
        rows = call("count", exp.Star())
        state = either(
            (exp.EQ(this=rows, expression=number_of(0)), number_of(0)),
            (exp.EQ(this=rows.copy(), expression=call("count", own)), number_of(1)),
            default=number_of(2),
        )
        values: list[exp.Expr] = [state, *(call(function, own.copy()) for function in functions)]
        names = [self._fresh.name("total") for _ in values]
        outputs = [aliased(value, one) for value, one in zip(values, names, strict=True)]
        alias, scope = self._fresh.name("rows"), self._block.scope
        grouped = self._group(extended, domain, inner, inner_scope, outputs)
        self._join(grouped, names, domain, alias)
        columns = [column_of(alias, one, scope) for one in names]
        return [call("coalesce", columns[0], number_of(0)), *columns[1:]]

    # Parts

    def _extend(self, query: exp.Query, domain: Domain | None) -> exp.Query:
        """Return a query for each of the values; without any, a copy whose outputs have names."""
        if domain is not None:
            return self._block.extend(query, domain, breaks_ties=True)
        query = query.copy()
        first: exp.Expr = query
        while isinstance(first, exp.SetOperation | exp.Subquery):
            first = first.this
        if isinstance(first, exp.Select):
            name_outputs(first, self._fresh)
        return query

    def _join(
        self, query: exp.Query, names: list[str], domain: Domain | None, alias: str, *conditions: exp.Expr
    ) -> None:
        keys = () if domain is None else domain.keys
        match = [] if domain is None else domain.match(alias, self._block.scope)
        self._block.join(query, [*names, *keys], [*conditions, *match], alias)

    def _only_output(self, names: list[str], domain: Domain | None) -> str:
        own = names[: len(names) - len(domain.keys)] if domain is not None else names
        plain = [name for name in own if not name.startswith("sort#")]
        if len(plain) != 1:
            msg = f"a subquery that is a value has one column, and this one has {len(plain)}"
            raise RewritingError(msg)
        return plain[0]

    def _group(
        self,
        query: exp.Query,
        domain: Domain | None,
        inner: str,
        scope: int,
        outputs: Sequence[exp.Expr],
        groups: Sequence[exp.Expr] = (),
    ) -> exp.Select:
        """Return one row for each of the values, and for each of further groups."""
        keys = [] if domain is None else [column_of(inner, key, scope) for key in domain.keys]
        select = select_from([*outputs, *(key.copy() for key in keys)], derived(query, inner), scope)
        if keys or groups:
            select.set("group", exp.Group(expressions=[*keys, *(one.copy() for one in groups)]))
        return select


def _is_not_null(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Paren(this=exp.Is(this=value, expression=exp.Null())))


def _check_subject(subject: exp.Expr) -> None:
    if isinstance(subject, exp.Tuple):
        msg = "rows of several values are not compared with subqueries"
        raise RewritingError(msg)
    if is_volatile(subject) or any(isinstance(one, exp.Window) for one in without_subqueries(subject)):
        msg = "what OVER or a function without a fixed value computes is not compared with subqueries"
        raise RewritingError(msg)


def _has_one_row(query: exp.Query) -> bool:
    """Return whether a query certainly has at most one row."""
    limit = query.args.get("limit")
    number = limit.args.get("expression") if limit is not None else None
    if isinstance(number, exp.Literal) and number.this in {"0", "1"}:
        return True
    if not isinstance(query, exp.Select) or query.args.get("group"):
        return False
    return has_aggregates(query) or not query.args.get("from_")
