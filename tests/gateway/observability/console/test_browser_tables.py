"""The page Tables, in Debian's Chromium."""

import pytest
from selenium import webdriver

from tests.gateway.observability.console.browsing import IN_BROWSER, Page, open_page
from tests.gateway.observability.console.conftest import Site

pytestmark = IN_BROWSER


@pytest.fixture
def page(driver: webdriver.Chrome, site: Site) -> Page:
    return open_page(driver, site.url)


def test_tables_tell_how_fresh_they_are(page: Page) -> None:
    page.find("[data-page=tables]").click()
    page.wait(lambda: "orders" in page.text("#tables-list"))
    page.wait(lambda: page.text("td.stale") == "2")
    page.click("#tables-list button")
    page.wait(lambda: "Regions" in page.text("#table-detail"))
    page.keep("tables")
    assert page.list_complaints() == []


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
