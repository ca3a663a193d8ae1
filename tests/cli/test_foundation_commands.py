"""init, status, config, db, version and doctor, as a user types them; and what they say when something is wrong."""

import fcntl
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import jsonschema
import pytest

from adaptd.project.lock import hold_project
from adaptd.records import Accuracy, AccuracyKind, DomainState, GateDecision, NewImage, Progress, VersionState
from adaptd.store import NewEpisode, NewVersion, Store

REPOSITORY = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((REPOSITORY / "docs" / "schemas" / "status.json").read_text())


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def read_status(adaptd, project: Path) -> dict:
    """`status --json`, checked against the schema."""
    run = adaptd("--project", project, "status", "--json")
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    jsonschema.validate(document, SCHEMA)
    return document


def fill(project: Path) -> None:
    """A project in the middle of its life: source done, one domain adapted, one training, one failed."""
    with Store(f"sqlite:///{project}/state/adaptd.db") as store, store.writing() as tx:
        for name, state in (("source", "done"), ("night", "done"), ("rain", "training"), ("fog", "failed")):
            domain = tx.domains.add(name, DomainState(state))
            tx.images.add_many(domain.id, [NewImage(f"{n:064}", 1, f"{n}.png") for n in range(5)])
            episode = tx.episodes.add(NewEpisode(domain.id, "grcl", 0, {}, "0" * 64))
            lease = tx.episodes.lease(episode.id, "worker", "boot", 1.0)
            tx.episodes.progress(episode.id, lease, Progress("training", 21, 50))
            if state == "failed":
                tx.domains.set_state(domain.id, DomainState.FAILED, "killed three times")
                tx.episodes.fail(episode.id, lease, "killed three times")
            if state == "done":
                tx.domains.place(domain.id)
                tx.episodes.commit(episode.id, lease, {})
                version = tx.versions.add(NewVersion(None, episode.id, ("a", "b"), "w", "0" * 64)).version
                tx.versions.set_gate(version, GateDecision(passed=True, reasons=()))
                tx.versions.set_state(version, VersionState.PROMOTED)
        tx.accuracies.record(Accuracy(1, 1, AccuracyKind.MEASURED, 0.9, 10, correct=9))
        tx.accuracies.record(Accuracy(2, 1, AccuracyKind.MEASURED, 0.8, 10, correct=8))
        tx.accuracies.record(Accuracy(2, 2, AccuracyKind.ESTIMATED, 0.7, 10, estimator="atc"))


class TestInit:
    def test_it_makes_a_project_that_holds(self, adaptd, tmp_path):
        """Folders, settings and database are there, and every other command accepts them."""
        folder = tmp_path / "My Shop"
        run = adaptd("init", folder, "--name", "shop", "--backbone", "lenet", "--classes", "cat,dog")
        assert (run.returncode, run.stderr) == (0, "")
        assert sorted(path.name for path in folder.iterdir()) == ["adaptd.toml", "inbox", "models", "state"]
        settings = json.loads(adaptd("--project", folder, "config", "show", "--json").stdout)["settings"]
        assert settings["model"]["name"] == "shop"
        assert settings["model"]["classes"] == ["cat", "dog"]
        assert settings["model"]["image_size"] == 32
        assert settings["augmentation"]["horizontal_flip"] is False
        assert adaptd("--project", folder, "db", "check").stdout == "database is clean\n"

    def test_a_number_of_classes_names_them(self, adaptd, tmp_path):
        """--classes 3 means 0, 1 and 2."""
        adaptd("init", tmp_path / "p", "--classes", "3", "--weights", "none")
        assert 'classes = ["0", "1", "2"]' in (tmp_path / "p" / "adaptd.toml").read_text()

    def test_the_image_size_is_the_persons(self, adaptd, tmp_path):
        """--image-size is stronger than what goes with the backbone, and one that cannot be is refused."""
        assert adaptd("init", tmp_path / "p", "--backbone", "lenet5", "--image-size", "48").returncode == 0
        assert "\nimage_size = 48\n" in (tmp_path / "p" / "adaptd.toml").read_text()
        refused = adaptd("init", tmp_path / "q", "--backbone", "lenet5", "--image-size", "0")
        assert (refused.returncode, (tmp_path / "q").exists()) == (5, False)
        assert "image_size" in refused.stderr

    def test_an_existing_project_is_left_alone(self, adaptd, project):
        """A second init changes nothing."""
        before = tree(project)
        run = adaptd("init", project)
        assert run.returncode == 5
        assert "is a project already" in run.stderr
        assert tree(project) == before

    def test_a_bad_name_makes_nothing(self, adaptd, tmp_path):
        """Settings are checked before anything is written."""
        run = adaptd("init", tmp_path / "p", "--name", "Not A Name")
        assert run.returncode == 5
        assert "[model] name = 'Not A Name'" in run.stderr
        assert not (tmp_path / "p").exists()

    @pytest.mark.parametrize(
        ("folder", "name"),
        [("My Shop", "my-shop"), ("Überladen", "uberladen"), ("店", "classifier"), ("-x", "x"), ("a" * 99, "a" * 63)],
    )
    def test_any_folder_gives_a_name(self, adaptd, tmp_path, folder, name):
        """The model is named after the folder as nearly as names allow."""
        run = adaptd("init", tmp_path / folder, "--weights", "none")
        assert run.returncode == 0, run.stderr
        assert f'name = "{name}"' in (tmp_path / folder / "adaptd.toml").read_text()

    @pytest.mark.parametrize("folder", ["what?", "100%41", "a#b", "two words", "b\udcff"])
    def test_a_project_stays_inside_its_folder(self, adaptd, tmp_path, folder):
        """Whatever the folder is called, everything is in it and every command works."""
        run = adaptd("init", tmp_path / folder, "--weights", "none")
        assert run.returncode == 0, run.stderr
        for words in (["status"], ["status", "--json"], ["db", "check"], ["db", "backup"], ["config", "show", "--origin"]):
            run = adaptd("--project", tmp_path / folder, *words)
            assert (run.returncode, run.stderr) == (0, ""), words
        assert list(tmp_path.iterdir()) == [tmp_path / folder]
        assert (tmp_path / folder / "state" / "adaptd.db").is_file()

    def test_a_detour_makes_no_folders(self, adaptd, tmp_path):
        """`a/../b` makes b only."""
        assert adaptd("init", "a/../b", "--weights", "none", cwd=tmp_path).returncode == 0
        assert [path.name for path in tmp_path.iterdir()] == ["b"]

    def test_a_backbone_brings_its_trained_weights(self, adaptd, tmp_path):
        """The weights and the images that they were made for are in the settings, and doctor knows where they are."""
        run = adaptd("init", tmp_path / "p", "--backbone", "efficientnet_lite0")
        assert "starts from the package's weights for efficientnet_lite0, which are on this machine" in run.stdout
        model = json.loads(adaptd("--project", tmp_path / "p", "config", "show", "--json").stdout)["settings"]["model"]
        assert (model["weights"], model["image_size"], model["mean"]) == ("package", 224, [0.498] * 3)

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--weights", "absent.safetensors"], "there is no weights file"),
            (["--weights", "timm"], "timm has no weights for resnet18: say --weights torchvision"),
            (["--backbone", "lenet", "--weights", "torchvision"], "say --weights none"),
            (["--backbone", "lenet6"], "there is no backbone named 'lenet6': did you mean lenet"),
            (["--backbone", "resnet19", "--weights", "none"], "there is no backbone named 'resnet19': did you mean resnet18"),
            ([], "start from random weights (--weights none), or choose the backbone efficientnet_lite0"),
        ],
    )
    def test_without_weights_nothing_is_made(self, adaptd, tmp_path, words, message):
        """What cannot be had is said with its remedy; the last case is a machine without a network."""
        offline = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
        folders = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "TORCH_HOME": str(tmp_path / "torch")}
        run = adaptd("init", tmp_path / "p", *words, env=offline | folders)
        assert run.returncode in {1, 5}
        assert message in run.stderr
        assert run.stderr.count("\n") == 1
        assert list(tmp_path.iterdir()) == []

    def test_a_file_in_the_way(self, adaptd, tmp_path):
        """No traceback where the folder cannot be made."""
        (tmp_path / "p").write_text("")
        run = adaptd("init", tmp_path / "p" / "q", "--weights", "none")
        assert run.returncode == 1
        assert run.stderr.count("\n") == 1


class TestStatus:
    def test_an_empty_project(self, adaptd, project):
        """Valid, stopped, nothing there; and a person is told what to do next."""
        document = read_status(adaptd, project)
        daemon = document["daemon"]
        assert (daemon["running"], daemon["pid"], daemon["command"], daemon["state"]) == (False, None, None, "stopped")
        assert "adaptd source import DIR" in daemon["warnings"][0]
        assert (document["queue"], document["episode"], document["served"]) == ([], None, None)
        assert "adaptd adapt DIR" in adaptd("--project", project, "status").stdout
        (project / "inbox" / "camera").mkdir()
        assert (
            "1 folder in the inbox, and no daemon to take what is new: start `adaptd run`"
            in (read_status(adaptd, project)["daemon"]["warnings"])
        )

    def test_a_project_in_the_middle_of_its_life(self, adaptd, project):
        """Queue, episode, served version and R say what the store knows."""
        fill(project)
        document = read_status(adaptd, project)
        assert [item["domain"] for item in document["queue"]] == ["night", "rain", "fog"]
        assert (document["episode"]["number"], document["episode"]["domain"]) == (2, "rain")
        assert document["episode"]["progress"] == pytest.approx(0.42)
        assert document["served"]["version"] == 2
        assert document["matrix"]["domains"] == ["source", "night"]
        assert document["matrix"]["R"] == [[0.9, None], [0.8, 0.7]]
        assert document["matrix"]["kind"] == [["measured", None], ["measured", "estimated"]]
        assert document["metrics"]["acc"] == pytest.approx(0.75)
        assert document["metrics"]["bwt"] is None
        assert "domain fog failed: killed three times" in document["daemon"]["warnings"]
        text = adaptd("--project", project, "status").stdout
        assert "source measured 80.0% on 10 images\n" in text
        assert "night estimated 70.0% on 10 images it learned from\n" in text
        assert "episode  2 on rain: " in text
        assert "21/50" in text
        assert "episode 2 on rain was interrupted" in " ".join(text.split())

    def test_a_running_daemon_is_seen_by_its_lock(self, adaptd, project):
        """The lock, not the file, says that a daemon runs."""
        lock = project / "state" / "daemon.lock"
        lock.write_text("4711 run")
        assert adaptd("--project", project, "status", "--exit-code").returncode == 3
        with lock.open() as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            assert read_status(adaptd, project)["daemon"]["pid"] == 4711
            assert adaptd("--project", project, "status", "--exit-code").returncode == 0

    def test_a_source_that_is_being_imported_is_not_asked_for(self, adaptd, project):
        """There is none yet, but somebody is at it."""
        with hold_project(project / "state", "source import"):
            daemon = read_status(adaptd, project)["daemon"]
        assert (daemon["running"], daemon["command"], daemon["warnings"]) == (False, "source import", [])

    def test_what_a_drop_waits_for_is_its_reason(self, adaptd, project):
        """The daemon knows it, and tells it through its lock."""
        with Store(f"sqlite:///{project}/state/adaptd.db") as store, store.writing() as tx:
            tx.domains.add("camera", DomainState.ARRIVING)
        with hold_project(project / "state", "run") as lock:
            lock.write_health({"state": "idle", "warnings": [], "waiting": {"camera": "waiting for temporary file 'x.part'"}})
            (item,) = read_status(adaptd, project)["queue"]
        assert item["reason"] == "waiting for temporary file 'x.part'"

    def test_why_the_gate_let_it_pass(self, adaptd, project):
        """What is served tells it, or who overruled the gate."""
        fill(project)
        with Store(f"sqlite:///{project}/state/adaptd.db") as store, store.writing() as tx:
            tx.versions.set_gate(2, GateDecision(passed=True, reasons=("On the source: within chance.", "On night: no loss.")))
        assert read_status(adaptd, project)["served"]["gate"]["reasons"][1] == "On night: no loss."
        text = adaptd("--project", project, "status").stdout
        assert "gate     On the source: within chance.\n         On night: no loss.\n" in text
        told = adaptd("versions", "--project", project, env={"COLUMNS": "200"}).stdout
        assert "On the source: within chance. (and 1 more: adaptd explain)" in told

    def test_the_project_is_found_from_inside(self, adaptd, project):
        """Any folder of the project will do as working directory."""
        assert adaptd("status", cwd=project / "inbox").returncode == 0

    def test_the_project_may_be_named_after_the_command(self, adaptd, project, tmp_path):
        """Nearest to the end wins; in groups of commands, too."""
        assert adaptd("status", "--project", project, cwd=tmp_path).returncode == 0
        assert adaptd("--project", tmp_path, "quarantine", "list", "--project", project, cwd=tmp_path).returncode == 0
        assert adaptd("status", "--project", tmp_path, cwd=project).returncode == 5

    def test_markup_in_names_is_shown_as_it_is(self, adaptd, project):
        """A reason with brackets is text, not style."""
        with Store(f"sqlite:///{project}/state/adaptd.db") as store, store.writing() as tx:
            tx.domains.set_state(tx.domains.add("fog", DomainState.FAILED).id, DomainState.FAILED, "[red]x[/nope]")
        assert "[red]x[/nope]" in adaptd("--project", project, "status").stdout


def test_a_plain_terminal_gets_question_marks(adaptd_from_the_start, project):
    """No arrow and no umlaut is worth a traceback."""
    with Store(project / "state" / "adaptd.db") as store, store.writing() as tx:
        tx.domains.set_state(tx.domains.add("fog", DomainState.FAILED).id, DomainState.FAILED, "naïve → wrong")
    run = adaptd_from_the_start("--project", project, "status", env={"PYTHONIOENCODING": "ascii"})
    assert (run.returncode, run.stderr) == (0, "")
    assert "na?ve ? wrong" in run.stdout


class TestConfig:
    def test_origins_are_shown(self, adaptd, project):
        """A value from the environment is marked as such."""
        run = adaptd("--project", project, "config", "show", "--json", "--origin", env={"ADAPTD_TRAINING__EPOCHS": "3"})
        document = json.loads(run.stdout)
        assert document["settings"]["training"]["epochs"] == 3
        assert document["origins"]["training.epochs"] == "ADAPTD_TRAINING__EPOCHS"
        text = adaptd("--project", project, "config", "show", "--origin", env={"COLUMNS": "200"}).stdout
        assert "training.epochs" in text

    def test_check(self, adaptd, project):
        """Fine is said with the hash; broken exits 5 with every problem."""
        assert "fine, hash" in adaptd("--project", project, "config", "check").stdout
        (project / "adaptd.toml").write_text("[training]\nepoch = 1\nseed = 'x'\n")
        run = adaptd("--project", project, "config", "check")
        assert run.returncode == 5
        assert len(run.stderr.splitlines()) == 2


class TestDatabase:
    def test_upgrade_makes_what_is_missing(self, adaptd, project):
        """A project whose database was lost is told the command, and the command makes one."""
        for file in (project / "state").glob("adaptd.db*"):
            file.unlink()
        run = adaptd("--project", project, "status")
        assert (run.returncode, "adaptd db upgrade" in run.stderr) == (1, True)
        assert adaptd("--project", project, "db", "upgrade").returncode == 0
        assert adaptd("--project", project, "status").returncode == 0

    def test_backup(self, adaptd, project):
        """A copy lands in state/backups and is a database."""
        run = adaptd("--project", project, "db", "backup")
        copy = Path(run.stdout.split("backed up to ")[1].strip())
        with closing(sqlite3.connect(copy)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)

    def test_a_damaged_database_is_not_backed_up(self, adaptd, project):
        """A copy that could not be restored is no backup: nothing is left of it."""
        file = project / "state" / "adaptd.db"
        content = bytearray(file.read_bytes())
        content[4096 * 3 : 4096 * 12] = b"\xaa" * (4096 * 9)
        file.write_bytes(content)
        run = adaptd("--project", project, "db", "backup")
        assert (run.returncode, run.stdout) == (1, "")
        assert run.stderr.startswith("adaptd: ")
        assert list((project / "state" / "backups").glob("*")) == []

    def test_a_backup_without_room(self, adaptd_from_the_start, project):
        """One message, and no half copy."""
        import resource

        run = adaptd_from_the_start(
            "--project", project, "db", "backup", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        )
        assert run.returncode == 1
        assert "cannot be backed up" in run.stderr
        assert run.stderr.count("\n") == 1
        assert list((project / "state" / "backups").glob("*")) == []

    def test_a_folder_where_the_database_should_be(self, adaptd, project):
        """The remedy is not the command that just failed."""
        (project / "state" / "adaptd.db").unlink()
        (project / "state" / "adaptd.db").mkdir()
        assert "move it aside" in adaptd("--project", project, "db", "upgrade").stderr

    @pytest.mark.parametrize(
        "words", [["status"], ["db", "upgrade"], ["db", "check"], ["config", "show"], ["config", "show", "--json"]]
    )
    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://u:secret@localhost:1/x",
            "postgresql://u@localhost:1/x?password=secret",
            "postgresql://u:secret@localhost:port/x",
            "mysql://u:secret@h/x",
        ],
    )
    def test_passwords_are_never_printed(self, adaptd, project, words, url):
        """Not in settings, not in errors; and an error is one line."""
        run = adaptd("--project", project, *words, env={"ADAPTD_DATABASE__URL": url})
        assert "secret" not in run.stdout + run.stderr
        assert len(run.stderr.splitlines()) == (run.returncode != 0)

    def test_upgrades_at_the_same_time_take_turns(self, empty_address):
        """All of them end well, on both engines."""
        program = f"from pathlib import Path; from adaptd.store.migrate import upgrade; upgrade({empty_address!r}, Path('/none'))"
        command = [sys.executable, "-c", program]
        runs = [subprocess.Popen(command, stderr=subprocess.PIPE, cwd=REPOSITORY) for _ in range(4)]
        assert [run.communicate(timeout=60)[1] for run in runs] == [b""] * 4

    def test_postgresql_by_url(self, adaptd, project, postgres):
        """The same commands on PostgreSQL."""
        import psycopg

        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute("CREATE DATABASE shop")
        url = {"env": {"ADAPTD_DATABASE__URL": postgres.replace("/postgres?", "/shop?")}}
        refused = adaptd("--project", project, "status", **url)
        assert (refused.returncode, "adaptd db upgrade" in refused.stderr) == (1, True)
        assert adaptd("--project", project, "db", "upgrade", **url).returncode == 0
        assert adaptd("--project", project, "status", **url).returncode == 0
        assert adaptd("--project", project, "db", "check", "--json", **url).returncode == 0


def future(project: Path) -> None:
    """A database of a revision that does not exist yet."""
    with closing(sqlite3.connect(project / "state" / "adaptd.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()


FAULTS = {
    "broken TOML": (lambda project: (project / "adaptd.toml").write_text("[training"), 5, "not valid TOML"),
    "unknown key": (lambda project: (project / "adaptd.toml").write_text("[training]\nepoch = 1"), 5, "did you mean epochs"),
    "missing project": (lambda project: (project / "adaptd.toml").unlink(), 5, "adaptd init"),
    "future database": (future, 1, "install the adaptd that wrote it"),
    "no database": (lambda project: (project / "state" / "adaptd.db").write_text("a letter" * 99), 1, "move the file aside"),
    "lost database": (lambda project: (project / "state" / "adaptd.db").unlink(), 1, "adaptd db upgrade"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_one_clear_message(adaptd_from_the_start, project, fault):
    """The fact and the remedy, the right exit code, no traceback, nothing changed on disk."""
    spoil, code, remedy = FAULTS[fault]
    spoil(project)
    before = tree(project)
    run = adaptd_from_the_start("--project", project, "status")
    assert run.returncode == code, run.stderr
    assert remedy in run.stderr
    assert "Traceback" not in run.stderr
    assert run.stderr.startswith("adaptd: ")
    assert tree(project) == before


def test_an_unwritable_folder(tmp_path):
    """Init where one may not write: one message, exit 1."""
    tmp_path.chmod(0o555)
    # Root may write anywhere, unless it gives that right away.
    lower = ["setpriv", "--bounding-set", "-dac_override"] if os.geteuid() == 0 else []
    command = [*lower, sys.executable, "-m", "adaptd.cli.main", "init", tmp_path / "p", "--weights", "none"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    tmp_path.chmod(0o755)
    assert run.returncode == 1
    assert run.stderr.startswith("adaptd: ")
    assert "writable" in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_version_and_help(adaptd):
    """The version is the package's; help names the commands; a typing mistake is usage."""
    from adaptd import __version__

    assert adaptd("version").stdout == f"adaptd {__version__}\n"
    assert json.loads(adaptd("version", "--json").stdout)["version"] == __version__
    assert adaptd("--version").stdout == f"adaptd {__version__}\n"
    text = adaptd("--help").stdout
    places = [
        text.index(word) for word in ("Begin, and bring images", " init ", "Ways back", " doctor ", "Try and compare", " demo ")
    ]
    assert places == sorted(places)
    assert "<bool>" not in text + adaptd("run", "--help").stdout + adaptd("labels", "import", "--help").stdout
    assert adaptd("statsu").returncode == 2


def test_doctor_finds_what_is_wrong(adaptd, project):
    """A healthy project has nothing to mend; a lost folder is named with its remedy."""
    healthy = adaptd("--project", project, "doctor", "--json")
    levels = {item["name"]: item["level"] for item in json.loads(healthy.stdout)["findings"]}
    assert "fail" not in levels.values(), healthy.stdout
    assert {
        "training",
        "trained weights",
        "first weights",
        "sqlite",
        "threads",
        "disk",
        "database",
        "models folder",
        "serving port",
        "training device",
        "serving device",
        "promoted version",
    } <= set(levels)
    (project / "inbox").rmdir()
    wrong = {"ADAPTD_SERVING__HOST": "x" * 300, "ADAPTD_MODEL__BACKBONE": "lennet5", "COLUMNS": "1000"}
    wrong |= {"ADAPTD_TRAINING__DEVICE": "cuda:77", "ADAPTD_SERVING__DEVICE": "mps"}
    run = adaptd("--project", project, "doctor", env=wrong)
    assert run.returncode == 1
    assert "mkdir -p" in run.stdout
    assert "set serving.host" in run.stdout
    assert "there is no backbone named 'lennet5': did you mean lenet5" in run.stdout
    assert "training.device is cuda:77, but torch sees" in run.stdout
    assert "serving.device is mps, but this ONNX Runtime runs on" in run.stdout
    refused = adaptd("--project", project, "serve", env={"ADAPTD_SERVING__DEVICE": "mps", "ADAPTD_SERVING__PORT": "0"})
    assert (refused.returncode, "serving.device is mps" in refused.stderr) == (5, True)
    checked = adaptd("--project", project, "config", "check", env=wrong)
    assert (checked.returncode, "did you mean lenet5" in checked.stderr) == (5, True)
