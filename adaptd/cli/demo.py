"""`adaptd demo`: the main job on real images, by the commands a user would type."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from adaptd.cli.progress import progress_bar
from adaptd.errors import ConfigError


def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to make it; a demo that is there is replaced.")] = Path(
        "demo-project"
    ),
) -> None:
    """Train a digit classifier, adapt it to three unlabelled domains, and show R. Needs `pip install 'adaptd[demo]'`."""
    marker = folder / ".adaptd-demo"
    if folder.exists():
        if not marker.exists():
            raise ConfigError(f"{folder} exists and is no demo: name another folder")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    marker.touch()
    targets = _write_data(folder / "pictures")
    _run("init", folder / "shop", "--backbone", "lenet")
    inside = ("--project", folder / "shop")
    _run(*inside, "source", "import", folder / "pictures" / "source")
    for target in targets:
        _run(*inside, "adapt", folder / "pictures" / target)
    _run(*inside, "matrix", "--plot", folder / "matrix.png")
    typer.echo(f"\nThe pictures, the project and a plot of R are in {folder}. Look around: adaptd --project {folder}/shop status")


def _write_data(folder: Path) -> tuple[str, ...]:
    try:
        from adaptd.bench.demo import TARGETS, write_demo_data
    except ModuleNotFoundError as problem:
        raise ConfigError(f"the demo needs {problem.name}: pip install 'adaptd[demo]'") from problem
    with progress_bar("writing pictures") as show:
        show(0, 1)
        write_demo_data(folder)
        show(1, 1)
    return TARGETS


def _run(*words: object) -> None:
    """Run a command as the user would, and show it."""
    texts = [str(word) for word in words]
    typer.secho(f"\n$ adaptd {shlex.join(texts)}", bold=True)
    code = subprocess.run([sys.executable, "-m", "adaptd.cli.main", *texts], check=False).returncode
    if code:
        raise typer.Exit(code)
