"""Bloom filters: those that Lance writes beside a generation, and our own."""

import datetime as dt
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pybloom_live import BloomFilter

from lance_gateway.memwal.bloom import (
    OWN_FALSE_POSITIVE_RATE,
    KeyFilter,
    LookupKey,
    OwnFilter,
    SplitBlockFilter,
    build_key_filter,
    hash_key,
    load_key_filter,
    siphash13,
)
from lance_gateway.memwal.errors import CorruptDataError, InvalidInputError
from lance_gateway.memwal.storage.files import Storage, generation_directory
from tests.memwal.written import WrittenTable, keyed_schema
from tests.support.sampling import sample

ROWS = 2000

HASHED_BY_LANCE = {
    "int64": ([pa.int64()], lambda at: (at * 977 - 5,)),
    "int64 extremes": ([pa.int64()], lambda at: (2**63 - 1 - at if at % 2 else -(2**63) + at,)),
    "int32": ([pa.int32()], lambda at: (at * 977 - 5,)),
    "utf8": ([pa.string()], lambda at: ("é" * (at % 9) + str(at),)),
    "binary": ([pa.binary()], lambda at: (b"\x00\xff" * (at % 5) + b"%d" % at,)),
    "int64, utf8": ([pa.int64(), pa.string()], lambda at: (at // 7, f"x{at % 7}")),
    "binary, int32, utf8": (
        [pa.binary(), pa.int32(), pa.string()],
        lambda at: (b"%d" % (at // 9), at % 3, "" if at % 9 < 3 else f"{at % 9}"),
    ),
}

NOT_HASHED_BY_LANCE = [
    pa.int8(),
    pa.int16(),
    pa.uint8(),
    pa.uint32(),
    pa.uint64(),
    pa.large_string(),
    pa.large_binary(),
]


def keys_table(types: Sequence[pa.DataType], keys: Sequence[tuple[object, ...]]) -> pa.Table:
    columns = zip(*keys, strict=True)
    return pa.table(
        [pa.array(column, data_type) for column, data_type in zip(columns, types, strict=True)],
        names=[f"k{at}" for at in range(len(types))],
    )


def flushed(
    new_table: Callable[..., WrittenTable], types: Sequence[pa.DataType], keys: Sequence[tuple[object, ...]]
) -> tuple[Storage, str]:
    """Has Lance flush keys as one generation; returns where it is."""
    schema = keyed_schema(*(pa.field(f"k{at}", data_type) for at, data_type in enumerate(types)))
    table = new_table(schema)
    rows = keys_table(types, keys).append_column("qty", pa.array(range(len(keys)), pa.int32()))
    region = table.write(rows.cast(schema), max_memtable_rows=len(keys) + 1)
    (generation,) = table.manifest(region).flushed_generations
    return table.storage, generation_directory(region, generation.path)


@pytest.mark.slow
@pytest.mark.parametrize("case", HASHED_BY_LANCE)
def test_lances_filter_knows_every_key_and_hardly_any_other(
    new_table: Callable[..., WrittenTable], case: str
):
    types, key_at = HASHED_BY_LANCE[case]
    present = {key_at(at) for at in range(ROWS)}
    assert len(present) == ROWS
    absent = [key for at in range(ROWS, 4 * ROWS) if (key := key_at(at)) not in present]
    storage, generation = flushed(new_table, types, list(present))

    key_filter = load_key_filter(storage, generation, types, ROWS)

    assert key_filter is not None
    assert all(map(key_filter.might_contain, present))
    assert sum(map(key_filter.might_contain, absent)) < len(absent) / 100
    assert key_filter.nbytes == 32768
    assert key_filter.description == "split-block 32768 B, 0.0% fp"


@pytest.mark.slow
@pytest.mark.parametrize("data_type", NOT_HASHED_BY_LANCE, ids=str)
def test_a_filter_over_keys_that_lance_does_not_hash_is_unusable(
    new_table: Callable[..., WrittenTable], data_type: pa.DataType
):
    kind = bytes if "binary" in str(data_type) else str if "string" in str(data_type) else int
    keys = [(b"%d" % at if kind is bytes else kind(at),) for at in range(100)]
    storage, generation = flushed(new_table, [data_type], keys)
    assert storage.exists(f"{generation}/bloom_filter.bin") == (True,)
    assert load_key_filter(storage, generation, [data_type], 100) is None
    with pytest.raises(InvalidInputError, match=f"leave out key columns of type {data_type}"):
        hash_key(keys[0], [data_type])


def test_a_composite_key_with_one_such_column_makes_the_filter_unusable(
    new_table: Callable[..., WrittenTable],
):
    types = [pa.int64(), pa.uint32()]
    storage, generation = flushed(new_table, types, [(at, at) for at in range(100)])
    assert load_key_filter(storage, generation, types, 100) is None


@pytest.mark.slow
def test_a_filter_that_is_too_full_is_unusable(new_table: Callable[..., WrittenTable]):
    keys = [(at,) for at in range(60_000)]
    storage, generation = flushed(new_table, [pa.int64()], keys)
    assert load_key_filter(storage, generation, [pa.int64()], len(keys)) is None
    full = SplitBlockFilter(storage.read(f"{generation}/bloom_filter.bin"), (pa.int64(),))
    assert all(map(full.might_contain, keys[::100]))
    seen = sum(full.might_contain((-at,)) for at in range(1, 5001)) / 5000
    assert full.false_positive_rate == pytest.approx(seen, abs=0.03)


def test_an_absent_or_blank_filter_is_none(tmp_path: Path):
    storage = Storage.open(str(tmp_path))
    assert load_key_filter(storage, "g", [pa.int64()], 5) is None
    storage.put("g/bloom_filter.bin", bytes(32768))
    assert load_key_filter(storage, "g", [pa.int64()], 5) is None
    assert load_key_filter(storage, "g", [pa.int64()], 1) is None
    assert load_key_filter(storage, "g", [pa.int64()], 0) is not None
    assert load_key_filter(storage, "g", [], 5) is None


@pytest.mark.parametrize("size", [0, 31, 32767])
def test_a_filter_that_is_cut_short_is_named(tmp_path: Path, size: int):
    storage = Storage.open(str(tmp_path))
    storage.put("g/bloom_filter.bin", bytes(size))
    with pytest.raises(CorruptDataError, match=rf"g/bloom_filter\.bin: {size} bytes"):
        load_key_filter(storage, "g", [pa.int64()], 5)


TIME = dt.datetime(2024, 2, 29, tzinfo=dt.UTC)

OWN = {
    **HASHED_BY_LANCE,
    "uint64": ([pa.uint64()], lambda at: (2**64 - 1 - at,)),
    "int8, bool": ([pa.int8(), pa.bool_()], lambda at: (at % 100, at % 2 == 0)),
    "date32": ([pa.date32()], lambda at: (dt.date(2000, 1, 1) + dt.timedelta(days=at),)),
    "timestamp": ([pa.timestamp("us", "UTC")], lambda at: (TIME + dt.timedelta(seconds=at),)),
    "decimal": ([pa.decimal128(12, 2)], lambda at: (Decimal(at) / 100,)),
    "float": ([pa.float64()], lambda at: (at / 7,)),
    "large_utf8": ([pa.large_string()], lambda at: (f"é{at}",)),
    "nullable": ([pa.int64(), pa.string()], lambda at: (at if at % 3 else None, f"{at}" if at % 2 else None)),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", sample(OWN, 6))
def test_our_own_filter_takes_keys_of_every_type(case: str):
    types, key_at = OWN[case]
    present = [key_at(at) for at in range(ROWS)]
    known = set(present)
    absent = [key for at in range(ROWS, 4 * ROWS) if (key := key_at(at)) not in known]

    key_filter = build_key_filter(keys_table(types, present))

    assert all(map(key_filter.might_contain, present))
    assert sum(map(key_filter.might_contain, absent)) <= len(absent) / 40
    assert key_filter.nbytes < 2 * ROWS
    assert key_filter.description == f"pybloom {key_filter.nbytes} B, 1.0% fp"


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 500, 30_000], ids=str)
@pytest.mark.parametrize("case", OWN)
def test_its_bits_are_those_that_pybloom_sets(case: str, rows: int):
    types, key_at = OWN[case]
    distinct = [key_at(at) for at in range(min(rows, 500))]
    keys = pa.concat_tables([keys_table(types, distinct)] * -(-rows // 500))
    built = build_key_filter(keys)
    assert isinstance(built, OwnFilter)

    expected = BloomFilter(keys.num_rows, OWN_FALSE_POSITIVE_RATE)
    for key in distinct:
        expected.add(LookupKey(key, tuple(types)).text, skip_check=True)
    assert built.bloom.bitarray == expected.bitarray
    assert len(built.bloom) == keys.num_rows


def test_our_own_filter_takes_repeated_dictionary_encoded_and_no_keys():
    repeated = build_key_filter(pa.table({"k": pa.array(["a", "b"] * 50).dictionary_encode()}))
    assert [repeated.might_contain((key,)) for key in "abc"] == [True, True, False]
    empty = build_key_filter(pa.table({"k": pa.array([], pa.int64())}))
    assert not empty.might_contain((1,))


@pytest.fixture(params=["lance", "own"])
def key_filter(request: pytest.FixtureRequest, new_table: Callable[..., WrittenTable]) -> KeyFilter:
    """A filter of the keys (0, "0") to (99, "99")."""
    types, keys = [pa.int64(), pa.string()], [(at, f"{at}") for at in range(100)]
    if request.param == "own":
        return build_key_filter(keys_table(types, keys))
    loaded = load_key_filter(*flushed(new_table, types, keys), types, 100)
    assert loaded is not None
    return loaded


def test_one_lookup_key_may_ask_many_filters(key_filter: KeyFilter):
    types = (pa.int64(), pa.string())
    assert key_filter.might_contain(LookupKey((7, "7"), types))
    assert not key_filter.might_contain(LookupKey((7, "8"), types))
    assert key_filter.might_contain((pa.scalar(7), pa.scalar("7")))


def test_a_value_that_does_not_fit_its_column_is_not_excluded(key_filter: KeyFilter):
    assert key_filter.might_contain((7.5, "7"))
    assert key_filter.might_contain((7, 7))


def test_a_missing_part_of_a_key_is_hashed_as_one_byte_and_a_present_one_behind_another() -> None:
    types = (pa.int32(), pa.string(), pa.binary(), pa.int64())
    message = b"\x00" + struct.pack("<i", -7) + b"\x00\xc3\xa9\xff\x00" + struct.pack("<Q", 2) + b"\x00b"
    assert hash_key((-7, "é", b"\x00b", None), types) == siphash13(message + b"\x01")
    as_scalars = (pa.scalar(-7, pa.int32()), pa.scalar("é"), pa.scalar(b"\x00b"), pa.scalar(None, pa.int64()))
    assert hash_key(as_scalars, types) == siphash13(message + b"\x01")
    assert hash_key((None, "é", None, None), types) == siphash13(b"\x01\x00\xc3\xa9\xff\x01\x01")
    lowest = b"\x00" + struct.pack("<q", -(2**63))
    assert hash_key((-(2**63),), (pa.int64(),)) == siphash13(lowest)
    with pytest.raises(ValueError, match="shorter"):
        hash_key((1, 2), (pa.int64(),))


@pytest.mark.parametrize(
    ("kind", "present", "absent"),
    [
        (pa.string(), "a", "b"),
        (pa.int16(), 1, 2),
        (pa.date32(), dt.date(2024, 1, 1), dt.date(2024, 1, 2)),
        (pa.decimal128(5, 2), Decimal("1.50"), Decimal("1.51")),
    ],
    ids=str,
)
def test_our_own_filter_tells_null_from_values(kind: pa.DataType, present: object, absent: object) -> None:
    def of(*keys: object) -> KeyFilter:
        return build_key_filter(pa.table({"k": pa.chunked_array([pa.array([one], kind) for one in keys])}))

    with_null, without = of(None, present), of(present)
    for value in (present, pa.scalar(present, kind)):
        assert with_null.might_contain((value,))
        assert without.might_contain((value,))
    assert with_null.might_contain((None,))
    assert not without.might_contain((None,))
    for value in (absent, pa.scalar(absent, kind)):
        assert not with_null.might_contain((value,))
    assert not of(None, None).might_contain((present,))


def test_a_key_of_another_length_is_refused(key_filter: KeyFilter):
    with pytest.raises(InvalidInputError, match="1 values for 2 key columns"):
        key_filter.might_contain((7,))


def test_siphash_gives_its_known_values():
    assert siphash13(b"") == 0xD1FBA762150C532C
    assert len({siphash13(bytes(length)) for length in range(40)}) == 40
