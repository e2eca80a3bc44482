"""The page Tables, in Debian's Chromium."""

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.gateway.observability.console.browsing import IN_BROWSER, Page, open_page
from tests.gateway.observability.console.conftest import PASSWORD, Site, create_orders, serve, write_people
from tests.support.lake.tables import LsmTable
from tests.support.processes.writer_process import WriterProcess

pytestmark = IN_BROWSER

_CONFIG = '[pipeline.clean]\ngrace = "0s"\nolder_than = "0s"\n'


@pytest.fixture
def page(driver: webdriver.Chrome, site: Site) -> Page:
    return open_page(driver, site.url)


@pytest.mark.soak
def test_tables_tell_how_fresh_they_are(page: Page) -> None:
    page.find("[data-page=tables]").click()
    page.wait(lambda: "orders" in page.text("#tables-list"))
    page.wait(lambda: page.text("td.stale") == "2")
    page.click("#tables-list button")
    page.wait(lambda: "Regions" in page.text("#table-detail"))
    page.keep("tables")
    assert page.list_complaints() == []


@pytest.mark.soak
def test_a_table_is_optimised_after_a_second_click(page: Page) -> None:
    page.find("[data-page=tables]").click()
    page.wait(lambda: "orders" in page.text("#tables-list"))
    page.click("#tables-list button")
    button = "#table-detail .bar button"
    page.click(button)
    page.wait(lambda: "Click again" in page.text("#table-detail"))
    page.click(button)
    page.wait(lambda: "fragments after" in page.text("#table-detail"))
    assert page.list_complaints() == []


@pytest.fixture(scope="module")
def worked_on(
    tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess
) -> Iterator[tuple[Site, LsmTable]]:
    """A gateway over a table that these tests change."""
    folder = tmp_path_factory.mktemp("worked-on")
    (folder / "lake").mkdir()
    (folder / "gateway.toml").write_text(_CONFIG)
    table = create_orders(folder / "lake", shared_writers)
    with serve(folder, "--config", str(folder / "gateway.toml")) as site:
        yield site, table


def show_orders(page: Page) -> None:
    page.find("[data-page=tables]").click()
    page.wait(lambda: "main.orders" in page.text("#tables-list"))
    page.click("#tables-list button")
    page.wait(lambda: page.button("Merge").is_enabled())


def merge_orders(page: Page) -> None:
    page.button("Merge").click()
    page.wait(lambda: "Click again" in page.text("#table-detail"))
    page.button("Merge").click()
    page.wait(lambda: "merge main.orders runs" in page.text("#table-detail"))
    page.wait(lambda: "merge main.orders: done" in page.text("#table-detail"))


@pytest.mark.soak
def test_a_table_becomes_fresh_while_another_process_writes(
    driver: webdriver.Chrome, worked_on: tuple[Site, LsmTable]
) -> None:
    site, table = worked_on
    page = open_page(driver, site.url)
    show_orders(page)
    page.wait(lambda: page.text("td.stale") == "2")
    table.put([{"id": 7, "note": "just written", "vec": [0.5] * 64}])
    page.wait(lambda: page.text("td.stale") == "3")
    merge_orders(page)
    # What is in the log is merged once it is flushed.
    page.wait(lambda: page.text("#tables-list td.stale") == "2")
    page.find("[data-page=query]").click()
    page.run("SELECT note FROM orders WHERE id = 7")
    page.wait(lambda: "just written" in page.text("#result"))
    assert page.list_complaints() == []


@pytest.mark.soak
def test_cleaning_shows_what_it_would_remove_and_removes_that(
    driver: webdriver.Chrome, worked_on: tuple[Site, LsmTable]
) -> None:
    site, table = worked_on
    page = open_page(driver, site.url)
    show_orders(page)
    merge_orders(page)
    page.button("Optimize").click()
    page.button("Optimize").click()
    page.wait(lambda: "fragments after" in page.text("#table-detail"))
    page.button("Clean").click()
    page.wait(lambda: "clean main.orders: would remove" in page.text("#table-detail"))
    shown = page.text(".job .danger").removeprefix("Remove these ")
    assert f"would remove {shown}" in page.text(".job")
    page.keep("clean")
    before = {one["version"] for one in table.dataset().versions()}
    page.find(".job .danger").click()
    page.wait(lambda: f"clean main.orders: removed {shown}" in page.text("#table-detail"))
    assert {one["version"] for one in table.dataset().versions()} < before
    page.button("Clean").click()
    page.wait(lambda: "clean main.orders: would remove" in page.text("#table-detail"))
    page.button("Keep them").click()
    page.wait(lambda: page.text(".job") == "")
    assert page.list_complaints() == []


@pytest.mark.soak
def test_a_job_is_cancelled(driver: webdriver.Chrome, worked_on: tuple[Site, LsmTable]) -> None:
    page = open_page(driver, worked_on[0].url)
    show_orders(page)
    page.button("Clean").click()
    page.wait(lambda: page.button("Cancel job").click() is None)
    page.wait(lambda: "clean main.orders: cancelled" in page.text("#table-detail"))


@pytest.mark.soak
def test_versions_tags_and_indexes_are_listed(
    driver: webdriver.Chrome, worked_on: tuple[Site, LsmTable]
) -> None:
    site, table = worked_on
    covered = len(table.dataset().get_fragments())
    table.dataset().create_scalar_index("note", "BTREE", name="by_note")
    lance.write_dataset(
        pa.Table.from_pylist([{"id": 99, "note": "new", "vec": [0.5] * 64}], table.dataset().schema),
        table.path,
        mode="append",
    )
    table.dataset().tags.create("kept", table.dataset().version)
    page = open_page(driver, site.url)
    show_orders(page)
    page.wait(lambda: "kept" in page.text("#table-versions") and "kept" in page.text("#table-tags"))
    page.wait(lambda: "by_note" in page.text("#table-indexes"))
    # It does not have the row that was written after it.
    assert page.find("#table-indexes td.stale").text == str(covered)
    assert " kB" in page.text("#tables-list")


@pytest.mark.soak
def test_buttons_are_for_those_who_may(
    driver: webdriver.Chrome, tmp_path: Path, shared_writers: WriterProcess
) -> None:
    (tmp_path / "lake").mkdir()
    create_orders(tmp_path / "lake", shared_writers)
    lance.write_dataset(pa.table({"canary": [4711]}), tmp_path / "lake/secret.lance")
    with serve(tmp_path, *write_people(tmp_path), "--set", "jobs.max_running=0") as site:
        for user in ("olga", "rita"):
            driver.get("about:blank")
            driver.get(f"{site.url}/console/")
            page = Page(driver)
            page.wait(lambda: page.find("#login").is_displayed())  # noqa: B023
            page.find("[name=user]").send_keys(user)
            page.find("[name=password]").send_keys(PASSWORD, Keys.ENTER)
            page.wait(lambda: page.find("#query").is_displayed())  # noqa: B023
            page.run("SELECT canary FROM secret")
            page.wait(
                lambda: "4711" in page.text("#result") if user == "olga" else page.text("#status.error")  # noqa: B023
            )
            page.find("[data-page=tables]").click()
            page.wait(lambda: "main.orders" in page.text("#tables-list"))  # noqa: B023
            assert ("secret" in page.text("#tables-list")) is (user == "olga")
            page.click("#tables-list button")
            page.wait(lambda: "lance-gateway pipeline merge" in page.read("#table-detail pre"))  # noqa: B023
            labels = [one.text for one in driver.find_elements(By.CSS_SELECTOR, "#table-detail .bar button")]
            assert labels == (
                ["Optimize", "Update indexes", "Flush", "Analyze", "Merge", "Snapshot", "Clean"]
                if user == "olga"
                else []
            )
            if user == "olga":
                page.wait(lambda: "runs no jobs" in str(page.button("Merge").get_attribute("title")))  # noqa: B023
                assert not page.button("Merge").is_enabled()
            page.find("#logout").click()
            page.wait(lambda: page.find("#login").is_displayed())  # noqa: B023
