"""The pages Query, Search, Now and Last hour, in Debian's Chromium."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.gateway.observability.console.browsing import IN_BROWSER, Page, open_page
from tests.gateway.observability.console.conftest import PASSWORD, Site

pytestmark = IN_BROWSER


@pytest.fixture
def page(driver: webdriver.Chrome, site: Site) -> Page:
    return open_page(driver, site.url)


def test_rows_are_shown_with_types_nulls_and_short_vectors(page: Page) -> None:
    page.run("SELECT * FROM orders ORDER BY id")
    page.wait(lambda: page.text("#status").startswith("6 rows in"))
    first = page.find("#result .row").rect
    head = page.find("#result .head").rect
    assert first["y"] >= head["y"] + head["height"]
    grid = page.text("#result")
    for shown in ("int64", "in the log", "in a generation", "NULL", "... 60 more"):
        assert shown in grid
    page.keep("query")
    assert page.list_complaints() == []


@pytest.mark.soak
def test_a_million_rows_scroll(page: Page) -> None:
    page.run("SELECT value AS n FROM range(1200000)")
    page.wait(lambda: page.text("#status").startswith("1,000,000 rows, and there are more"))
    assert len(page.driver.find_elements(By.CSS_SELECTOR, "#result .row")) < 100
    page.driver.execute_script(
        "const grid = document.getElementById('result'); grid.scrollTop = grid.scrollHeight"
    )
    page.wait(
        lambda: page.driver.find_elements(By.CSS_SELECTOR, "#result .row")[-1].text.startswith("1000000")
    )


@pytest.mark.soak
def test_escape_cancels(page: Page, site: Site) -> None:
    page.run("SELECT count(*) AS forever FROM range(10000000000) a CROSS JOIN range(100000) b")
    watcher = site.log_in()
    page.wait(
        lambda: any(
            "forever" in each["statement"] for each in watcher.get("/api/statements").json()["under_way"]
        )
    )
    page.find(".cm-content").send_keys(Keys.ESCAPE)
    page.wait(lambda: page.text("#status").startswith("cancelled"))
    page.wait(
        lambda: any(
            "forever" in each["statement"] and each["state"] == "cancelled"
            for each in watcher.get("/api/statements").json()["latest"]
        )
    )


@pytest.mark.soak
def test_a_statement_ends_when_its_page_is_left(page: Page, site: Site) -> None:
    page.run("SELECT value AS left_alone FROM range(100000000000)")
    page.wait(lambda: len(page.driver.find_elements(By.CSS_SELECTOR, "#result .row")) > 0)
    page.driver.get("about:blank")
    watcher = site.log_in()
    page.wait(
        lambda: (
            not any(
                "left_alone" in each["statement"]
                for each in watcher.get("/api/statements").json()["under_way"]
            )
        )
    )


def test_errors_are_told(page: Page) -> None:
    page.run("SELECT * FROM nowhere")
    page.wait(lambda: "nowhere" in page.text("#status.error"))


def test_links_carry_the_text_in_the_fragment(page: Page, site: Site) -> None:
    page.driver.get(f"{site.url}/console/#query=SELECT%20'%3Cimg%20src%3Dx%3E'%20AS%20shared")
    page.wait(lambda: "shared" in page.text(".cm-content"))
    page.find("#run").click()
    page.wait(lambda: "<img src=x>" in page.text("#result"))


@pytest.mark.soak
def test_now_shows_statements_and_kills_them(page: Page) -> None:
    page.run("SELECT count(*) AS killed_soon FROM range(10000000000) a CROSS JOIN range(100000) b")
    page.find("[data-page=now]").click()
    page.wait(lambda: "killed_soon" in page.text("#now-under_way"))
    page.keep("now")
    page.click("#now-under_way button")
    page.wait(lambda: "killed_soon" not in page.text("#now-under_way"))
    page.find("[data-page=query]").click()
    page.wait(lambda: "killed" in page.text("#status"))


@pytest.mark.soak
def test_names_of_functions_and_of_columns_behind_an_alias_are_offered(page: Page) -> None:
    offered = "#editor .cm-tooltip-autocomplete"
    page.write("SELECT split_p")
    page.wait(lambda: "split_part" in page.text(offered))
    page.wait(lambda: "split_part(str, delimiter, pos)" in page.text("#editor"))
    page.find(".cm-content").send_keys(Keys.ENTER)
    page.wait(lambda: "split_part(" in page.text(".cm-content"))
    page.write("SELECT  FROM orders o").send_keys(Keys.ESCAPE, *[Keys.LEFT] * len(" FROM orders o"), "o.")
    page.wait(lambda: page.text(offered).split() == ["id", "note", "vec"])
    page.find(".cm-content").send_keys(Keys.ESCAPE)
    assert page.list_complaints() == []


@pytest.mark.soak
def test_a_tab_has_its_parameters_and_dialect_and_so_has_its_link(page: Page) -> None:
    page.choose("#dialect", "mysql")
    page.choose("#consistency", "flushed")
    page.find("#parameters").send_keys('0, "%"')
    page.run("SELECT `note` FROM `orders` WHERE `id` = ? AND `note` LIKE ?")
    page.wait(lambda: "base 0" in page.text("#result"))
    page.find("#share").click()
    link = page.driver.current_url
    page.find("#tabs button:last-child").click()
    assert [page.find(f"#{name}").get_attribute("value") for name in ("dialect", "parameters")] == [
        "postgres",
        "",
    ]
    page.driver.get("about:blank")
    page.driver.get(link)
    page.wait(lambda: page.find("#dialect").get_attribute("value") == "mysql")
    page.find("#run").click()
    page.wait(lambda: "base 0" in page.text("#result"))
    page.find("#parameters").clear()
    page.find("#parameters").send_keys("0, oops", Keys.ENTER)
    page.wait(lambda: "not valid JSON" in page.text("#status.error"))
    page.driver.execute_script("localStorage.clear()")


@pytest.mark.soak
def test_searches_are_tried_and_their_scores_explained(page: Page, site: Site) -> None:
    made = site.log_in().post("/api/query", json={"sql": "CREATE INDEX ON orders USING FTS (note)"})
    assert '"done":true' in made.text, made.text
    page.find("[data-page=search]").click()
    page.wait(lambda: "main.orders" in page.text("#search-table"))
    page.choose("#search-table", "main.orders")
    page.find("#search-words").send_keys("base generation")
    page.wait(lambda: "lance_fts('main.orders', 'note', 'base generation'" in page.text("#search-sql"))
    page.find("#search-words").send_keys(Keys.ENTER)
    page.wait(lambda: page.text("#search-status").startswith("4 rows in"))
    page.find("#search-explain").click()
    page.wait(lambda: "generation" in page.text("#search-terms"))
    rows = [
        [cell.text for cell in row.find_elements(By.TAG_NAME, "td")]
        for row in page.driver.find_elements(By.CSS_SELECTOR, "#search-terms h2:first-child + div tbody tr")
    ]
    assert rows[0][0] == "2"
    assert float(rows[0][2]) > float(rows[0][1]) == 0
    for _, *terms, score in rows:
        assert abs(sum(map(float, terms)) - float(score)) < 0.002
    page.wait(lambda: "weight (idf)" in page.text("#search-terms"))
    page.find("#search-row").send_keys("id = 5")
    page.find("#search-where").send_keys("id > 2")
    page.find("#search-form .main").click()
    page.wait(lambda: "_hybrid_score" in page.text("#search-result"))
    page.keep("search")
    page.choose("#search-by", "list")
    page.find("#search-list").send_keys("0.1, 0.2")
    page.find("#search-words").clear()
    page.find("#search-form .main").click()
    page.wait(lambda: "64" in page.text("#search-status.error"))
    page.find("#search-open").click()
    page.wait(lambda: "lance_vector_search" in page.text(".cm-content"))
    assert page.list_complaints() == []


@pytest.mark.soak
def test_the_last_hour_is_drawn(page: Page) -> None:
    page.find("[data-page=charts]").click()
    page.wait(lambda: len(page.driver.find_elements(By.CSS_SELECTOR, "#charts figure canvas")) == 6)
    page.wait(lambda: "workers:" in page.text("#charts-list"))
    page.keep("charts")
    assert page.list_complaints() == []


@pytest.mark.soak
def test_a_plan_is_a_tree_in_which_the_slow_node_stands_out(page: Page) -> None:
    page.run("SELECT note, count(*) FROM orders WHERE id < 5 GROUP BY note ORDER BY 1")
    page.wait(lambda: page.text("#status").startswith("5 rows"))
    page.find("#explain").click()
    page.wait(lambda: "base v" in page.text("#plan"))
    assert "1 of 1 regions read" in page.text("#plan")
    assert len(page.driver.find_elements(By.CSS_SELECTOR, "#plan .slow")) == 1
    node = page.find("#plan details summary")
    shown = page.text("#plan")
    node.send_keys(Keys.ENTER)
    page.wait(lambda: len(page.text("#plan")) < len(shown))
    node.send_keys(Keys.ENTER)
    page.keep("plan")
    assert page.list_complaints() == []


@pytest.mark.soak
def test_a_phone_shows_a_plan_without_scrolling_sideways(page: Page) -> None:
    page.driver.set_window_size(500, 800)
    page.run("SELECT * FROM orders")
    page.wait(lambda: page.text("#status").startswith("6 rows in"))
    page.find("#explain").click()
    page.wait(lambda: "Exec" in page.text("#plan"))
    wide = "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.driver.execute_script(wide)
    page.keep("phone")
    page.driver.set_window_size(1280, 800)


def test_users_log_in_and_out(driver: webdriver.Chrome, guarded: Site) -> None:
    driver.get(f"{guarded.url}/console/")
    page = Page(driver)
    page.wait(lambda: page.find("#login").is_displayed())
    for password, expected in (("a guess", "wrong"), (PASSWORD, "")):
        page.find("[name=user]").clear()
        page.find("[name=user]").send_keys("rita")
        page.find("[name=password]").clear()
        page.find("[name=password]").send_keys(password, Keys.ENTER)
        page.wait(lambda: page.text("#user") == "rita" if not expected else page.text("#login .error"))  # noqa: B023
    page.run("SELECT count(*) FROM orders")
    page.wait(lambda: page.text("#status").startswith("1 rows in"))
    page.find("#logout").click()
    page.wait(lambda: page.find("#login").is_displayed())


@pytest.mark.soak
def test_the_selection_is_run_and_history_brings_statements_back(page: Page) -> None:
    page.write("SELECT 1 AS first_one;").send_keys(Keys.ESCAPE, Keys.ENTER, "SELECT 2 AS second_one")
    page.find(".cm-content").send_keys(Keys.ESCAPE, Keys.SHIFT + Keys.HOME)
    page.find(".cm-content").send_keys(Keys.CONTROL, Keys.ENTER)
    page.wait(lambda: "second_one" in page.text("#result"))
    assert "first_one" not in page.text("#result")
    page.write("SELECT 3")
    page.choose("#history", "SELECT 2 AS second_one")
    page.wait(lambda: page.text(".cm-content") == "SELECT 2 AS second_one")


@pytest.mark.soak
def test_rows_are_exported_and_copied(page: Page, downloads: Path) -> None:
    page.run("SELECT id, note FROM orders WHERE id < 3 ORDER BY id")
    page.wait(lambda: page.text("#status").startswith("3 rows in"))
    for media_type, name, read in (
        ("text/csv", "result.csv", pyarrow.csv.read_csv),
        ("application/vnd.apache.parquet", "result.parquet", pq.read_table),
        ("application/vnd.apache.arrow.stream", "result.arrows", read_stream),
    ):
        page.choose("#export", media_type)
        page.wait((downloads / name).exists)
        assert read(downloads / name)["id"].to_pylist() == [0, 1, 2]
    allowed = ["clipboardReadWrite", "clipboardSanitizedWrite"]
    page.driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": allowed})
    page.find("#copy").click()
    page.wait(lambda: page.text("#status") == "copied 3 rows")
    copied = page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert copied.splitlines() == ["id\tnote", "0\tin the log", "1\t", "2\tin a generation"]


def read_stream(path: Path) -> pa.Table:
    return pa.ipc.open_stream(path.read_bytes()).read_all()


@pytest.mark.soak
def test_colours_follow_the_system(page: Page) -> None:
    shades = []
    for scheme in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        shades.append(page.find("body").value_of_css_property("background-color"))
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert len(set(shades)) == 2


@pytest.mark.soak
def test_jobs_writers_and_workers_are_listed(page: Page) -> None:
    page.find("[data-page=now]").click()
    page.wait(lambda: " MB" in page.text("#now-workers"))
    assert page.find("#now-jobs").is_displayed()
    assert page.find("#now-writers").is_displayed()
    assert page.list_complaints() == []


@pytest.mark.soak
def test_all_pages_together_weigh_less_than_a_megabyte(page: Page, site: Site) -> None:
    for name in ("search", "tables", "now", "charts"):
        page.find(f"[data-page={name}]").click()
        page.wait(lambda: page.find(f"#{name}").is_displayed())  # noqa: B023
    parts = page.driver.execute_script(
        "return [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        ".filter(part => part.name.includes('/console/')).map(part => [part.name, part.decodedBodySize])"
    )
    assert all(name.startswith(site.url) for name, _ in parts)
    assert "codemirror.js" in " ".join(name for name, _ in parts)
    assert sum(size for _, size in parts) <= 1_000_000
