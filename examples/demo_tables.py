"""The tables of the demo: `orders`, which MemWAL writers keep changing, and `customers`, which is still."""

import shutil
import uuid
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

from lance_gateway.memwal.regions.manifest import RegionManifest, commit_manifest
from lance_gateway.memwal.storage.files import Storage

ORDER_COUNT = 300_000
CUSTOMER_COUNT = 2_000
REGION_COUNT = 4
STATUSES = ("placed", "paid", "shipped", "returned")
SEGMENTS = ("household", "workshop", "retail", "public")

PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}
ORDERS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("customer_id", pa.int32()),
        pa.field("amount", pa.float64()),
        pa.field("status", pa.string()),
        pa.field("placed_at", pa.timestamp("us")),
    ]
)
CUSTOMERS = pa.schema(
    [
        pa.field("customer_id", pa.int32(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("segment", pa.string()),
    ]
)


def make_orders(ids: np.ndarray, rng: np.random.Generator) -> pa.Table:
    """Draw one order per id.

    Amounts are multiples of a quarter, so that sums of doubles are exact in any order of adding.

    Args:
        ids: The primary keys, int64.
        rng: The source of all other columns.

    Returns:
        A table with the schema `ORDERS`, one row per id.
    """
    first_day = np.datetime64("2026-01-01T00:00:00", "us")
    return pa.table(
        {
            "id": ids,
            "customer_id": rng.integers(0, CUSTOMER_COUNT, len(ids), dtype="i4"),
            "amount": rng.integers(4, 2_000, len(ids)) / 4,
            "status": rng.choice(STATUSES, len(ids)),
            "placed_at": first_day + rng.integers(0, 300 * 24 * 3600, len(ids)).astype("timedelta64[s]"),
        },
        schema=ORDERS,
    )


def create_tables(root: Path) -> None:
    """Write both tables below `root` in place of older ones, and the regions of `orders`."""
    for name in ("orders", "customers"):
        shutil.rmtree(root / f"{name}.lance", ignore_errors=True)
    rng = np.random.default_rng(2026)
    customer_ids = np.arange(CUSTOMER_COUNT, dtype="i4")
    customers = {
        "customer_id": customer_ids,
        "name": [f"Customer {number:04d}" for number in customer_ids],
        "segment": [SEGMENTS[number % len(SEGMENTS)] for number in customer_ids],
    }
    lance.write_dataset(pa.table(customers, schema=CUSTOMERS), str(root / "customers.lance"))

    uri = str(root / "orders.lance")
    orders = lance.write_dataset(make_orders(np.arange(ORDER_COUNT), rng), uri, schema=ORDERS)
    orders.create_scalar_index("id", "BTREE")
    orders = lance.dataset(uri)
    orders.initialize_mem_wal(bucket_column="id", num_buckets=REGION_COUNT)
    create_regions(uri)


def create_regions(uri: str) -> None:
    """Commit the first manifest of every region, before any writer opens it.

    A writer that Lance opens adopts this manifest and carries its recorded value along. Without that value a
    reader cannot know which rows a region may hold, and has to read every region.
    """
    details = lance.dataset(uri).mem_wal_index_details()
    spec = details["sharding_specs"][0]
    field = spec["fields"][0]["field_id"]
    table = Storage.open(uri)
    for bucket in range(REGION_COUNT):
        manifest = RegionManifest(
            region_id=str(uuid.uuid4()),
            version=1,
            writer_epoch=0,
            replay_after_wal_entry_position=0,
            wal_entry_position_last_seen=0,
            current_generation=1,
            flushed_generations=(),
            region_spec_id=spec["spec_id"],
            region_values={field: bucket.to_bytes(4, "little")},
            sealed=False,
        )
        if not commit_manifest(table, manifest):
            message = f"region {manifest.region_id} of {uri} exists already; start from an empty directory"
            raise RuntimeError(message)
