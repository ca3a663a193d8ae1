"""A person labels a hundred images in a real browser, by keyboard alone, and R is measured."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from adaptd.observe.dashboard.labelling import assign_keys

from .browsing import AXE, look, read, serious
from .conftest import TOKEN, Shop, wait_for

LABELS = 100


@pytest.fixture(scope="module")
def dusk(new_shop: Shop, paint: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A daemon whose project adapted to 150 unlabelled images, of which 105 are held out."""
    folder = tmp_path_factory.mktemp("labelling")
    shop = new_shop.copy(folder / "shop")
    shop.run("adapt", paint(folder / "dusk", 50, seed=9, shift=20, flat=True), ADAPTD_EVALUATION__HELD_OUT="0.7")
    with shop.daemon(folder / "daemon.log") as running:
        yield running


def test_keys_are_the_classes_own_or_numbers():
    """Digits are typed as they are; else 1 to 9, then letters, then none."""
    assert assign_keys(tuple("0123456789")) == list("0123456789")
    assert assign_keys(("cat", "dog")) == ["1", "2"]
    assert assign_keys(("a", "A")) == ["1", "2"]
    assert assign_keys(tuple(map(str, range(40))))[34:36] == ["z", None]


@pytest.mark.long
def test_a_hundred_labels_by_keyboard_alone(browser, dusk):
    """Token, a key for each image, one undone; then every row of R is measured, with intervals, and the page tells the error."""
    from selenium.webdriver.common.keys import Keys

    look(browser, 1280, "light")
    browser.get_log("browser")
    browser.get(f"{dusk.address}/domains/dusk/labels")

    def press(key: str) -> None:
        browser.switch_to.active_element.send_keys(key)

    def truth() -> str:
        return browser.execute_script("return document.getElementById('subject').alt")[0]

    while browser.switch_to.active_element.get_attribute("id") != "token":
        press(Keys.TAB)
    press("wrong" + Keys.ENTER)
    wait_for("the refusal", lambda: read(browser, "#label-said") == "that is not the token")
    browser.get_log("browser")  # a refused request is told there, too
    press(Keys.BACKSPACE * len("wrong") + TOKEN + Keys.ENTER)
    wait_for("the focus", lambda: browser.switch_to.active_element.get_attribute("id") == "label-keys")
    widths = []
    for number in range(LABELS):
        press(truth())
        if number == 40:
            press(Keys.BACKSPACE)
            press(truth())
        if number in {20, 50, 80}:
            wait_for("the count", lambda n=number: read(browser, "#label-done") == str(n + 1))
            widths.append(float(read(browser, "#label-points").split("±")[1].split()[0]))
    wait_for("all", lambda: read(browser, "#label-done") == str(LABELS))
    assert widths == sorted(widths, reverse=True)
    wait_for("the measurement", lambda: "Estimates had been off by" in read(browser, "#label-measured"))
    assert [entry for entry in browser.get_log("browser") if entry["level"] in {"SEVERE", "WARNING"}] == []
    if AXE.exists():
        assert serious(browser) == []
    matrix = json.loads(dusk.run("matrix", "--json"))
    column = matrix["domains"].index("dusk")
    assert [(row[column], n[column]) for row, n in zip(matrix["kind"], matrix["n"], strict=True)] == [("measured", LABELS)] * 2
    ranges = [
        (row[column], r[column], high[column]) for row, r, high in zip(matrix["low"], matrix["R"], matrix["high"], strict=True)
    ]
    assert all(low <= value <= high and low < high for low, value, high in ranges)
    told = json.loads(dusk.run("labels", "show", "dusk", "--json"))
    assert [item["version"] for item in told["versions"]] == [1, 2]
    assert all(0 <= item["low"] <= item["value"] <= item["high"] <= 1 for item in told["versions"])


def test_labelling_works_without_scripts(browser, dusk):
    """Every button is a form: the token, a class, the next image, undo; a phone is wide enough."""
    look(browser, 390, "dark")

    def send(button: str) -> None:
        browser.find_element("id", "token").send_keys(TOKEN)
        browser.find_element("css selector", button).click()

    def done() -> int:
        return int(browser.find_element("id", "label-done").text)

    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(f"{dusk.address}/domains/dusk/labels?count=105")
        before = done()
        send("button[name=label]")
        wait_for("the label", lambda: done() == before + 1)
        send("button[name=undo]")
        wait_for("the label's end", lambda: done() == before)
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390


def test_labels_to_teach_have_a_list_of_their_own(browser, dusk):
    """None of its images is among those that are measured on."""

    def images(address: str) -> set[str]:
        browser.get(f"{dusk.address}/domains/dusk/labels{address}")
        return set(browser.execute_script("return [...document.querySelectorAll('[data-image]')].map((a) => a.dataset.image)"))

    measured, taught = images("?count=200"), images("?count=200&teach=1")
    assert (len(measured), len(taught), measured & taught) == (105, 45, set())
