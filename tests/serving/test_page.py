"""The page at `/`: a picture becomes bars, in a real browser with and without scripts, and with nothing loaded from elsewhere."""

import base64
import json
import os
from pathlib import Path

import pytest
from PIL import Image

from tests.observe.browsing import AXE, look, read, serious, start_browser

from .conftest import models, publish
from .test_predict import picture, right

SCREENSHOTS = os.environ.get("ADAPTD_SCREENSHOTS", "")


@pytest.fixture(scope="module")
def server(shop, start):
    """Two versions."""
    publish(models(shop), 1)
    publish(models(shop), 2)
    return start(shop)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Chromium."""
    driver = start_browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture
def files(tmp_path) -> list[Path]:
    """A picture, one with a hostile name, and a file that is none."""
    names = ("a.png", "<b onclick=alert(1)>\u202egnp.png", "bad.png")
    paths = [tmp_path / name for name in names]
    for seed, path in enumerate(paths):
        path.write_bytes(picture(seed) if seed < 2 else b"nothing")
    return paths


def submit(browser, files) -> None:
    """Choose files; the button where no script sends them."""
    browser.find_element("id", "image").send_keys("\n".join(map(str, files)))
    for button in browser.find_elements("css selector", "button"):
        if not browser.find_elements("id", "answers"):
            button.click()


def test_over_plain_http(server):
    """The form, its answer, refusals as a page, an old version; and the headers that keep a page to itself."""
    with server.client() as http:
        page = http.get("/")
        assert page.status_code == 200
        assert "version 2" in page.text
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        for path in ("/page.css", "/page.js"):
            assert http.get(path).headers["x-content-type-options"] == "nosniff"
        answer = http.post("/?version=1", files=[("image", ("<i>.png", picture(1)))])
        assert "&lt;i&gt;.png" in answer.text
        assert f"{100 * right(1, picture(1))['probability']:.1f} %" in answer.text
        assert "What version 1 says" in answer.text
        bad = http.post("/", files=[("image", ("x", b"nothing"))])
        assert (bad.status_code, "not-an-image" in bad.text, bad.headers["content-type"]) == (
            400,
            True,
            "text/html; charset=utf-8",
        )
        absent = http.get("/?version=9")
        assert (absent.status_code, "it has 2 from 1 to 2" in absent.text, "nothing to serve" in absent.text) == (
            404,
            True,
            False,
        )
        wrong = http.delete("/")
        assert (wrong.json(), wrong.headers["allow"]) == ({"error": "use GET or POST here"}, "GET, POST")
        many = http.post("/", files=[("image", (f"{n}.png", picture(1))) for n in range(30)])
        assert "6 more are not shown" in many.text


def test_a_token_is_the_password(fresh, start):
    """A browser asks for it; files that tell nothing need none. Before a first version the page says so."""
    server = start(fresh, token="secret")
    with server.client() as http:
        asked = http.get("/")
        assert (asked.status_code, asked.headers["www-authenticate"]) == (401, 'Basic realm="adaptd"')
        assert http.get("/page.css").status_code == 200
        for value in (b"x:wrong", b"secret", b"x:"):
            header = {"Authorization": f"Basic {base64.b64encode(value).decode()}"}
            assert http.get("/", headers=header).status_code == 401
        assert http.get("/", headers={"Authorization": "Basic ###"}).status_code == 401
        page = http.get("/", auth=("anyone", "secret"))
        assert (page.status_code, "nothing to serve yet" in page.text) == (503, True)
        assert http.get("/v2", auth=("anyone", "secret")).status_code == 401, "programs send it as Bearer"


@pytest.mark.parametrize(("width", "scheme", "script"), [(1280, "light", True), (390, "dark", False)])
def test_in_a_browser(server, browser, files, width, scheme, script):
    """Chosen files are answered with bars; names stay text; nothing is wider than the screen, and nobody else is asked."""
    look(browser, width, scheme)
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not script})
    browser.get(f"http://{server.address}/")
    _shoot(browser, f"form-{width}-{scheme}")
    submit(browser, files)
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert read(browser, "h2") == "What version 2 says"
    _shoot(browser, f"answers-{width}-{scheme}")
    first, second, third = browser.find_elements("css selector", ".pictures li")
    assert f"{100 * right(2, picture(0))['probability']:.1f} %" in first.text
    assert "<b onclick=alert(1)>\\u202egnp.png" in second.text
    assert "not-an-image" in third.text
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script("return document.querySelector('img').naturalWidth") > 0
    logged = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert logged == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert all(url.startswith((f"http://{server.address}/", "data:", "chrome:")) for url in asked), asked
    if AXE.exists():
        assert serious(browser) == []


def test_by_keyboard(server, browser):
    """Tab reaches the files, the button and the links, in this order."""
    from selenium.webdriver import ActionChains, Keys

    look(browser, 1280, "light")
    browser.get(f"http://{server.address}/")
    reached = []
    for _ in range(6):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        reached.append(browser.execute_script("const e = document.activeElement; return e.id || e.textContent"))
    assert reached == ["image", "Ask the model", "openapi.json", "/v2", "health", "metrics"]


def _shoot(browser, name: str) -> None:
    if SCREENSHOTS:
        path = Path(SCREENSHOTS) / f"{name}.png"
        browser.save_screenshot(str(path))
        assert Image.open(path).width
