"""deploy/adaptd.service says of the daemon what the daemon does."""

import configparser
import shutil
import subprocess

import pytest

from adaptd.cli.daemon import LOCKED_SECONDS
from adaptd.daemon.supervisor import STOP_SECONDS, TURN_SECONDS
from adaptd.errors import ExitCode
from adaptd.project.settings import MetricsSettings
from tests.conftest import REPOSITORY

UNIT = REPOSITORY / "deploy" / "adaptd.service"


@pytest.fixture
def service() -> configparser.SectionProxy:
    """Its [Service] section."""
    unit = configparser.ConfigParser(interpolation=None, strict=False)  # some keys come more than once
    unit.optionxform = str
    unit.read(UNIT)
    return unit["Service"]


def test_it_fits_the_daemon(service):
    """Only the supervisor notifies; systemd waits longer than the daemon needs; wrong settings are not tried again."""
    assert (service["Type"], service["NotifyAccess"], service["KillMode"]) == ("notify", "main", "mixed")
    assert service["ExecReload"].endswith("kill -HUP $MAINPID")
    assert service["ExecStart"].endswith("/adaptd run")
    assert service["Restart"] == "on-failure"
    assert int(service["RestartPreventExitStatus"]) == ExitCode.CONFIGURATION
    # Each of a turn's few writes may wait for a locked database.
    assert int(service["WatchdogSec"]) > TURN_SECONDS + 10 * LOCKED_SECONDS
    assert int(service["TimeoutStopSec"]) > 2 * STOP_SECONDS
    assert service["OOMPolicy"] == "continue", "a worker that runs out of memory is an event, not the daemon's end"


def test_workers_may_do_what_they_do(service):
    """Memory that is written and run is torch's business: it is not forbidden."""
    assert "MemoryDenyWriteExecute" not in service
    assert "AF_UNIX" in service["RestrictAddressFamilies"]


def test_it_is_confined(service):
    """Room for connections and work, a limit for memory, no call that a daemon has no use for; systemd finds little exposed."""
    assert int(service["LimitNOFILE"]) >= 2 * (MetricsSettings().max_connections + 512)
    assert service["MemoryMax"].endswith("%")
    assert UNIT.read_text().count("\nSystemCallFilter=") == 3
    assert service["SystemCallErrorNumber"] == "EPERM", "a refused call is an error for who made it, not the end of the process"
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    words = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", UNIT]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_systemd_takes_it(tmp_path):
    """No unknown key, nothing misspelled."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    unit = tmp_path / "adaptd.service"
    # The program and its user are not installed here.
    unit.write_text(UNIT.read_text().replace("/usr/local/bin/adaptd", "/bin/true").replace("=adaptd\n", "=root\n"))
    run = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    complaints = [line for line in run.stderr.splitlines() if "adaptd.service" in line]
    assert (complaints, run.returncode) == ([], 0), run.stderr
