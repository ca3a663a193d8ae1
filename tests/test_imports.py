"""Who may import whom, read from the import graph; and what a light command really loads."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "adaptd"
MAY_IMPORT: dict[str, set[str]] = {
    "project": {"learning"},
    "intake": set(),
    "library": {"intake"},
    "learning": {"library"},
    "evaluation": {"learning", "library", "project"},
    "store": {"project"},
    "publishing": {"library", "learning", "evaluation", "project"},
    "serving": {"publishing", "library", "observe", "project"},
    "imports": {"intake", "library", "project", "store"},
    "releases": {"evaluation", "learning", "library", "project", "publishing", "store"},
    "labels": {"evaluation", "library", "project", "releases", "store"},
    "episodes": {"evaluation", "learning", "library", "project", "publishing", "releases", "store"},
    "care": {"imports", "intake", "library", "project", "publishing", "releases", "store"},
    "observe": {"evaluation", "intake", "labels", "learning", "library", "project", "releases", "store"},
    "daemon": {"care", "episodes", "imports", "intake", "labels", "library", "observe", "project", "releases", "store"},
    "bench": {"library", "learning", "evaluation", "project"},
}
"""Room → rooms it may use; top-level modules are for anyone. No two rooms use each other, at any distance."""

MAY_IMPORT["api"] = {"imports", "intake", "library", "observe", "project", "releases", "serving", "store"}
MAY_IMPORT["__init__"] = {"api", "serving"}
ROOMS = {*MAY_IMPORT, "cli"} - {"__init__"}
MAY_IMPORT["cli"] = ROOMS
ANYONE = {"beneath", "connections", "errors", "records", "files", "machine", "pace", "sections", "signals", "silence", "text"}
SETTINGS_OF_LEARNING = {"origins", "settings", "methods.options", "methods.registry", "methods.settings"}
"""Modules of learning that need no torch: what can be set, which methods there are, where weights come from."""


ONLY_IN = {
    "sqlalchemy": {"store"},
    "alembic": {"store"},
    "watchdog": {"intake"},
    "prometheus_client": {"observe"},
    "jinja2": {"observe", "serving"},
    "onnxruntime": {"learning", "serving", "publishing"},
    "torch": {"learning", "evaluation", "publishing", "bench"},
    "torchvision": {"learning"},
    "timm": {"learning"},
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


def test_a_project_knows_learning_by_its_settings_alone():
    """Nothing in project and in observe reaches into what trains."""
    found = [
        name.removeprefix("adaptd.learning.")
        for path, name in EDGES
        if room(path) in {"project", "observe"} and ".learning." in name
    ]
    assert found
    assert {name.rpartition(".")[0] for name in found} <= SETTINGS_OF_LEARNING


def test_settings_and_names_of_methods_load_no_torch():
    """Everything in project, and the list of methods with their options."""
    modules = [f"adaptd.project.{path.stem}" for path in (PACKAGE / "project").glob("[a-z]*.py")]
    modules += [f"adaptd.learning.{name}" for name in SETTINGS_OF_LEARNING]
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    assert set(run.stdout.split()) & {"torch", "torchvision", "numpy"} == set()


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """A way from a node back to itself; empty where there is none."""
    done: set[str] = set()

    def walk(node: str, way: list[str]) -> list[str]:
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return []
        found = next((cycle for after in sorted(graph.get(node, ())) if (cycle := walk(after, [*way, node]))), [])
        done.add(node)
        return found

    return next((cycle for node in sorted(graph) if (cycle := walk(node, []))), [])


def test_a_cycle_is_found():
    """Also behind nodes that are on none."""
    assert find_cycle({"a": {"b"}, "b": {"c", "d"}, "c": set(), "d": {"b"}}) == ["b", "d", "b"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_cycles_between_rooms_or_modules():
    """Every room, and every module, stands on others that do not stand on it."""
    modules = {".".join(("adaptd", *path.with_suffix("").parts)).removesuffix(".__init__") for path, _ in EDGES}
    graph: dict[str, set[str]] = {}
    for path, name in EDGES:
        me = ".".join(("adaptd", *path.with_suffix("").parts)).removesuffix(".__init__")
        imported = name if name in modules else name.rpartition(".")[0]
        if imported in modules and imported != me and not me.startswith(f"{imported}."):
            graph.setdefault(me, set()).add(imported)
    assert find_cycle(graph) == []
    rooms = {me: others - {me, "cli"} for me, others in MAY_IMPORT.items()}
    assert find_cycle(rooms) == []


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
    """Nothing is read or written that could run code; what others publish is read in one place, limited to tensors."""
    called = {
        (path, ast.unparse(node.func))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    }
    found = [(path.relative_to(PACKAGE), name) for path, name in called if name in {"torch.load", "torch.save"}]
    assert found == [(Path("learning/fetching.py"), "torch.load")]
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
    settings = {"adaptd.learning", "adaptd.learning.methods", *(f"adaptd.learning.{name}" for name in SETTINGS_OF_LEARNING)}
    assert not any(name.startswith(("adaptd.learning", "adaptd.store")) for name in loaded - settings)


def test_the_daemon_and_its_pages_load_no_torch():
    """The supervisor with everything it serves over HTTP, and the report."""
    rooms = "adaptd.daemon.supervisor, adaptd.observe.pictures, adaptd.observe.http, adaptd.observe.dashboard.report"
    program = f"import sys, json, {rooms}\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    loaded = set(json.loads(run.stdout))
    assert "jinja2" in loaded
    assert loaded & {"torch", "torchvision", "onnx", "onnxruntime", "alembic", "matplotlib"} == set()
