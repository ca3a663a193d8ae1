"""A real browser walks every page while a real daemon trains: what moves, what it logs, where it asks, who can read it.

With ADAPTD_SCREENSHOTS=docs/images the project is one of real digits, and the documentation's screenshots are made.
"""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .browsing import AXE, look, read, serious
from .conftest import DOMAINS, SCREENSHOTS, TOKEN, Shop, wait_for

PAGES = {
    "overview": "/",
    "matrix": "/matrix",
    "domains": "/domains",
    "domain": "/domains/optical",
    "gallery": "/domains/optical?change=changed#gallery",
    "labels": "/domains/optical/labels",
    "forget": "/domains/optical/do/forget",
    "versions": "/versions",
    "version": "/versions/2",
    "events": "/events",
}
SHOTS = (
    *(("overview", 1280, "light"), ("overview", 390, "dark"), ("matrix", 1280, "light")),
    *(("domain", 1280, "dark"), ("version", 1280, "light")),
)
COMPLETE = "return [...document.images].every((image) => image.complete)"
STEPS = """const figure = document.querySelector("[data-live=losses]");
return figure && charts.find(figure) ? charts.find(figure).xs : []"""
"""The steps that the chart of the losses shows."""


@pytest.fixture(scope="module")
def shop(new_shop: Shop, pictures: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A project that has adapted before, and trains under a daemon for longer than these tests last."""
    folder = tmp_path_factory.mktemp("walk")
    earlier = DOMAINS[:3] if SCREENSHOTS else DOMAINS[:1]
    rested = new_shop.copy(folder / "shop")
    for name in earlier:
        rested.run("adapt", pictures[name])
    rested.set_epochs(200 if SCREENSHOTS else 100_000)
    with rested.daemon(folder / "daemon.log") as shop:
        shop.wait_for_episodes(1 + len(earlier))  # of those who came before it
        shop.drop(pictures["camera-7"], "camera-7")
        wait_for("the episode", lambda: (shop.status()["episode"] or {}).get("phase") == "training")
        yield shop


@pytest.fixture(scope="module")
def busy(shop: Shop) -> str:
    """The address of its pages."""
    return shop.address


@pytest.fixture(scope="module")
def still(shop: Shop) -> Iterator[str]:
    """The same address; the training stands still meanwhile, which leaves the processors to others."""
    worker = int(re.findall(r'"message": "episode begins".*"pid": (\d+)', (shop.root.parent / "daemon.log").read_text())[-1])
    if SCREENSHOTS:  # real digits converge soon: as soon as there is a line to show
        wait_for("a line", lambda: len(httpx.get(f"{shop.address}/curves.json").json()) > 6)
    os.kill(worker, signal.SIGSTOP)
    yield shop.address
    os.kill(worker, signal.SIGCONT)


def requests(browser: Any) -> set[str]:
    """Where the browser asked since the last time."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    return {url for url in asked if not url.startswith(("data:", "chrome:"))}


def test_progress_moves_by_itself(browser, busy):
    """Step, bar and charts of the overview change without a reload, and the page says what goes on."""
    look(browser, 1280, "light")
    browser.get(busy)

    def step() -> int:
        return int(re.search(r"step (\d+)", read(browser, "#live-step"))[1])

    def bar() -> float:
        return browser.execute_script("return document.querySelector('#live-progress').value")

    first, start = step(), bar()
    wait_for("progress", lambda: step() > first)
    wait_for("the bar", lambda: bar() > start)
    wait_for("a chart", lambda: len(browser.find_elements("css selector", "[data-live] canvas")) >= 2)
    assert read(browser, "#daemon-state") == "training"
    text = read(browser, "main")
    assert re.search(r"Version \d", text)
    assert "camera-7" in text


def test_a_page_opened_late_shows_the_curve_from_the_start(browser, busy):
    """What was told before anybody looked is drawn, and goes on."""
    browser.get(busy)
    early = wait_for("a curve", lambda: (steps := browser.execute_script(STEPS)) and len(steps) > 3 and steps)
    browser.get(busy)
    late = wait_for("more of it", lambda: (steps := browser.execute_script(STEPS)) and steps[-1] > early[-1] and steps)
    assert late[0] == early[0]
    assert late == sorted(set(late))


def test_a_part_that_changes_is_put_in_place(browser, busy, shop):
    """An event that happens while somebody looks appears by itself."""
    browser.get(f"{busy}/events")
    shop.run("pause", "optical")
    wait_for("the event", lambda: "optical is paused" in read(browser, "#event-list"))
    shop.run("resume", "optical")


@pytest.mark.parametrize(("width", "scheme"), [pytest.param(1280, "light", marks=pytest.mark.long), (390, "dark")])
@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_sound(browser, still, page, width, scheme):
    """No error in the console, no request to elsewhere, nothing wider than the screen, no serious finding of axe-core."""
    look(browser, width, scheme)
    browser.get_log("browser")
    requests(browser)
    browser.get(still + PAGES[page])
    browser.execute_script("document.querySelectorAll('img').forEach((image) => { image.loading = 'eager'; })")
    wait_for("the pictures", lambda: browser.execute_script(COMPLETE))
    assert browser.execute_script("return [...document.images].every((image) => image.naturalWidth > 0)")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert [entry for entry in browser.get_log("browser") if entry["level"] in {"SEVERE", "WARNING"}] == []
    asked = requests(browser)
    assert asked
    assert {url for url in asked if not url.startswith(still)} == set()
    if page == "domain":
        assert sum(".png" in url for url in asked) >= 20
    if AXE.exists():
        assert serious(browser) == []


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: npm install --prefix .ci axe-core")
def test_axe_would_have_found_something(browser, still):
    """The check above can fail: text of too little contrast is reported."""
    look(browser, 1280, "light")
    browser.get(f"{still}/events")
    browser.execute_script("document.querySelector('h1').setAttribute('style', 'color: #ccc')")
    browser.execute_script("document.querySelector('h1').style.color = '#ccc'")
    assert any("color-contrast" in item for item in serious(browser))


def test_the_keyboard_is_enough(browser, still):
    """Tab reaches the skip link first, then the pages in order; what has the focus shows it."""
    from selenium.webdriver.common.keys import Keys

    look(browser, 1280, "light")
    browser.get(still)
    reached = []
    for _ in range(7):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        element = browser.switch_to.active_element
        reached.append(element.text)
        assert element.value_of_css_property("outline-style") != "none"
    assert reached == ["Skip to the content", "shop", "Overview", "Matrix", "Domains", "Versions", "Events"]


def test_pictures_are_enlarged_by_keyboard(browser, still):
    """Enter opens a picture, arrows go on to the next, Escape leads back to where one was."""
    from selenium.webdriver.common.keys import Keys

    look(browser, 390, "light")
    browser.get(f"{still}/domains/optical")
    browser.execute_script("document.querySelectorAll('a.enlarge')[1].focus()")
    source = "return document.querySelector('dialog img').src"

    def press(key: str) -> None:
        browser.switch_to.active_element.send_keys(key)

    press(Keys.ENTER)
    assert browser.find_element("css selector", "dialog").is_displayed()
    first = browser.execute_script(source)
    assert first.endswith("?large=1")
    wait_for("it", lambda: browser.execute_script("return document.querySelector('dialog img').naturalWidth > 0"))
    press(Keys.ARROW_RIGHT)
    assert browser.execute_script(source) != first
    if AXE.exists():
        assert serious(browser) == []
    press(Keys.ARROW_LEFT)
    press(Keys.ESCAPE)
    assert not browser.find_element("css selector", "dialog").is_displayed()
    assert browser.switch_to.active_element.get_attribute("href") == first


def test_pages_work_without_scripts(browser, still):
    """Everything is told by the server; scripts only keep it fresh."""
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(still)
        assert "step" in browser.find_element("id", "live-step").text
        assert browser.find_element("css selector", "[data-live=losses] tbody td").is_displayed()
        assert browser.find_elements("css selector", "canvas") == []
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_report_is_drawn_from_one_file(browser, still, shop, tmp_path):
    """Its own scripts may run and draw; nothing else is asked for, nothing complains."""
    shop.run("report", "--out", tmp_path / "report.html")
    look(browser, 390, "dark")
    browser.get_log("browser")
    requests(browser)
    browser.get(f"file://{tmp_path}/report.html")
    drawn = "return [...document.querySelectorAll('figure.chart')].map((figure) => figure.querySelectorAll('canvas').length)"
    assert set(browser.execute_script(drawn)) == {1}
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    assert [entry for entry in browser.get_log("browser") if entry["level"] in {"SEVERE", "WARNING"}] == []
    assert requests(browser) == {f"file://{tmp_path}/report.html"}
    if AXE.exists():
        assert serious(browser) == []


@pytest.mark.skipif(not SCREENSHOTS, reason="screenshots are made when ADAPTD_SCREENSHOTS names a folder")
def test_screenshots(browser, still):
    """The documentation's pictures."""
    folder = Path(SCREENSHOTS)
    folder.mkdir(parents=True, exist_ok=True)
    for page, width, scheme in SHOTS:
        look(browser, width, scheme)
        browser.get(still + PAGES[page])
        browser.execute_script("document.querySelectorAll('img').forEach((image) => { image.loading = 'eager'; })")
        wait_for("the pictures", lambda: browser.execute_script(COMPLETE))
        if page == "overview":
            wait_for("a line", lambda: len(browser.execute_script(STEPS)) > 6)
        height = min(1800, browser.execute_script("return document.documentElement.scrollHeight"))
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.save_screenshot(str(folder / f"{page}-{width}-{scheme}.png"))


def test_a_person_rolls_back_on_the_page(browser, still, shop):
    """The form asks for the token; with it the version before is served again, as the next number."""
    served = shop.status()["served"]["version"]
    look(browser, 1280, "light")
    browser.get(f"{still}/versions/{served}")
    browser.find_element("id", "token").send_keys("wrong")
    browser.find_element("css selector", "form button").click()
    wait_for("the refusal", lambda: "that is not the token" in read(browser, "main"))
    assert shop.status()["served"]["version"] == served
    browser.get(f"{still}/versions/{served}")
    browser.find_element("id", "token").send_keys(TOKEN)
    browser.find_element("css selector", "form button").click()
    wait_for("the answer", lambda: "is promoted: the weights of version" in read(browser, "main"))
    assert shop.status()["served"]["version"] == served + 1
