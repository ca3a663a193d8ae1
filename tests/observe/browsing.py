"""A real browser, and how tests look at what it shows."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps"),
)
AXE = Path(os.environ.get("AXE", REPOSITORY / ".ci" / "node_modules" / "axe-core" / "axe.min.js"))


def start_browser(profile: Path) -> Any:
    """Chromium with a fresh profile, which writes down its console and every request."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")
    programs = shutil.which("chromium"), shutil.which("chromedriver")
    if not all(programs):
        pytest.skip("Chromium is not installed: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(programs[1]))
    driver.set_page_load_timeout(60)
    return driver


def look(browser: Any, width: int, scheme: str) -> None:
    """As a phone or a desktop, by day or by night."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})


def read(browser: Any, selector: str) -> str:
    """The text of an element, in one go: parts of a page are replaced under the reader's eyes."""
    return browser.execute_script("return document.querySelector(arguments[0]).textContent", selector)


def serious(browser: Any) -> list[str]:
    """What axe-core calls serious or critical."""
    browser.execute_script(AXE.read_text(encoding="utf-8"))
    found = browser.execute_async_script("const done = arguments[0]; axe.run().then((found) => done(found.violations));")
    return [
        f"{item['id']}: {node['html'][:200]} {node['failureSummary']}"
        for item in found
        if item["impact"] in {"serious", "critical"}
        for node in item["nodes"]
    ]
