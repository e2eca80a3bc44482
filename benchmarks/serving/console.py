"""The console in a browser: weight of its page, time to the first row, a grid of a million rows."""

import shutil
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from urllib.parse import quote

import adbc_driver_flightsql.dbapi as flight_sql
from selenium import webdriver

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.context import BenchContext
from benchmarks.reports.queries import STREAM
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.servers.server import start_gateway

_BROWSER = ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,800")
_MILLION = "SELECT value AS n, value % 7 AS k FROM range(1200000)"
_PATIENCE_SECONDS = 60
_JUMPS = 50
_WEIGHT = """
const parts = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
return parts.reduce((sum, part) => sum + part.decodedBodySize, 0)
"""
# Both look at each frame, as somebody would who watches the page.
_RUN = """
const done = arguments[0], wanted = arguments[1], started = performance.now();
const isDone = wanted === 'row'
  ? () => document.querySelector('#result .row')
  : () => document.getElementById('status').textContent.startsWith(wanted);
document.getElementById('run').click();
const look = () => isDone() ? done(performance.now() - started) : requestAnimationFrame(look);
requestAnimationFrame(look)
"""
_SCROLL = """
const done = arguments[0], jumps = arguments[1], grid = document.getElementById('result'), times = [];
const jump = () => {
  const started = performance.now();
  grid.scrollTop = grid.scrollHeight * Math.random();
  requestAnimationFrame(() => requestAnimationFrame(() => {
    times.push(performance.now() - started);
    if (times.length < jumps) jump(); else done(times)
  }))
};
jump()
"""


def run(context: BenchContext) -> Iterator[Finding]:
    """Open the page in Chromium, and run statements as a user does."""
    table = context.open_main_table()
    with ExitStack() as stack:
        port = _find_free_port()
        server = stack.enter_context(start_gateway(table.root, {}, {"observability.http_port": port}))
        connection = stack.enter_context(flight_sql.connect(server.uri, autocommit=True))
        cursor = stack.enter_context(connection.cursor())
        browser = _open_browser(stack)
        page = f"http://127.0.0.1:{port}/console/"

        def show(sql: str) -> None:
            browser.get("about:blank")
            browser.get(f"{page}#query={quote(sql)}")
            browser.execute_async_script(_wait_for_text(), sql[:12])

        def read_by_adbc() -> float:
            """Return the milliseconds until the first batch; the others are read as well."""
            started = time.perf_counter()
            cursor.execute(STREAM)
            reader = cursor.fetch_record_batch()
            reader.read_next_batch()
            milliseconds = (time.perf_counter() - started) * 1e3
            reader.read_all()
            return milliseconds

        firsts, batches = [], []
        for _ in range(context.settings.rounds + 1):
            show(STREAM)
            firsts.append(float(browser.execute_async_script(_call(_RUN), "row")))
            batches.append(read_by_adbc())
        weight = int(browser.execute_script(_WEIGHT))
        show(_MILLION)
        million = float(browser.execute_async_script(_call(_RUN), "1,000,000 rows"))
        jumps = sorted(map(float, browser.execute_async_script(_call(_SCROLL), _JUMPS)))
    mebibytes = weight / (1 << 20)
    yield Finding("console, weight of the page", f"{weight:,} bytes", "", mebibytes, "MiB", Bar(1))
    first, batch = statistics.median(firsts[1:]), statistics.median(batches[1:])
    yield Finding(
        "console, from Run to the first row of a streamed table",
        format_milliseconds(first),
        f"first batch by ADBC {format_milliseconds(batch)}",
        first,
        "ms",
    )
    yield Finding(
        "console, from Run to a million rows in the grid", format_milliseconds(million), "", million, "ms"
    )
    median = statistics.median(jumps)
    yield Finding(
        "console, a jump within a million rows",
        format_milliseconds(median),
        f"the slowest of {_JUMPS} {format_milliseconds(jumps[-1])}",
        median,
        "ms",
        note="until the second frame that is drawn after it; the browser draws 60 in a second",
    )


def _open_browser(stack: ExitStack) -> webdriver.Chrome:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        raise WrongAnswerError("the console is measured in Chromium: install chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in _BROWSER:
        options.add_argument(option)
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    stack.callback(browser.quit)
    browser.set_script_timeout(_PATIENCE_SECONDS)
    return browser


def _call(script: str) -> str:
    """Return a script that gets the callback of `execute_async_script` as its first argument."""
    return f"(function () {{{script}}})(arguments[arguments.length - 1], ...arguments)"


def _wait_for_text() -> str:
    """Return a script that waits until the editor shows a text."""
    return _call(
        """
        const done = arguments[0], text = arguments[1];
        const look = () => document.querySelector('.cm-content')?.textContent.startsWith(text)
          ? done() : requestAnimationFrame(look);
        look()
        """
    )


def _find_free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
