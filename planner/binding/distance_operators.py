"""Rewrites pgvector's operators and casts, and vectors written as text, which DataFusion does not support.

    vec <-> '[1, 2]'              l2_distance(vec, [1.0, 2.0])
    vec <=> $1::vector            cosine_distance(vec, CAST($1 AS DOUBLE[]))
    vec <#> other                 negative_inner_product(vec, other)
    vec <+> ARRAY[1, 2]           l1_distance(vec, ARRAY[1, 2])
    bits <~> [1, 2]               hamming_distance(bits, [1, 2])

`<=>` is the cosine distance where one side is visibly a vector. Elsewhere it keeps DataFusion's meaning:
equal, or both NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from lance_gateway.planner.bridge.distance_functions import DISTANCES, Distance
from lance_gateway.planner.sql.text.tokens import fold
from lance_gateway.planner.sql.tree.dialect import (
    HammingDistance,
    L1Distance,
    NegativeProduct,
    Spaceship,
    parse_expression,
)
from lance_gateway.planner.sql.tree.tree import Tree, read_name
from lance_gateway.planner.sql.value_texts import format_array, read_vector

_OPERATORS: Final[dict[type[exp.Expr], tuple[str, Distance]]] = {
    exp.Distance: ("<->", Distance.L2),
    Spaceship: ("<=>", Distance.COSINE),
    NegativeProduct: ("<#>", Distance.NEGATIVE_PRODUCT),
    L1Distance: ("<+>", Distance.L1),
    HammingDistance: ("<~>", Distance.HAMMING),
}
_VECTOR_TYPES: Final = frozenset({"VECTOR", "HALFVEC"})
_LONG: Final = 16
"""Vectors of this length become constants: DataFusion is slow to parse them, and names columns after them."""
_COMPUTED: Final = (exp.Binary, exp.Unary, exp.Between, exp.In, exp.Case)
"""What can't be an operand without brackets."""
_COMBINED: Final = (exp.Connector, exp.Predicate)
"""Operations that bind less tightly than distances."""


def rewrite_distances(
    tree: Tree, find_vectors: Callable[[], frozenset[str]], keep: Callable[[list[float]], exp.Expr]
) -> frozenset[str]:
    """Replace distance operators, casts to vectors, and vectors written as text; return what is called.

    Args:
        tree: of a query.
        find_vectors: returns the names of columns that hold vectors; called only if needed.
        keep: keeps a long vector as a constant, and returns the expression that refers to it.

    Raises:
        InvalidInputError: an operand is not a single value, or a text is not a vector.
    """
    rewriting = _Rewriting(tree, find_vectors, keep)
    for operation in tree.find_all(exp.Distance, Spaceship):
        rewriting.check_operands(operation)
    for operation in tree.find_all(exp.Distance, Spaceship)[::-1]:
        rewriting.rewrite_operation(operation)
    calls = [call for call in tree.find_all(exp.Anonymous) if fold(call.name) in DISTANCES]
    for call in calls:
        for argument in call.expressions:
            rewriting.rewrite_value(argument)
    for cast in tree.find_all(exp.Cast):
        if _is_vector_cast(cast):
            rewriting.rewrite_value(cast.this)
            tree.replace(cast, cast.this)
    return frozenset(fold(call.name) for call in calls)


def find_vector_names(tree: Tree, columns: Sequence[tuple[str, bool]]) -> frozenset[str]:
    """Return the names of columns that hold vectors, and the names that AS gives them.

    Args:
        tree: of the statement.
        columns: of its tables, each with whether it holds vectors.
    """
    names = {name for name, is_vector in columns if is_vector}
    names -= {name for name, is_vector in columns if not is_vector}
    for alias in tree.find_all(exp.Alias):
        if isinstance(alias.this, exp.Column) and read_name(alias.this.this) in names:
            names.add(read_name(alias.args["alias"]))
    return frozenset(names)


class _Rewriting:
    """The rewriting of one query."""

    def __init__(
        self,
        tree: Tree,
        find_vectors: Callable[[], frozenset[str]],
        keep: Callable[[list[float]], exp.Expr],
    ) -> None:
        self._tree = tree
        self._find_vectors = find_vectors
        self._keep = keep

    def check_operands(self, operation: exp.Binary) -> None:
        """Refuse an operation whose operands are not single values, or that is itself an operand."""
        operator, _ = _OPERATORS[type(operation)]
        if isinstance(operation, Spaceship) and not self._has_vector(operation):
            return
        parent = operation.parent
        is_operand = isinstance(parent, exp.Binary | exp.Neg) and not isinstance(parent, _COMBINED)
        sides = operation.this, operation.expression
        if is_operand or any(isinstance(side, _COMPUTED) and not _is_single(side) for side in sides):
            message = (
                f"{operator} takes a column, a literal, a parameter or a call on either side: put "
                "parentheses around what it compares, and around a distance that is computed with, as in "
                f"1 - (a {operator} b)"
            )
            raise self._tree.error(operation, message)

    def rewrite_operation(self, operation: exp.Binary) -> None:
        """Write an operation as a call; one that compares no vectors stays."""
        if isinstance(operation, Spaceship) and not self._has_vector(operation):
            return
        _, distance = _OPERATORS[type(operation)]
        call = exp.Anonymous(this=distance.value, expressions=[operation.this, operation.expression])
        self._tree.replace(operation, call)

    def rewrite_value(self, value: exp.Expr) -> None:
        """Cast a value that is a text or a parameter, and keep one that is a long list of numbers."""
        if isinstance(value, exp.Parameter):
            self._tree.replace(value, parse_expression(f"CAST(${value.name} AS DOUBLE[])"))
        elif isinstance(value, exp.Literal) and value.is_string:
            numbers = read_vector(value.name)
            if numbers is None:
                raise self._tree.error(value, "A vector such as '[0.1, 0.2, ...]' is expected")
            is_long = len(numbers) >= _LONG
            vector = self._keep(numbers) if is_long else parse_expression(format_array(numbers))
            self._tree.replace(value, vector)
        elif isinstance(value, exp.Array) and len(value.expressions) >= _LONG:
            numbers = _read_numbers(value)
            if numbers is not None:
                self._tree.replace(value, self._keep(numbers))

    def _has_vector(self, operation: exp.Binary) -> bool:
        """Return whether an operand is visibly a vector."""
        return self._is_vector(operation.this) or self._is_vector(operation.expression)

    def _is_vector(self, value: exp.Expr) -> bool:
        if isinstance(value, exp.Array) or _is_vector_cast(value):
            return True
        if isinstance(value, exp.Cast):
            return bool(value.to.is_type(exp.DType.ARRAY))
        if isinstance(value, exp.Literal):
            return value.is_string and read_vector(value.name) is not None
        return isinstance(value, exp.Column) and read_name(value.this) in self._find_vectors()


def _is_vector_cast(value: exp.Expr) -> bool:
    return isinstance(value, exp.Cast) and value.to.sql().partition("(")[0].upper() in _VECTOR_TYPES


def _is_single(value: exp.Expr) -> bool:
    """Return whether an operation in the tree is a single value in the text, as `a.b` and `(a + b)` are."""
    return isinstance(value, exp.Dot | exp.Paren | exp.Cast | exp.Bracket)


def _read_numbers(array: exp.Array) -> list[float] | None:
    """Read the elements of `[1, -2.5, ..]`; return None for others."""
    numbers = []
    for element in array.expressions:
        number = element.this if isinstance(element, exp.Neg) else element
        if not isinstance(number, exp.Literal) or number.is_string:
            return None
        numbers.append(-float(number.name) if number is not element else float(number.name))
    return numbers
