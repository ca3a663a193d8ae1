"""The wheel built from the repository works elsewhere, away from the repository."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).resolve().parents[1]


def test_the_wheel_runs_in_another_environment(tmp_path, monkeypatch):
    """init, db upgrade and status work from the installed wheel, with the migrations inside it.

    The new environment borrows the dependencies installed here (not adaptd itself), so that the test takes seconds.
    """
    monkeypatch.delenv("PYTHONPATH", raising=False)
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "dist", REPOSITORY]
    subprocess.run(build, check=True, capture_output=True, text=True)
    (wheel,) = (tmp_path / "dist").glob("adaptd-*.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", wheel], check=True, capture_output=True)
    site = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def adaptd(*words: object) -> str:
        command = [tmp_path / "venv" / "bin" / "adaptd", *map(str, words)]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path).stdout

    program = "import adaptd; print(adaptd.__file__)"
    where = subprocess.run([python, "-c", program], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert str(tmp_path) in where.stdout
    adaptd("init", "shop", "--backbone", "lenet")
    assert "revision" in adaptd("--project", "shop", "db", "upgrade")
    assert "not running" in adaptd("--project", "shop", "status")
    assert "wrote" in adaptd("--project", "shop", "report")  # templates and styles are in the wheel too
    (tmp_path / "shop" / "state" / "adaptd.db").unlink()
    assert "revision" in adaptd("--project", "shop", "db", "upgrade")
