"""Everything that can be wrong on a machine, each check a function. It looks, never changes; the store checks itself."""

import errno
import os
import platform
import resource
import shlex
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from adaptd.machine import cpu_count, cpu_quota, existing, filesystem_kind, is_remote
from adaptd.observe.status import explain_unpromoted
from adaptd.project.layers import Project
from adaptd.project.weights import describe_available, describe_start
from adaptd.records import VersionState
from adaptd.store import Transaction

PACKAGES = ("torch", "torchvision", "onnxruntime", "watchdog", "sqlalchemy", "typer", "prometheus-client", "pillow", "simplejpeg")
FREE_BYTES_FAIL, FREE_BYTES_WARN = 1 << 30, 10 << 30
LOADING = """
import gc, sys
gc.disable()  # a fifth of the time that torch takes to load
from adaptd.errors import ConfigError
from adaptd.learning.torchvision_compat import import_torchvision
print(import_torchvision().__version__)
from adaptd.learning.backbones import check_backbone
from adaptd.learning.devices import list_devices, resolve_device
print(", ".join(list_devices()))
for check, name in zip((check_backbone, resolve_device), sys.argv[1:]):
    try:
        check(name)
        print()
    except ConfigError as problem:
        print(problem)
"""
"""Prints torchvision's version, torch's devices, and what is wrong with the backbone and with the device; a line each."""

ANSWERING = """
import sys
from adaptd.errors import ConfigError
from adaptd.publishing.session import find_providers, list_devices
print(", ".join(list_devices()))
try:
    find_providers(sys.argv[1])
except ConfigError as problem:
    print(problem)
"""
"""Prints ONNX Runtime's devices and what is wrong with the one wanted."""
WAL_BUG_FIXED = (3, 51, 3)


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer: a fact and, where it is not ok, the remedy."""

    name: str
    level: Literal["ok", "warn", "fail"]
    fact: str
    remedy: str = ""


def examine(project: Project) -> Iterator[Finding]:
    """Run every check, one finding or more each."""
    checks: tuple[Callable[[Project], Iterator[Finding]], ...] = (
        _python,
        _packages,
        _training,
        _serving,
        _weights,
        _sqlite,
        _threads,
        _inotify,
        _files,
        _filesystems,
        _writable,
        _disk,
        _ports,
    )
    for check in checks:
        yield from check(project)


def check_promoted(tx: Transaction) -> Finding:
    """Whether there is a version to serve and to adapt from."""
    newest, promoted = tx.versions.find_latest(), tx.versions.find_latest(VersionState.PROMOTED)
    if promoted is not None:
        return Finding("promoted version", "ok", str(promoted.version))
    if newest is None:
        return Finding("promoted version", "ok", "none yet: `adaptd source import DIR` makes the first")
    fact, _, remedy = explain_unpromoted(newest).partition(": ")
    return Finding("promoted version", "warn", fact, remedy)


def _python(_: Project) -> Iterator[Finding]:
    yield Finding("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _packages(_: Project) -> Iterator[Finding]:
    for name in PACKAGES:
        try:
            yield Finding(name, "ok", metadata.version(name))
        except metadata.PackageNotFoundError:
            yield Finding(name, "fail", "not installed", f"pip install {name}, or install adaptd again")


def _training(project: Project) -> Iterator[Finding]:
    settings = project.settings
    run = _run(LOADING, settings.model.backbone, settings.training.device)
    if isinstance(run, str):
        remedy = "install matching torch and torchvision (constraints.txt has a tested pair); look for a very busy machine"
        yield Finding("training", "fail", run, remedy)
        return
    version, devices, no_backbone, no_device = run[:4]
    yield Finding("training", "ok", f"torch and torchvision {version} load")
    yield _found("training device", f"{settings.training.device}; torch sees {devices}", no_device, "set training.device")
    yield _found("backbone", settings.model.backbone, no_backbone, "set model.backbone")


def _serving(project: Project) -> Iterator[Finding]:
    run = _run(ANSWERING, project.settings.serving.device)
    if isinstance(run, str):
        yield Finding("serving", "fail", run, "install onnxruntime again")
        return
    fact = f"{project.settings.serving.device}; ONNX Runtime has {run[0]}"
    yield _found("serving device", fact, run[1], "set serving.device")


def _found(name: str, fact: str, problem: str, remedy: str) -> Finding:
    return Finding(name, "fail", problem, remedy) if problem else Finding(name, "ok", fact)


def _run(program: str, *words: str) -> list[str] | str:
    """The lines that a program prints, or why it does not; in a process of its own: it may fail in ways that kill."""
    try:
        run = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return "it did not load within 120 s"
    if run.returncode == 0:
        return [*run.stdout.split("\n"), "", "", ""]
    return (run.stderr.strip().splitlines() or [f"exit {run.returncode}"])[-1]


def _weights(project: Project) -> Iterator[Finding]:
    yield Finding("trained weights", "ok", describe_available())
    if not any(project.models.glob("*/[0-9]*")):  # with a version, the source is learnt
        yield Finding("first weights", *describe_start(project))


def _sqlite(_: Project) -> Iterator[Finding]:
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < WAL_BUG_FIXED:
        remedy = "adaptd keeps to one writer, which avoids it; don't write to the database with other tools"
        yield Finding("sqlite", "warn", f"{version} has a rare WAL bug with several writers", remedy)
    else:
        yield Finding("sqlite", "ok", version)


def _threads(project: Project) -> Iterator[Finding]:
    quota, wanted, usable = cpu_quota(), project.settings.training.threads, cpu_count()
    fact = f"{os.cpu_count()} processors, {len(os.sched_getaffinity(0))} by affinity, quota {quota or 'none'}"
    if wanted > usable:
        yield Finding("threads", "warn", f"training.threads is {wanted}; {fact}", f"set training.threads to 0 or {usable}")
    else:
        yield Finding("threads", "ok", f"{wanted or usable} for training; {fact}")


def _inotify(_: Project) -> Iterator[Finding]:
    for name, least in (("max_user_watches", 8192), ("max_user_instances", 16), ("max_queued_events", 16384)):
        try:
            limit = int(Path(f"/proc/sys/fs/inotify/{name}").read_text(encoding="ascii"))
        except OSError:
            yield Finding(f"inotify {name}", "warn", "unknown", "adaptd finds drops by scanning every intake.scan_seconds")
            continue
        level: Literal["ok", "warn"] = "ok" if limit >= least else "warn"
        yield Finding(f"inotify {name}", level, str(limit), "" if level == "ok" else f"sysctl fs.inotify.{name}={least}")


def _files(_: Project) -> Iterator[Finding]:
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 256:
        yield Finding("open files", "warn", f"limit {soft}", "ulimit -n 1024, or LimitNOFILE=1024 in the unit")
    else:
        yield Finding("open files", "ok", f"limit {soft}")


def _filesystems(project: Project) -> Iterator[Finding]:
    state, inbox = filesystem_kind(project.state), filesystem_kind(project.inbox)
    if is_remote(state):
        yield Finding("state folder", "fail", f"{project.state} is on {state}", "SQLite needs a local disk: set paths.state")
    else:
        yield Finding("state folder", "ok", f"on {state}")
    fact = f"on {state if inbox == state else inbox}"
    yield Finding("inbox", "ok", f"{fact}, which sends no events: adaptd polls" if is_remote(inbox) else fact)
    if existing(project.state).stat().st_dev == existing(project.models).stat().st_dev:
        yield Finding("models folder", "ok", "same filesystem as the state folder")
    else:
        remedy = "versions are published by one rename: put paths.state and paths.models on one filesystem"
        yield Finding("models folder", "fail", f"{project.models} and {project.state} are on different filesystems", remedy)


def _writable(project: Project) -> Iterator[Finding]:
    for name, path in (("inbox", project.inbox), ("state", project.state), ("models", project.models)):
        if not path.is_dir():
            remedy = f"set paths.{name} to a folder" if path.exists() else f"mkdir -p {shlex.quote(str(path))}"
            yield Finding(f"{name} writable", "fail", f"{path} is not a folder", remedy)
            continue
        try:
            with tempfile.TemporaryFile(dir=path):
                yield Finding(f"{name} writable", "ok", str(path))
        except OSError as problem:
            remedy = "give the user that runs adaptd write permission"
            level: Literal["ok", "fail"] = "ok" if name == "inbox" and project.settings.intake.mode == "in-place" else "fail"
            yield Finding(f"{name} writable", level, f"{path}: {problem.strerror}", "" if level == "ok" else remedy)


def _disk(project: Project) -> Iterator[Finding]:
    free = shutil.disk_usage(existing(project.state)).free
    fact = f"{free / (1 << 30):.1f} GiB free for the state folder"
    if free < FREE_BYTES_WARN:
        yield Finding("disk", "fail" if free < FREE_BYTES_FAIL else "warn", fact, "make room, or move paths.state")
    else:
        yield Finding("disk", "ok", fact)


def _ports(project: Project) -> Iterator[Finding]:
    for name, section in (("serving", project.settings.serving), ("metrics", project.settings.metrics)):
        where = f"{section.host}:{section.port}"
        try:
            family, kind, _proto, _name, address = socket.getaddrinfo(section.host, section.port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, kind) as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(address)
        except (OSError, UnicodeError) as problem:  # a host that cannot be a name is a UnicodeError
            used = isinstance(problem, OSError) and problem.errno == errno.EADDRINUSE
            fact = f"{where} is in use" if used else f"{where}: {problem}"
            remedy = f"fine if adaptd itself runs; else set {name}.port" if used else f"set {name}.host and {name}.port"
            yield Finding(f"{name} port", "warn" if used else "fail", fact, remedy)
        else:
            yield Finding(f"{name} port", "ok", f"{where} is free")
