"""A wholesale business in eight tables, in the shape of TPC-H, and what is asked of it."""

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.reports.settings import BenchSettings
from benchmarks.tables.fresh_tables import FreshTables, ensure_fresh_tables

_ROWS_PER_SCALE = 6_000_000

Column = Sequence[object] | np.ndarray

MONEY = pa.decimal128(15, 2)

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0),
    ("FRANCE", 3), ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4),
    ("JAPAN", 2), ("JORDAN", 4),
    ("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3),
    ("SAUDI ARABIA", 4), ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1),
)  # fmt: skip
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
MODES = ("AIR", "AIR REG", "FOB", "MAIL", "RAIL", "SHIP", "TRUCK")
INSTRUCTIONS = ("COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN")
FINISHES = ("ANODIZED", "BRUSHED", "BURNISHED", "PLATED", "POLISHED")
SIZES = ("ECONOMY", "LARGE", "MEDIUM", "PROMO", "SMALL", "STANDARD")
METALS = ("BRASS", "COPPER", "NICKEL", "STEEL", "TIN")
CONTAINERS = ("BAG", "BOX", "CAN", "CASE", "DRUM", "JAR", "PACK", "PKG")
CONTAINER_SIZES = ("JUMBO", "LG", "MED", "SM", "WRAP")
COLOURS = ("almond", "blue", "forest", "green", "ivory", "lemon", "navy", "olive", "plum", "rose")
WORDS = (
    "accounts",
    "Customer",
    "deposits",
    "Complaints",
    "packages",
    "special",
    "theodolites",
    "requests",
    "ideas",
)

_KEY = "lance-schema:unenforced-primary-key"
_EPOCH = dt.date(1992, 1, 1)
_DAYS = (dt.date(1998, 8, 2) - _EPOCH).days


def read_queries() -> dict[str, str]:
    """Return the 22 queries by title; each title begins with the number of the query."""
    blocks = Path(__file__).with_name("wholesale.sql").read_text(encoding="utf-8").split("-- ")[1:]
    parts = (block.partition("\n") for block in blocks)
    return {title.strip(): sql.strip().rstrip(";") for title, _, sql in parts}


def key_field(name: str, data_type: pa.DataType, position: int | None = None) -> pa.Field:
    """Return a primary-key column; `position` orders the columns of a composite key, from 1."""
    metadata = {_KEY: "true"}
    if position is not None:
        metadata[f"{_KEY}:position"] = str(position)
    return pa.field(name, data_type, nullable=False, metadata=metadata)


def create_schemas() -> dict[str, pa.Schema]:
    """Table name -> schema, with the primary keys marked."""
    integer, text, date = pa.int64(), pa.string(), pa.date32()

    def schema(*fields: pa.Field | tuple[str, pa.DataType]) -> pa.Schema:
        return pa.schema([field if isinstance(field, pa.Field) else pa.field(*field) for field in fields])

    return {
        "region": schema(key_field("r_regionkey", integer), ("r_name", text)),
        "nation": schema(key_field("n_nationkey", integer), ("n_name", text), ("n_regionkey", integer)),
        "supplier": schema(
            key_field("s_suppkey", integer), ("s_name", text), ("s_address", text), ("s_nationkey", integer),
            ("s_phone", text), ("s_acctbal", MONEY), ("s_comment", text),
        ),
        "customer": schema(
            key_field("c_custkey", integer), ("c_name", text), ("c_address", text), ("c_nationkey", integer),
            ("c_phone", text), ("c_acctbal", MONEY), ("c_mktsegment", text), ("c_comment", text),
        ),
        "part": schema(
            key_field("p_partkey", integer), ("p_name", text), ("p_mfgr", text), ("p_brand", text),
            ("p_type", text), ("p_size", pa.int32()), ("p_container", text), ("p_retailprice", MONEY),
        ),
        "partsupp": schema(
            key_field("ps_partkey", integer, 1), key_field("ps_suppkey", integer, 2),
            ("ps_availqty", pa.int32()), ("ps_supplycost", MONEY),
        ),
        "orders": schema(
            key_field("o_orderkey", integer), ("o_custkey", integer), ("o_orderstatus", text),
            ("o_totalprice", MONEY), ("o_orderdate", date), ("o_orderpriority", text),
            ("o_shippriority", pa.int32()), ("o_comment", text),
        ),
        "lineitem": schema(
            key_field("l_orderkey", integer, 1), key_field("l_linenumber", pa.int32(), 2),
            ("l_partkey", integer),
            ("l_suppkey", integer), ("l_quantity", MONEY), ("l_extendedprice", MONEY), ("l_discount", MONEY),
            ("l_tax", MONEY), ("l_returnflag", text), ("l_linestatus", text), ("l_shipdate", date),
            ("l_commitdate", date), ("l_receiptdate", date), ("l_shipinstruct", text), ("l_shipmode", text),
        ),
    }  # fmt: skip


def ensure_wholesale_tables(settings: BenchSettings) -> tuple[float, FreshTables]:
    """Open the tables in the scale that the settings ask for, at most 1; build them if they are not there."""
    scale = round(min(settings.rows / _ROWS_PER_SCALE, 1.0), 3)
    home = settings.data_dir / f"wholesale-scale{scale:g}"
    return scale, ensure_fresh_tables(home, lambda: generate(scale, seed=0).items())


def generate(scale: float, seed: int) -> dict[str, pa.Table]:
    """Return the eight tables with about ``6,000,000 * scale`` line items; equal for equal seeds."""
    maker = _Maker(np.random.default_rng(seed))
    suppliers, customers = int(10_000 * scale), int(150_000 * scale)
    parts, orders = int(200_000 * scale), int(1_500_000 * scale)
    columns: dict[str, Mapping[str, Column]] = {
        "region": {"r_regionkey": range(len(REGIONS)), "r_name": REGIONS},
        "nation": {
            "n_nationkey": range(len(NATIONS)),
            "n_name": [name for name, _ in NATIONS],
            "n_regionkey": [region for _, region in NATIONS],
        },
        "supplier": maker.supplier(suppliers),
        "customer": maker.customer(customers),
        "part": maker.part(parts),
        "partsupp": maker.partsupp(parts, suppliers),
        "orders": maker.orders(orders, customers),
    }
    columns["lineitem"] = maker.lineitem(columns["orders"], parts, suppliers)
    return {
        name: pa.table(
            [_build_array(columns[name][field.name], field.type) for field in schema], schema=schema
        )
        for name, schema in create_schemas().items()
    }


class _Maker:
    def __init__(self, random: np.random.Generator) -> None:
        self._random = random

    def supplier(self, count: int) -> dict[str, Column]:
        nations = self._random.integers(0, len(NATIONS), count)
        return {
            "s_suppkey": np.arange(1, count + 1),
            "s_name": [f"Supplier {number}" for number in range(1, count + 1)],
            "s_address": [f"{number} Quay" for number in range(count)],
            "s_nationkey": nations,
            "s_phone": self._phones(nations),
            "s_acctbal": self._cents(-99_999, 999_999, count),
            "s_comment": self._comments(count),
        }

    def customer(self, count: int) -> dict[str, Column]:
        nations = self._random.integers(0, len(NATIONS), count)
        return {
            "c_custkey": np.arange(1, count + 1),
            "c_name": [f"Customer {number}" for number in range(1, count + 1)],
            "c_address": [f"{number} Street" for number in range(count)],
            "c_nationkey": nations,
            "c_phone": self._phones(nations),
            "c_acctbal": self._cents(-99_999, 999_999, count),
            "c_mktsegment": self._random.choice(SEGMENTS, count),
            "c_comment": self._comments(count),
        }

    def part(self, count: int) -> dict[str, Column]:
        makers = self._random.integers(1, 6, count)
        brands = self._random.integers(1, 6, count)
        return {
            "p_partkey": np.arange(1, count + 1),
            "p_name": self._phrases(count, COLOURS, COLOURS),
            "p_mfgr": [f"Manufacturer#{maker}" for maker in makers],
            "p_brand": [f"Brand#{maker}{brand}" for maker, brand in zip(makers, brands, strict=True)],
            "p_type": self._phrases(count, SIZES, FINISHES, METALS),
            "p_size": self._random.integers(1, 51, count),
            "p_container": self._phrases(count, CONTAINER_SIZES, CONTAINERS),
            "p_retailprice": 90_000 + np.arange(count) % 20_000,
        }

    def partsupp(self, parts: int, suppliers: int) -> dict[str, Column]:
        part_keys = np.repeat(np.arange(1, parts + 1), 4)
        offsets = np.tile(np.arange(4) * (suppliers // 4), parts)
        return {
            "ps_partkey": part_keys,
            "ps_suppkey": (part_keys + offsets) % suppliers + 1,
            "ps_availqty": self._random.integers(1, 10_000, parts * 4),
            "ps_supplycost": self._cents(100, 100_000, parts * 4),
        }

    def orders(self, count: int, customers: int) -> dict[str, Column]:
        buyers = self._random.integers(1, customers + 1, count)
        return {
            "o_orderkey": np.arange(1, count + 1),
            "o_custkey": np.where(
                buyers % 3 == 0, buyers - 1 + (buyers == 3) * 2, buyers
            ),  # a third never orders
            "o_orderstatus": self._random.choice(("F", "O", "P"), count, p=(0.49, 0.49, 0.02)),
            "o_totalprice": self._cents(100_000, 50_000_000, count),
            "o_orderdate": self._random.integers(0, _DAYS, count),
            "o_orderpriority": self._random.choice(PRIORITIES, count),
            "o_shippriority": np.zeros(count, np.int64),
            "o_comment": self._comments(count),
        }

    def lineitem(self, orders: Mapping[str, Column], parts: int, suppliers: int) -> dict[str, Column]:
        lines = self._random.integers(1, 8, len(orders["o_orderkey"]))
        count = int(lines.sum())
        part_keys = self._random.integers(1, parts + 1, count)
        quantities = self._random.integers(1, 51, count)
        ordered = np.repeat(np.asarray(orders["o_orderdate"]), lines)
        shipped = ordered + self._random.integers(1, 122, count)
        received = shipped + self._random.integers(1, 31, count)
        today = (dt.date(1995, 6, 17) - _EPOCH).days
        return {
            "l_orderkey": np.repeat(np.asarray(orders["o_orderkey"]), lines),
            "l_linenumber": np.concatenate([np.arange(1, number + 1) for number in lines]),
            "l_partkey": part_keys,
            "l_suppkey": (part_keys + self._random.integers(0, 4, count) * (suppliers // 4)) % suppliers + 1,
            "l_quantity": quantities * 100,
            "l_extendedprice": quantities * (90_000 + (part_keys - 1) % 20_000),
            "l_discount": self._random.integers(0, 11, count),
            "l_tax": self._random.integers(0, 9, count),
            "l_returnflag": np.where(received <= today, self._random.choice(("A", "R"), count), "N"),
            "l_linestatus": np.where(shipped > today, "O", "F"),
            "l_shipdate": shipped,
            "l_commitdate": ordered + self._random.integers(30, 91, count),
            "l_receiptdate": received,
            "l_shipinstruct": self._random.choice(INSTRUCTIONS, count),
            "l_shipmode": self._random.choice(MODES, count),
        }

    def _cents(self, low: int, high: int, count: int) -> np.ndarray:
        return self._random.integers(low, high, count)

    def _phones(self, nations: np.ndarray) -> list[str]:
        return [
            f"{nation + 10}-{number:07d}" for nation, number in zip(nations, range(len(nations)), strict=True)
        ]

    def _phrases(self, count: int, *vocabularies: Sequence[str]) -> list[str]:
        drawn = [self._random.choice(vocabulary, count) for vocabulary in vocabularies]
        return [" ".join(words) for words in zip(*drawn, strict=True)]

    def _comments(self, count: int) -> list[str]:
        return self._phrases(count, *[WORDS] * 4)


def _build_array(values: Column, data_type: pa.DataType) -> pa.Array:
    """Days since 1992 become dates, cents become money, the rest is taken as it is."""
    if pa.types.is_date(data_type):
        return pa.array(np.asarray(values, np.int32) + (_EPOCH - dt.date(1970, 1, 1)).days, pa.int32()).cast(
            data_type
        )
    if pa.types.is_decimal(data_type):
        cents = pa.array(np.asarray(values, np.int64)).cast(pa.decimal128(19, 0))
        return pc.multiply(cents, pa.scalar("0.01").cast(pa.decimal128(3, 2))).cast(data_type)
    if pa.types.is_string(data_type):
        return pa.array([str(value) for value in values], data_type)
    return pa.array(list(values), data_type)
