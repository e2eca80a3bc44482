"""Parameters that are kept for prepared statements: which set is current, and what leaves first."""

import pyarrow as pa
import pytest

from lance_gateway.gateway.execution.parameters import Bindings, cast_parameters
from lance_gateway.memwal.errors import InvalidInputError, NotFoundError
from lance_gateway.planner.bridge.types.plain_types import bind_value

KIB = 1024


def values(size: int = 0) -> pa.Table:
    """One row of about so many bytes."""
    return pa.table({"$1": [b"x" * size]})


@pytest.fixture
def bindings() -> Bindings:
    kept = Bindings(max_statements=4, idle_seconds=60, max_bytes=100 * KIB)
    kept.open(b"a")
    kept.open(b"b")
    return kept


def test_the_newest_set_is_current_and_older_ones_can_be_had(bindings: Bindings) -> None:
    assert bindings.current_number(b"a") == 0
    first, second = values(1), values(2)
    assert bindings.add(b"a", first)
    assert bindings.add(b"a", second)
    assert bindings.current_number(b"a") == 2
    assert bindings.get(b"a", 1) is first
    assert bindings.get(b"a", 2) is second
    assert bindings.current_number(b"b") == 0


def test_a_statement_keeps_its_last_eight_sets(bindings: Bindings) -> None:
    for size in range(9):
        bindings.add(b"a", values(size))
    with pytest.raises(NotFoundError, match="others were bound since"):
        bindings.get(b"a", 1)
    assert [bindings.get(b"a", number).nbytes for number in (2, 9)] == [values(1).nbytes, values(8).nbytes]


def test_all_sets_together_have_a_limit_and_the_oldest_leaves_first(bindings: Bindings) -> None:
    bindings.add(b"a", values(40 * KIB))
    bindings.add(b"b", values(40 * KIB))
    bindings.add(b"b", values(40 * KIB))
    assert bindings.nbytes <= 100 * KIB
    with pytest.raises(NotFoundError, match="bind and execute it again"):
        bindings.get(b"a", 1)
    assert bindings.get(b"b", 1).num_rows == bindings.get(b"b", 2).num_rows == 1


def test_the_newest_set_is_kept_however_large_it_is(bindings: Bindings) -> None:
    bindings.add(b"a", values(10))
    bindings.add(b"a", values(200 * KIB))
    assert bindings.get(b"a", 2).nbytes > 200 * KIB
    with pytest.raises(NotFoundError):
        bindings.get(b"a", 1)


def test_closing_a_statement_gives_its_bytes_back(bindings: Bindings) -> None:
    bindings.add(b"a", values(KIB))
    bindings.close(b"a")
    bindings.close(b"a")
    assert bindings.nbytes == 0
    assert not bindings.add(b"a", values())
    with pytest.raises(NotFoundError, match="are not known here"):
        bindings.get(b"a", 1)


def test_statements_that_nobody_closes_leave_nothing_unbounded() -> None:
    kept = Bindings(max_statements=4, idle_seconds=60, max_bytes=100 * KIB)
    for number in range(1000):
        statement = number.to_bytes(16, "big")
        kept.open(statement)
        kept.add(statement, values())
    assert len(kept) == 4
    assert kept.nbytes <= 100 * KIB


def test_a_vector_of_another_length_is_refused() -> None:
    bound, kind = pa.array([[1.0, 2.0]], pa.list_(pa.float64(), 2)), pa.list_(pa.float32(), 5)
    with pytest.raises(
        InvalidInputError, match=r"parameter \$1 is of type fixed_size_list<.*\[5\], and a value"
    ):
        cast_parameters(pa.table({"1": bound}), pa.schema([("$1", kind)]))
    with pytest.raises(InvalidInputError, match=r"parameter \$1 is \[1\.0, 2\.0\]"):
        bind_value(1, bound[0], kind)


def test_a_text_of_a_million_numbers_is_no_vector() -> None:
    schema = pa.schema([("$1", pa.list_(pa.float32()))])
    assert len(cast_parameters(pa.table({"1": [f"[{'1,' * 999}1]"]}), schema).column(0)[0]) == 1000
    with pytest.raises(InvalidInputError, match="is a list of numbers, and the text"):
        cast_parameters(pa.table({"1": [f"[{'1,' * 1_000_000}1]"]}), schema)
