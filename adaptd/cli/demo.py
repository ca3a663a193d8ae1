"""`adaptd demo`: the main job on real images, by the commands a user would type: daemon, drops, R, versions, a prediction."""

import contextlib
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from adaptd.api import open as open_project
from adaptd.cli.output import say
from adaptd.cli.progress import progress_bar
from adaptd.errors import ConfigError, EpisodeError, ProjectBusy

START_SECONDS, DOMAIN_SECONDS = 60.0, 600.0


def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to make it; a demo that is there is replaced.")] = Path(
        "demo-project"
    ),
    keep: Annotated[bool, typer.Option("--keep", help="Leave the daemon and the server running until Ctrl-C.")] = False,
) -> None:
    """Train a digit classifier, let the daemon adapt it to three unlabelled domains, and serve the result.

    Needs `pip install 'adaptd[demo]'`. Ctrl-C at any moment stops everything it started; the folder stays.
    """
    _make_folder(folder)
    targets = _write_data(folder / "pictures")
    shop = folder / "shop"
    _run("init", shop, "--backbone", "lenet")
    _run("--project", shop, "source", "import", folder / "pictures" / "source")
    with _started(shop, "run", folder / "daemon.log") as daemon:
        for target in targets:
            _drop(shop, folder / "pictures" / target, daemon)
        _run("--project", shop, "matrix", "--plot", folder / "matrix.png")
        _show_gains(open_project(shop).status()["matrix"])
        _run("--project", shop, "versions")
        _show_metrics(open_project(shop).status()["daemon"]["address"])
        with _started(shop, "serve", folder / "server.log") as server:
            _show_prediction(_find_address(folder / "server.log", server), folder / "pictures" / targets[-1] / "_test")
            _run("--project", shop, "status")
            if keep:
                say("", "The daemon and the server go on until Ctrl-C.")
                with contextlib.suppress(KeyboardInterrupt):
                    daemon.wait()
    say("", f"The pictures, the project, logs and a plot of R are in {folder}: adaptd --project {shop} status")


def _make_folder(folder: Path) -> None:
    marker = folder / ".adaptd-demo"
    if folder.exists():
        if not marker.exists():
            raise ConfigError(f"{folder} exists and is not a demo: name another folder")
        _lock(marker)
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    marker.touch()
    _lock(marker)


def _lock(marker: Path) -> None:
    """Keep other demos out of the folder, as long as this process or anything it starts lives: a killed demo leaves a daemon."""
    handle = os.open(marker, os.O_RDWR)
    os.set_inheritable(handle, True)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        folder = marker.parent
        raise ProjectBusy(
            f"a demo is at work in {folder}: stop it, or name another folder; "
            f"`adaptd --project {folder}/shop status` tells its daemon"
        ) from None


def _write_data(folder: Path) -> tuple[str, ...]:
    from adaptd.bench.demo import TARGETS, write_demo_data

    with progress_bar("writing pictures") as show:
        show(0, 1)
        try:
            write_demo_data(folder)
        except ModuleNotFoundError as problem:
            raise ConfigError(f"the demo needs {problem.name}: pip install 'adaptd[demo]'") from problem
        show(1, 1)
    return TARGETS


def _command(*words: object) -> list[str]:
    texts = [str(word) for word in words]
    say("", f"$ adaptd {shlex.join(texts)}", bold=True)
    return [sys.executable, "-m", "adaptd.cli.main", *texts]


def _run(*words: object) -> None:
    """Run a command as the user would, and show it."""
    # A session of its own: Ctrl-C reaches this process alone, which then stops it in order.
    process = subprocess.Popen(_command(*words), start_new_session=True, close_fds=False)
    try:
        code = process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if code:
        raise typer.Exit(code)


@contextlib.contextmanager
def _started(shop: Path, command: str, log: Path) -> Iterator[subprocess.Popen[str]]:
    """A command in the background, on any free port, that ends with the block."""
    ports = {"ADAPTD_METRICS__PORT": "0", "ADAPTD_SERVING__PORT": "0"}
    words = _command("--project", shop, command)
    say(f"  in the background, log in {log}")
    with log.open("w") as file:
        process = subprocess.Popen(
            words, stdout=file, stderr=file, text=True, env=os.environ | ports, start_new_session=True, close_fds=False
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def _drop(shop: Path, pictures: Path, daemon: subprocess.Popen[str]) -> None:
    """Copy a folder into the inbox, as a user would, and watch what becomes of it."""
    say("", f"$ cp -r {pictures} {shop}/inbox/", bold=True)
    shutil.copytree(pictures, shop / "inbox" / pictures.name)
    deadline = time.monotonic() + DOMAIN_SECONDS
    with progress_bar(pictures.name) as show:
        while True:
            document = open_project(shop).status()
            state = next((item for item in document["queue"] if item["domain"] == pictures.name), {"state": "arriving"})
            if state["state"] in {"done", "refused", "rejected", "failed", "skipped"}:
                break
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise EpisodeError(f"{pictures.name} is {state['state']} and does not go on: see the daemon's log")
            episode = document["episode"] or {"step": 0, "steps": 1, "phase": state["state"], "eta_seconds": None}
            show(episode["step"], max(1, episode["steps"]), episode["phase"], left=episode["eta_seconds"])
            time.sleep(0.5)
        show(1, 1, state["state"])
    if state["state"] != "done":
        raise EpisodeError(f"{pictures.name} is {state['state']}: {state['reason']}")


def _show_gains(matrix: dict[str, Any]) -> None:
    say("", "What adapting brought, without a single label of the new domains:", bold=True)
    for name, before, after in zip(matrix["domains"], matrix["R"][0], matrix["R"][-1], strict=True):
        say(f"  {name:<8} {before:6.1%} → {after:6.1%}")


def _show_metrics(address: str) -> None:
    say("", f"$ curl {address}/metrics | grep accuracy", bold=True)
    text = _fetch(f"{address}/metrics").decode()
    say(*(line for line in text.splitlines() if line.startswith("adaptd_accuracy_ratio")))
    say(f"the dashboard is at {address}")


def _find_address(log: Path, server: subprocess.Popen[str]) -> str:
    """Where the server says that it listens."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        found = [word.rstrip(".,:;") for word in log.read_text().split() if word.startswith("http://")]
        if found:
            return found[0]
        time.sleep(0.2)
    raise EpisodeError(f"the server did not start: see {log}")


def _show_prediction(address: str, tests: Path) -> None:
    picture = next(path for path in sorted(tests.rglob("*.png")))
    say("", f"$ curl --data-binary @{picture} {address}/predict", bold=True)
    say(_fetch(f"{address}/predict", picture.read_bytes()).decode())
    say(f"(its true class is {picture.parent.name})")


def _fetch(url: str, body: bytes | None = None) -> bytes:
    # Our own server on this machine: never through a proxy.
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, body, timeout=30) as answer:
        found: bytes = answer.read()
    return found
