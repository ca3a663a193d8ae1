"""Who may import whom, read from the import graph; and what a light command really loads."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "adaptd"
ROOMS = {"intake", "library", "learning", "evaluation", "publishing", "serving", "store", "daemon", "observe", "bench", "cli"}
ANYONE = {"errors", "records", "settings", "config", "machine"}

MAY_IMPORT = {
    "intake": {"library"},
    "library": set(),
    "learning": {"library"},
    "evaluation": {"library"},
    "publishing": {"library", "learning", "evaluation"},
    "serving": {"store", "publishing", "library", "observe"},
    "store": set(),
    "observe": {"store", "evaluation"},
    "bench": {"library", "learning", "evaluation"},
    "daemon": ROOMS - {"bench", "cli"},
    "cli": ROOMS,
}
"""Room → rooms it may use. `errors`, `records` and the other top-level modules are for anyone."""

ONLY_IN = {
    "sqlalchemy": {"store"},
    "alembic": {"store"},
    "watchdog": {"intake"},
    "prometheus_client": {"observe"},
    "jinja2": {"observe"},
    "onnxruntime": {"serving", "publishing"},
    "torch": {"learning", "evaluation", "publishing", "bench"},
    "torchvision": {"learning"},
    "typer": {"cli"},
    "rich": {"cli"},
}
"""Library → rooms that may import it."""


def imports(path: Path) -> list[str]:
    """Every dotted name a module imports, at the top or inside functions."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = ["adaptd", *path.relative_to(PACKAGE).parts][: -node.level] if node.level else []
            names += [
                ".".join([*package, *(node.module or "").split("."), alias.name]).replace("..", ".") for alias in node.names
            ]
    return names


EDGES = [(path.relative_to(PACKAGE), name) for path in sorted(PACKAGE.rglob("*.py")) for name in imports(path)]


def room(path: Path) -> str:
    """The room a module is in."""
    return path.parts[0].removesuffix(".py")


def test_relative_imports_are_seen_as_what_they_are(tmp_path, monkeypatch):
    """No way around the rules by dots."""
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    (tmp_path / "library").mkdir()
    module = tmp_path / "library" / "x.py"
    module.write_text(
        "from ..store import Store\nfrom . import cache\nfrom .pool import Pool\nfrom .. import daemon\nimport os.path\n"
    )
    names = ["adaptd.store.Store", "adaptd.library.cache", "adaptd.library.pool.Pool", "adaptd.daemon", "os.path"]
    assert imports(module) == names


def test_rooms_import_only_whom_they_may():
    """The rooms of the design, and nothing across."""
    bad = []
    for path, name in EDGES:
        parts = name.split(".")
        if parts[0] != "adaptd" or len(parts) < 2 or parts[1] in ANYONE or parts[1] == "__version__":
            continue
        me = room(path)
        if me in ANYONE or (parts[1] != me and parts[1] not in MAY_IMPORT[me]):
            bad.append(f"{path} imports {name}")
    assert bad == []


def test_libraries_stay_in_their_rooms():
    """SQLAlchemy lives in store only, watchdog in intake only, and so on."""
    bad = [f"{path} imports {name}" for path, name in EDGES if room(path) not in ONLY_IN.get(name.split(".")[0], {room(path)})]
    assert bad == []


def test_the_store_is_used_through_its_front_door():
    """Others import from adaptd.store; only `adaptd db` and `init` also use its migrations."""
    allowed = {"NewDrop", "NewEpisode", "NewVersion", "Store", "Transaction", "migrate", "schema"}
    names = [(path, name.split(".")) for path, name in EDGES if name.startswith("adaptd.store") and room(path) != "store"]
    assert [f"{path} imports {'.'.join(parts)}" for path, parts in names if parts[2] not in allowed] == []


def test_the_paper_stands_alone():
    """learning.grcl is torch and the standard library, and of ours the errors and records."""
    allowed = {"torch", *sys.stdlib_module_names}
    ours = ("adaptd.learning.grcl", "adaptd.errors", "adaptd.records")
    bad = [
        f"{path} imports {name}"
        for path, name in EDGES
        if path.is_relative_to("learning/grcl") and name.split(".")[0] not in allowed and not name.startswith(ours)
    ]
    assert bad == []


def test_no_pickle_anywhere():
    """Nothing is read or written that could run code."""
    called = {
        (path, ast.unparse(node.func))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    }
    assert {pair for pair in called if pair[1] in {"torch.load", "torch.save"}} == set()
    assert [
        f"{path} imports {name}" for path, name in EDGES if name.split(".")[0] in {"pickle", "dill", "joblib", "shelve"}
    ] == []


def test_the_supervisor_loads_no_torch():
    """The daemon's own process stays light: nothing it imports, at any depth, loads torch or ONNX Runtime."""
    program = "import sys, adaptd.daemon.supervisor, adaptd.cli.daemon, adaptd.observe.http; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) & {"torch", "torchvision", "onnxruntime", "onnx", "alembic", "matplotlib"} == set()


@pytest.mark.parametrize(
    "words",
    [
        *(
            ["status"],
            ["status", "--json"],
            ["config", "show"],
            ["version"],
            ["--help"],
            ["gc", "--dry-run"],
            ["quarantine", "list"],
        ),
        *(["serve", "--help"], ["predict", "--help"]),
    ],
)
def test_light_commands_load_no_torch(project, words):
    """After the real command, sys.modules has nothing heavy."""
    program = (
        "import sys, json\n"
        "from adaptd.cli.main import main\n"
        f"sys.argv = ['adaptd', '--project', {str(project)!r}, *{words!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print('\\n' + json.dumps(sorted(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=project)
    loaded = set(json.loads(run.stdout.splitlines()[-1]))
    assert loaded & {"torch", "torchvision", "onnxruntime", "alembic", "matplotlib", "numpy", "PIL"} == set()


def test_serving_loads_no_torch_and_no_database():
    """The whole server, imported."""
    program = "import sys, json, adaptd.serving.server, adaptd.serving.offline\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    loaded = set(json.loads(run.stdout))
    assert "onnxruntime" in loaded
    assert loaded & {"torch", "torchvision", "onnx", "sqlalchemy", "alembic", "matplotlib"} == set()
    assert not any(name.startswith(("adaptd.learning", "adaptd.store")) for name in loaded)


def test_the_daemon_and_its_pages_load_no_torch():
    """The supervisor with everything it serves over HTTP, and the report."""
    rooms = "adaptd.daemon.supervisor, adaptd.daemon.pictures, adaptd.observe.http, adaptd.observe.dashboard.report"
    program = f"import sys, json, {rooms}\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    loaded = set(json.loads(run.stdout))
    assert "jinja2" in loaded
    assert loaded & {"torch", "torchvision", "onnx", "onnxruntime", "alembic", "matplotlib"} == set()
