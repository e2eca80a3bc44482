"""Debian's Chromium, and what a user does and sees in it.

Set CONSOLE_SCREENSHOTS to a directory to keep pictures of what is shown.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common import exceptions
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

_CHROMIUM, _DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
IN_BROWSER = [
    pytest.mark.slow,
    # Where it must be there, its absence fails the tests.
    pytest.mark.skipif(
        (_CHROMIUM is None or _DRIVER is None) and os.environ.get("CI") != "true",
        reason="the pages are not tested: install the packages chromium and chromium-driver",
    ),
]
"""Marks of the tests of pages."""
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,800",
)
_SECONDS = 60
# What is drawn again, or soon.
_NOT_YET = (exceptions.StaleElementReferenceException, exceptions.NoSuchElementException)


class Page:
    """What a user does and sees."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return self.find(selector).text

    def wait(self, condition: Callable[[], object]) -> None:
        waiting = WebDriverWait(self.driver, _SECONDS, 0.05, ignored_exceptions=_NOT_YET)
        try:
            waiting.until(lambda _: condition())
        except exceptions.TimeoutException:
            shown = f"{self.text('body')}\n{self.driver.get_log('browser')}"
            raise AssertionError(f"it did not come; the page shows {shown}") from None

    def click(self, selector: str) -> None:
        """Click what may be drawn again at any time."""
        self.wait(lambda: self.find(selector).click() is None)

    def button(self, label: str) -> WebElement:
        """The button with a label."""
        return self.driver.find_element(By.XPATH, f"//button[normalize-space() = '{label}']")

    def read(self, selector: str) -> str:
        """The text of what is there, though it may be folded away."""
        return str(self.find(selector).get_attribute("textContent"))

    def write(self, sql: str) -> WebElement:
        """Write a statement in the editor."""
        content = self.find(".cm-content")
        content.send_keys(Keys.CONTROL, "a")
        content.send_keys(Keys.DELETE)
        content.send_keys(sql)
        return content

    def run(self, sql: str) -> None:
        """Write a statement in the editor, and run it as a keyboard does."""
        self.write(sql).send_keys(Keys.ESCAPE)
        self.find(".cm-content").send_keys(Keys.CONTROL, Keys.ENTER)

    def choose(self, selector: str, value: str) -> None:
        """Choose an option, as a user does."""
        Select(self.find(selector)).select_by_value(value)

    def keep(self, name: str) -> None:
        folder = os.environ.get("CONSOLE_SCREENSHOTS")
        if folder:
            self.driver.save_screenshot(str(Path(folder) / f"{name}.png"))

    def list_complaints(self) -> list[str]:
        """What the browser's console says, but for answers that say that something failed."""
        messages = [entry["message"] for entry in self.driver.get_log("browser")]
        return [message for message in messages if "Failed to load resource" not in message]


def open_browser(downloads: Path) -> webdriver.Chrome:
    """Start Chromium without a window.

    Args:
        downloads: directory of the files that pages offer.
    """
    assert _CHROMIUM is not None and _DRIVER is not None, "install the packages chromium and chromium-driver"  # noqa: PT018
    options = webdriver.ChromeOptions()
    options.binary_location = _CHROMIUM
    for option in _OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(_DRIVER))
    driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)}
    )
    return driver


def open_page(driver: webdriver.Chrome, url: str) -> Page:
    """Open the console of a gateway that asks for no login."""
    driver.get("about:blank")
    driver.get(f"{url}/console/")
    page = Page(driver)
    page.wait(lambda: page.find("#query").is_displayed())
    return page
