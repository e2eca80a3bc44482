"""The writer of the demo: a process of its own that changes `orders` through Lance's own MemWAL writer.

It obeys lines on stdin and answers each with one line of JSON on stdout:

    pause    stop writing; answer with what has been acknowledged so far
    resume   write on; answer with the same
    mark     write one new order at once; answer with its id, amount and status
    news     publish articles, rewrite the first that is named (`news 17 4`), withdraw the second; answer so

End of input ends it. It keeps a ledger of every acknowledged write: any right answer must equal that ledger.
"""

import json
import queue
import signal
import sys
import threading
import uuid
from collections import defaultdict
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from demo_articles import create_news, make_articles
from demo_tables import make_orders

from lance_gateway.memwal.regions.manifest import list_regions, read_latest_manifest
from lance_gateway.memwal.storage.files import Storage

SECONDS_BETWEEN_ROUNDS = 0.25
ROWS_PER_GENERATION = 4_000


class OrdersWriter:
    """One MemWAL writer per region of `orders`, and the ledger of what they acknowledged."""

    def __init__(self, root: Path) -> None:
        uri = str(root / "orders.lance")
        self.dataset = lance.dataset(uri)
        self.spec = self.dataset.mem_wal_index_details()["sharding_specs"][0]
        self.writers = {
            bucket: self.dataset.mem_wal_writer(
                region_id,
                durable_write=True,
                max_wal_flush_interval_ms=5,
                max_memtable_rows=ROWS_PER_GENERATION,
            )
            for bucket, region_id in regions_by_bucket(uri).items()
        }
        customers = lance.dataset(str(root / "customers.lance")).to_table()
        self.segments = dict(
            zip(customers["customer_id"].to_pylist(), customers["segment"].to_pylist(), strict=True)
        )
        self.ledger: dict[int, tuple[int, float]] = {}
        self.record(self.dataset.to_table(columns=["id", "customer_id", "amount"]))
        self.changed: set[int] = set()
        self.first_insert = self.next_id = max(self.ledger) + 1
        self.rng = np.random.default_rng(14)

    def record(self, rows: pa.Table) -> None:
        """Enter rows into the ledger once their write has been acknowledged."""
        columns = (rows[name].to_pylist() for name in ("id", "customer_id", "amount"))
        for key, customer, amount in zip(*columns, strict=True):
            self.ledger[key] = (customer, amount)

    def route(self, ids: np.ndarray) -> dict[int, np.ndarray]:
        """Sort ids by the bucket that Lance assigns them to; buckets without ids are absent."""
        keys = pa.record_batch({"id": ids})
        values = lance.evaluate_sharding_spec(keys, self.spec, self.dataset.lance_schema)
        buckets = values.column(0).to_numpy()
        return {int(bucket): ids[buckets == bucket] for bucket in np.unique(buckets)}

    def put(self, ids: np.ndarray) -> pa.Table:
        """Write a new version of each id, return the rows once every region has made them durable."""
        written = []
        for bucket, mine in self.route(ids).items():
            rows = make_orders(mine, self.rng)
            self.writers[bucket].put(rows)
            self.record(rows)
            self.changed.update(mine[mine < self.first_insert].tolist())
            written.append(rows)
        return pa.concat_tables(written)

    def delete(self, ids: np.ndarray) -> None:
        """Delete each id, in the region that it lives in."""
        for bucket, mine in self.route(ids).items():
            self.writers[bucket].delete(pa.table({"id": mine}))
            for key in mine.tolist():
                del self.ledger[key]
                self.changed.discard(key)

    def insert(self, count: int) -> pa.Table:
        """Write `count` orders under ids that were never used."""
        ids = np.arange(self.next_id, self.next_id + count)
        self.next_id += count
        return self.put(ids)

    def write_round(self, size: int) -> None:
        """Change `size` orders, add a third as many and delete a tenth as many."""
        drawn = self.rng.choice(np.fromiter(self.ledger, dtype="i8"), size + size // 10, replace=False)
        self.put(drawn[:size])
        self.insert(size // 3)
        self.delete(drawn[size:])

    def summarize(self) -> dict[str, object]:
        """Summarise the ledger: what questions should find, and what happened since the base table."""
        revenue: dict[str, float] = defaultdict(float)
        for customer, amount in self.ledger.values():
            revenue[self.segments[customer]] += amount
        return {
            "orders": len(self.ledger),
            "revenue": sum(revenue.values()),
            "newest": max(self.ledger),
            "by_segment": dict(revenue),
            "inserted": self.next_id - self.first_insert,
            "changed": len(self.changed),
            "deleted": self.next_id - len(self.ledger),
            "untouched": next(key for key in self.ledger if key not in self.changed),
        }

    def close(self) -> None:
        """Flush and close the writer of every region."""
        for writer in self.writers.values():
            writer.close()


def regions_by_bucket(uri: str) -> dict[int, str]:
    """Read which region was created for which bucket from the region manifests."""
    table = Storage.open(uri)
    found = {}
    for region_id in list_regions(table):
        manifest = read_latest_manifest(table, region_id)
        if manifest is not None:
            (value,) = manifest.region_values.values()
            found[int.from_bytes(value, "little")] = region_id
    return found


def publish(root: Path, best: list[int]) -> dict[str, object]:
    """Write what is new about articles through a MemWAL writer of their own."""
    change = create_news(best)
    articles = lance.dataset(str(root / "articles.lance"))
    with articles.mem_wal_writer(str(uuid.uuid4()), durable_write=True) as writer:
        writer.put(make_articles(change["new"] | change["rewritten"]))
        writer.delete(pa.table({"id": pa.array(change["withdrawn"], pa.int64())}))
    return change


def send_answer(value: dict[str, object]) -> None:
    """Send one line of JSON to whoever started this process."""
    print(json.dumps(value), flush=True)


def obey(root: Path, writer: OrdersWriter, commands: "queue.SimpleQueue[str | None]") -> None:
    """Write in small rounds between commands until the input ends."""
    paused = False
    while True:
        try:
            command = commands.get(timeout=None if paused else SECONDS_BETWEEN_ROUNDS)
        except queue.Empty:
            writer.write_round(60)
            continue
        match command and command.split():
            case None:
                return
            case ["news", *best]:
                send_answer(publish(root, [int(one) for one in best]))
            case ["mark"]:
                (row,) = writer.insert(1).select(["id", "amount", "status"]).to_pylist()
                send_answer(row)
            case ["pause" | "resume"]:
                paused = command == "pause"
                send_answer(writer.summarize())
            case _:
                message = f"unknown command {command!r}; say pause, resume, mark or news"
                raise ValueError(message)


def main() -> None:
    """Write a first burst, which leaves generations and log tails behind, then obey."""
    # Ctrl-C reaches every process in the terminal; this one ends when its input does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    commands: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            commands.put(line.strip())
        commands.put(None)

    threading.Thread(target=listen, daemon=True).start()
    writer = OrdersWriter(Path(sys.argv[1]))
    try:
        for _ in range(10):
            writer.write_round(3_000)
        send_answer(writer.summarize())
        obey(Path(sys.argv[1]), writer, commands)
    finally:
        writer.close()


if __name__ == "__main__":
    main()
