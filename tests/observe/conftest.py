"""A real project that lives under a real daemon, server and Prometheus; and a large one, written row by row."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException

from tests.conftest import FAST, REPOSITORY, Once, Zygote

from .browsing import start_browser

TOKEN = "a-token-of-the-tests"
SCREENSHOTS = os.environ.get("ADAPTD_SCREENSHOTS", "")
"""A folder to write the documentation's screenshots to; the project is then one of real digits, which takes minutes."""
SECONDS = 900 if SCREENSHOTS else 120
DOMAINS = ("optical", "askew", "night", "camera-7")


def wait_for(what: str, condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Wait until something is there, and return it. What a page was asked while another took its place is not there yet."""
    deadline = time.monotonic() + seconds

    def look() -> Any:
        with contextlib.suppress(StaleElementReferenceException, NoSuchElementException):
            return condition()

    while not (found := look()):
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.1)
    return found


@contextlib.contextmanager
def running(*words: object, log: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A program, stopped in order at the end."""
    with log.open("wb") as file:
        process = subprocess.Popen([str(word) for word in words], stdout=file, stderr=file, env=env)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclasses.dataclass
class Shop:
    """A project and its commands."""

    root: Path
    env: dict[str, str]
    zygote: Zygote
    address: str = ""
    """Of the running daemon."""

    def copy(self, root: Path) -> "Shop":
        """The same elsewhere: a project can be moved."""
        shutil.copytree(self.root, root)
        return dataclasses.replace(self, root=root)

    def command(self, *words: object) -> list[str]:
        """As a user would type it."""
        return [sys.executable, "-m", "adaptd.cli.main", "--project", str(self.root), *map(str, words)]

    def run(self, *words: object, **settings: str) -> str:
        """A command that must work; what it said."""
        command = ("--project", self.root, *words)
        run = self.zygote.start(*command, env=self.env | settings, settings={}, seconds=SECONDS).wait()
        assert run.returncode == 0, run.stderr
        return run.stdout

    def status(self) -> dict[str, Any]:
        """`adaptd status --json`."""
        return json.loads(self.run("status", "--json"))

    def set_epochs(self, epochs: int) -> None:
        """For a daemon that starts from now on."""
        path = self.root / "adaptd.toml"
        head, section, rest = path.read_text().partition("[training]")
        path.write_text(head + section + re.sub(r"\n#?epochs = \d+", f"\nepochs = {epochs}", rest, count=1))

    def wait_for_episodes(self, done: int) -> None:
        """Until this many are committed, the source's among them."""
        metric = f'adaptd_episodes_total{{outcome="done"}} {done}.0'
        wait_for("the episodes", lambda: metric in httpx.get(f"{self.address}/metrics").text)

    def drop(self, folder: Path, name: str) -> None:
        """Put a finished folder into the inbox."""
        aside = self.root / "inbox" / f".{name}.part"
        shutil.copytree(folder, aside)
        (aside / "_READY").touch()
        aside.rename(self.root / "inbox" / name)

    @contextlib.contextmanager
    def daemon(self, log: Path, **settings: str) -> Iterator["Shop"]:
        """A running daemon; the shop knows its address."""
        with running(*self.command("run"), log=log, env=self.env | settings):
            found = wait_for("the daemon", lambda: re.search(r'"address": "(http[^"]+)"', log.read_text()))
            yield dataclasses.replace(self, address=found[1])


@pytest.fixture(scope="session")
def shop_env() -> dict[str, str]:
    """Small and quick; any free port; a token for what changes something."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ADAPTD_")}
    quick = {name: value for name, value in FAST.items() if name != "ADAPTD_TRAINING__EPOCHS"}
    if SCREENSHOTS:
        quick = {"ADAPTD_SOURCE__EPOCHS": "4", "ADAPTD_MEMORY__IMAGES_PER_DOMAIN": "200"}
    ours = {"ADAPTD_METRICS__PORT": "0", "ADAPTD_METRICS__TOKEN": TOKEN, "ADAPTD_SERVING__PORT": "0"}
    ours |= {"ADAPTD_INTAKE__SETTLE_SECONDS": "0", "ADAPTD_INTAKE__SCAN_SECONDS": "1", "PYTHONPATH": str(REPOSITORY)}
    return kept | quick | ours | {"ADAPTD_TRAINING__CHECKPOINT_SECONDS": "60", "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One for all tests of a module."""
    driver = start_browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory, paint: Any) -> dict[str, Path]:
    """A labelled source and four domains, each with a test set and a file that is no image."""
    folder = tmp_path_factory.mktemp("pictures")
    if SCREENSHOTS:
        from adaptd.bench.demo import write_demo_data

        write_demo_data(folder)
        shutil.copytree(folder / "night", folder / "camera-7")
        for path in (folder / "camera-7").rglob("*.png"):  # the same images would not be learned again
            Image.open(path).point(lambda value: value * 9 // 10).save(path)
    else:
        paint(folder / "source", 20, seed=0)
        for number, name in enumerate(DOMAINS, start=1):
            paint(folder / name, 20, seed=number, shift=15 * number, flat=True)
            paint(folder / name / "_test", 4, seed=10 + number, shift=15 * number)
    for name in DOMAINS:
        (folder / name / "broken.jpg").write_bytes(b"no image")
    return {name: folder / name for name in ("source", *DOMAINS)}


@pytest.fixture(scope="session")
def new_shop(once: Once, pictures: dict[str, Path], shop_env: dict[str, str], zygote: Zygote) -> Shop:
    """A project with a trained source, at rest: copy it."""

    def fill(root: Path) -> None:
        made = zygote.start("init", root, "--backbone", "lenet" if SCREENSHOTS else "lenet5", env=shop_env, settings={}).wait()
        assert made.returncode == 0, made.stderr
        shop = Shop(root, shop_env, zygote)
        shop.set_epochs(3 if SCREENSHOTS else 6)
        shop.run("source", "import", pictures["source"])

    return Shop(once("observed", fill), shop_env, zygote)


@dataclasses.dataclass
class Lived:
    """A project after three episodes, under a daemon and a server, scraped where Prometheus is installed."""

    shop: Shop
    serving: str
    prometheus: str | None

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """What Prometheus answers; it must be no error."""
        answer = httpx.get(f"{self.prometheus}/api/v1/query", params={"query": expression}).json()
        assert answer["status"] == "success", (expression, answer)
        return answer["data"]["result"]


@pytest.fixture(scope="session")
def lived(new_shop: Shop, pictures: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """Daemon, server and Prometheus run while three domains come."""
    folder = tmp_path_factory.mktemp("lived")
    with contextlib.ExitStack() as stack:
        shop = stack.enter_context(new_shop.copy(folder / "shop").daemon(folder / "daemon.log"))
        stack.enter_context(running(*shop.command("serve"), log=folder / "serve.log", env=shop.env))
        said = wait_for("the server", lambda: re.search(r"http://[\d.]+:\d+", (folder / "serve.log").read_text()))
        prometheus = stack.enter_context(_prometheus(folder, shop.address, said[0])) if shutil.which("prometheus") else None
        for name in DOMAINS[:3]:
            shop.drop(pictures[name], name)
        image = next(pictures["optical"].glob("*.png"))
        _predict(said[0], image)
        shop.wait_for_episodes(4)
        lived = Lived(shop, said[0], prometheus)
        _predict(said[0], image)
        if prometheus:
            wait_for("the scrape", lambda: lived.ask('adaptd_episodes_total{outcome="done"} == 4'))
            rate = 'sum(rate(adaptd_requests_total{endpoint="predict",code="200"}[1m])) > 0'
            wait_for("the scrape of the server", lambda: lived.ask(rate))
        yield lived


def _predict(address: str, image: Path) -> None:
    answer = httpx.post(f"{address}/predict", content=image.read_bytes(), headers={"Content-Type": "image/png"})
    assert answer.status_code == 200, answer.text


@contextlib.contextmanager
def _prometheus(folder: Path, daemon: str, serving: str) -> Iterator[str]:
    """With the configuration and rules that are shipped, but for the addresses and a quicker pace."""
    shipped = REPOSITORY / "deploy" / "prometheus"
    config = (shipped / "prometheus.yml").read_text().replace("15s", "1s").replace("alerts.yml", str(shipped / "alerts.yml"))
    for usual, ours in (("127.0.0.1:9109", daemon), ("127.0.0.1:8080", serving)):
        assert usual in config
        config = config.replace(usual, ours.removeprefix("http://"))
    (folder / "prometheus.yml").write_text(config)
    port = _free_port()
    options = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    command = ["prometheus", *options, f"--web.listen-address=127.0.0.1:{port}"]
    with running(*command, log=folder / "prometheus.log", env=dict(os.environ)):
        wait_for("Prometheus", lambda: _is_ready(f"http://127.0.0.1:{port}/-/ready"))
        yield f"http://127.0.0.1:{port}"


def _is_ready(address: str) -> bool:
    try:
        return httpx.get(address).status_code == 200
    except httpx.TransportError:
        return False


def _free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
