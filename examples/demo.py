"""The demo: a table that another process keeps writing, read through plain Lance and through the gateway.

Creates the tables, starts the writer and a real `lance-gateway serve` as child processes, and shows what
plain Lance misses. Every answer of the gateway is compared with the writer's ledger of acknowledged writes,
and the demo fails when one differs. Then it serves until Ctrl-C; with `--once` it ends instead.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

# Lance says of every text search of a table with MemWAL that the MemWAL index has no fields.
os.environ.setdefault("LANCE_LOG", "warn,lance::index=off")

import lance
import pyarrow as pa
from demo_articles import QUESTION, create_articles, embed, plain_search
from demo_children import DemoError, Gateway, Writer, run_pipeline
from demo_tables import ORDER_COUNT, create_tables
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Column, Table
from rich.text import Text

from lance_gateway.gateway.cli.client import GatewayClient
from lance_gateway.protos.flight_sql import format_error

TOTALS = "SELECT count(*) AS orders, sum(amount) AS revenue, max(id) AS newest FROM {table}"
BY_SEGMENT = """\
SELECT c.segment, count(*) AS orders, sum(o.amount) AS revenue
FROM orders o JOIN customers c ON c.customer_id = o.customer_id
GROUP BY c.segment
ORDER BY revenue DESC"""
SEARCH = "SELECT id, _score FROM lance_fts('articles', 'body', '{text}', k => 3) ORDER BY _score DESC"
NEIGHBOURS = "SELECT id FROM lance_vector_search('articles', 'embedding', {vector}, k => 3)"
BOTH = "SELECT id FROM lance_hybrid_search('articles', 'embedding', {vector}, 'body', '{text}', k => 3)"

VISITS = """\
CREATE TABLE visits (id BIGINT PRIMARY KEY, page TEXT, seconds DOUBLE)
WITH (region_by = 'bucket(id, 4)')"""
MERGE = """\
MERGE INTO visits v USING (VALUES (2, 100.0), (5, 8.0)) s (id, seconds) ON v.id = s.id
WHEN MATCHED THEN UPDATE SET seconds = s.seconds
WHEN NOT MATCHED THEN INSERT VALUES (s.id, '/faq', s.seconds)"""
CHANGES = (
    ("INSERT INTO visits VALUES (1, '/', 12), (2, '/docs', 95), (3, '/', 4), (4, '/blog', 30)", 4, 141.0),
    ("UPDATE visits SET seconds = seconds + 5 WHERE page = '/'", 4, 151.0),
    ("DELETE FROM visits WHERE id = 4", 3, 121.0),
    (MERGE, 4, 134.0),
)
"""Statements, with the visits and seconds that there are afterwards."""
PENDING = "SELECT count(*) AS generations FROM system.generations WHERE table_name = 'orders' AND NOT merged"
FOLLOW = "SELECT id, seconds, _change FROM lance_changes('visits', since => 1, follow => true)"
FOLLOWED = (
    ("INSERT INTO visits VALUES (7, '/docs', 3)", ["insert"]),
    ("UPDATE visits SET seconds = 9 WHERE id = 7", ["update_after", "update_before"]),
    ("DELETE FROM visits WHERE id = 7", ["delete"]),
)
"""Statements, with the changes that a follower is told of."""
SEEN = "SELECT count(*) AS visits, sum(seconds) AS seconds FROM visits"

Rows = list[dict[str, Any]]
Answer = TypeVar("Answer")

console = Console(highlight=False)


@dataclass(frozen=True)
class Demo:
    """The sections of the demo, over running child processes."""

    root: Path
    writer: Writer
    client: GatewayClient

    def ask(self, question: str) -> tuple[Rows, float]:
        """Ask the gateway; return the rows and the milliseconds until the last one was here."""
        try:
            return time_answer(lambda: self.client.query(question).read_all().to_pylist())
        except pa.ArrowException as error:
            raise DemoError(f"{question}: {format_error(error)}; see {self.root}/gateway.log") from error

    def ask_plain_lance(self, question: str) -> tuple[Rows, float]:
        """Ask the base table, which is all that an ordinary Lance reader sees."""
        orders = lance.dataset(str(self.root / "orders.lance"))
        query = orders.sql(question.format(table="dataset")).build()
        return time_answer(lambda: [row for batch in query.to_batch_records() for row in batch.to_pylist()])

    def show_totals(self) -> None:
        """Put one question to both while the writer holds still."""
        question = TOTALS.format(table="orders")
        print_heading("1. The same question, asked of plain Lance and of the gateway", question)
        with self.writer.pause() as acknowledged:
            (stale,), plain_first = self.ask_plain_lance(TOTALS)
            _, plain_again = self.ask_plain_lance(TOTALS)
            (fresh,), first = self.ask(question)
            _, again = self.ask(question)
        shown = Table("", "orders", "revenue", "newest id", "first", "again")
        shown.add_row("plain Lance", *format_totals(stale), f"{plain_first:.0f} ms", f"{plain_again:.0f} ms")
        shown.add_row("Lance Gateway", *format_totals(fresh), f"{first:.0f} ms", f"{again:.0f} ms")
        shown.add_row("acknowledged", *format_totals(acknowledged))
        console.print(shown)
        console.print(
            "Since the base table was written, {inserted:,} orders were inserted, {changed:,} changed and "
            "{deleted:,} deleted.".format_map(acknowledged)
        )
        expect("totals", fresh, {name: acknowledged[name] for name in ("orders", "revenue", "newest")})

    def show_freshness(self) -> None:
        """Look for orders at the moment in which their writes return, while other writes go on."""
        print_heading(
            "2. From the return of a write to its row in an answer",
            "SELECT id, amount, status FROM orders WHERE id = ?",
        )
        shown = Table("order", "amount", "status", "found after", "in plain Lance")
        for _ in range(3):
            written = self.writer.send("mark")
            rows, milliseconds = self.ask(f"SELECT id, amount, status FROM orders WHERE id = {written['id']}")
            known, _ = self.ask_plain_lance(f"SELECT id FROM {{table}} WHERE id = {written['id']}")
            shown.add_row(
                f"{written['id']:,}",
                f"{written['amount']:,.2f}",
                written["status"],
                f"{milliseconds:.1f} ms",
                "yes" if known else "no",
            )
            expect(f"order {written['id']}", rows, [written])
        console.print(shown)

    def show_join(self) -> None:
        """Join the fresh table with one that has no MemWAL."""
        print_heading("3. A join and a group by over fresh rows", BY_SEGMENT)
        with self.writer.pause() as acknowledged:
            rows, milliseconds = self.ask(BY_SEGMENT)
        shown = Table("segment", "orders", "revenue")
        for row in rows:
            shown.add_row(row["segment"], f"{row['orders']:,}", f"{row['revenue']:,.2f}")
        console.print(shown)
        console.print(f"The gateway answered in {milliseconds:.0f} ms.")
        got = {row["segment"]: row["revenue"] for row in rows}
        expect("revenue by segment", got, acknowledged["by_segment"])

    def show_search(self) -> None:
        """Search by words and by meaning, just after the best articles have changed."""
        print_heading("4. Search, right after an editor was here", SEARCH.format(text=QUESTION))
        before = plain_search(self.root, QUESTION)
        change = self.writer.send(f"news {before[0]} {before[1]}")
        shown = Table("", "ids, best first", "time")
        shown.add_row("plain Lance", str(plain_search(self.root, QUESTION)), "")
        vector = embed(f"a {QUESTION} {QUESTION} keeps the baker awake")
        fresh = {int(one) for one in change["new"]}
        for name, question in (
            ("lance_fts", SEARCH.format(text=QUESTION)),
            ("lance_vector_search", NEIGHBOURS.format(vector=vector)),
            ("lance_hybrid_search", BOTH.format(vector=vector, text=QUESTION)),
        ):
            self.ask(question)
            rows, milliseconds = self.ask(question)
            found = [row["id"] for row in rows]
            shown.add_row(name, str(found), f"{milliseconds:.1f} ms")
            expect(name, set(found), fresh)
        console.print(shown)
        console.print(
            f"Three articles are new; {before[0]} was rewritten and {before[1]} withdrawn, which plain Lance "
            "does not know."
        )

    def show_writes(self, gateway: Gateway) -> None:
        """Write through one gateway, read through another, and kill the one that wrote."""
        print_heading("5. Write through one gateway, read through another", VISITS)
        self.client.execute("DROP TABLE IF EXISTS visits")
        shown = Table(Column("statement", no_wrap=True, max_width=38), "rows", "took", "on the other one")
        writing = Gateway(self.root, self.root / "other-gateway.log")
        with closing(writing), GatewayClient(writing.uri) as client:
            client.execute(VISITS)
            for statement, *expected in CHANGES:
                affected, milliseconds = time_answer(partial(client.execute, statement))
                (seen,), _ = self.ask(SEEN)
                shown.add_row(
                    statement.partition("\n")[0],
                    str(affected),
                    f"{milliseconds:.0f} ms",
                    "{visits} visits, {seconds:.0f} s".format_map(seen),
                )
                expect(statement, [seen["visits"], seen["seconds"]], expected)
            writing.process.kill()
        console.print(shown)
        self.client.execute("INSERT INTO visits VALUES (6, '/', 1)")
        (seen,), _ = self.ask(SEEN)
        expect("visits", [seen["visits"], seen["seconds"]], [5, 135.0])
        console.print(
            "The gateway that wrote was killed. All that it had acknowledged is there, and the other "
            f"one, process {gateway.process.pid}, writes on: {seen['visits']} visits."
        )

    def show_following(self, gateway: Gateway) -> None:
        """Follow a table while it is written."""
        print_heading("6. Follow a table while it is written", FOLLOW)
        shown = Table("statement", "changes", "told after")
        with GatewayClient(gateway.uri) as follower:
            stream = follower.query(FOLLOW)
            changes = iter(stream)
            visits = 0
            while visits < 5:
                visits += next(changes).num_rows
            for statement, expected in FOLLOWED:
                self.client.execute(statement)
                told, milliseconds = time_answer(lambda: next(one for one in changes if one.num_rows))
                kinds = sorted(told.column("_change").to_pylist())
                shown.add_row(statement, ", ".join(kinds), f"{milliseconds:.0f} ms")
                expect(statement, kinds, expected)
            stream.cancel()
        console.print(shown)

    def show_lookup(self) -> None:
        """Explain two lookups: of an order just written, and of one that no generation knows."""
        written = self.writer.send("mark")
        with self.writer.pause() as acknowledged:
            untouched = acknowledged["untouched"]
        print_heading("7. Two point lookups and their plans")
        for key in (written["id"], untouched):
            question = f"EXPLAIN ANALYZE SELECT * FROM orders WHERE id = {key}"
            console.print()
            console.print(Syntax(question, "sql", background_color="default"))
            rows, _ = self.ask(question)
            for row in rows:
                console.print(Text(row["plan"].rstrip()), soft_wrap=True)

    def show_merge(self) -> None:
        """Merge what is flushed, while the writer writes on: plain Lance lacks the last moments only."""
        command = ("merge", "orders")
        print_heading("8. Merge it, while it is written")
        console.print(f"lance-gateway pipeline {' '.join(command)}")
        shown = Table("", "pending generations", "plain Lance", "Lance Gateway", "acknowledged")
        missing = [self._add_lag(shown, "before")]
        said = run_pipeline(self.root, *command)
        missing.append(self._add_lag(shown, "after"))
        console.print(shown)
        console.print(said, markup=False)
        if missing[1] >= missing[0]:
            raise DemoError(
                f"plain Lance lacked {missing[0]} orders before the merge, and {missing[1]} after"
            )

    def _add_lag(self, shown: Table, when: str) -> int:
        """Compare both with the writer's ledger, in one row; return how many orders plain Lance lacks."""
        with self.writer.pause() as acknowledged:
            (stale,), _ = self.ask_plain_lance(TOTALS)
            (fresh,), _ = self.ask(TOTALS.format(table="orders"))
            (pending,), _ = self.ask(PENDING)
        counts = (stale["orders"], fresh["orders"], acknowledged["orders"])
        shown.add_row(when, str(pending["generations"]), *(f"{one:,}" for one in counts))
        expect(f"orders {when} the merge", fresh["orders"], acknowledged["orders"])
        return abs(int(acknowledged["orders"]) - int(stale["orders"]))


def time_answer(answer: Callable[[], Answer]) -> tuple[Answer, float]:
    """Wait for an answer; return it with the milliseconds that it took."""
    started = time.perf_counter()
    answered = answer()
    return answered, (time.perf_counter() - started) * 1_000


def format_totals(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Format an answer to `TOTALS`."""
    return f"{row['orders']:,}", f"{row['revenue']:,.2f}", f"{row['newest']:,}"


def print_heading(text: str, sql: str = "") -> None:
    """Start a section; show the SQL that it is about."""
    console.print()
    console.rule(f"[bold]{text}", align="left")
    if sql:
        console.print(Syntax(sql, "sql", background_color="default"))


def expect(what: str, got: object, acknowledged: object) -> None:
    """Fail the demo unless the gateway answered what the writer was promised."""
    if got != acknowledged:
        raise DemoError(f"{what}: the gateway says {got!r}, but the writer acknowledged {acknowledged!r}")


def show_connection(uri: str, page: str) -> None:
    """Print lines to paste, and the address of the console."""
    print_heading("9. Connect")
    program = Path(sys.executable).with_name("lance-gateway")
    if program.is_relative_to(Path.cwd()):
        program = program.relative_to(Path.cwd())
    for client, line in (
        ("browser", page),
        ("shell", f'{program} sql "SELECT count(*) FROM orders" --uri {uri}'),
        (
            "Python",
            f'from adbc_driver_flightsql import dbapi; db = dbapi.connect("{uri}", autocommit=True)',
        ),
        ("JDBC", f"jdbc:arrow-flight-sql://{uri.removeprefix('grpc://')}/?useEncryption=false"),
    ):
        console.print(f"{client:7} {line}", soft_wrap=True, markup=False)


def run(root: Path, *, once: bool) -> None:
    """Create the tables, start the children, show the sections; then serve, unless `once`."""
    started = time.perf_counter()
    root.mkdir(parents=True, exist_ok=True)
    with ExitStack() as running:
        with console.status(f"Writing {ORDER_COUNT:,} orders, then changing some of them"):
            create_tables(root)
            create_articles(root)
            writer = Writer(root, root / "writer.log")
            running.callback(writer.close)
            writer.read()
            gateway = Gateway(root, root / "gateway.log")
            running.callback(gateway.close)
        console.print(f"Process {writer.process.pid} is writing {root}/orders.lance through MemWAL.")
        console.print(f"Process {gateway.process.pid} serves {root} at [bold]{gateway.uri}[/bold].")
        demo = Demo(root, writer, running.enter_context(GatewayClient(gateway.uri)))
        demo.show_totals()
        demo.show_freshness()
        demo.show_join()
        demo.show_search()
        demo.show_writes(gateway)
        demo.show_following(gateway)
        demo.show_lookup()
        demo.show_merge()
        show_connection(gateway.uri, gateway.console)
        elapsed = time.perf_counter() - started
        console.print(f"\nEvery answer equals the acknowledged writes. The demo took {elapsed:.0f} s.")
        if not once:
            console.print("Writing and serving on until Ctrl-C.")
            gateway.process.wait()
            raise DemoError(f"the gateway ended by itself; see {root / 'gateway.log'}")


def main() -> int:
    """Parse the command line, run, turn a failure into an exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path("demo-data"), help="where the tables are written")
    parser.add_argument("--once", action="store_true", help="end after the last question")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run(arguments.root, once=arguments.once)
    except KeyboardInterrupt:
        console.print("\nStopped.")
    except DemoError as failure:
        console.print(f"[bold red]The demo failed:[/bold red] {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
