"""Versions from the command line: what is published, what is refused and why, going forward and back, and what is told."""

import json
import shutil
import time
from pathlib import Path

import jsonschema
import pytest
from PIL import Image

from adaptd.publishing.card import read_card
from adaptd.records import DomainState
from adaptd.store import Store

REPOSITORY = Path(__file__).resolve().parents[2]

SCHEMA = json.loads((REPOSITORY / "docs" / "schemas" / "versions.json").read_text())
WRECK = {"ADAPTD_TRAINING__LEARNING_RATE": "3", "ADAPTD_TRAINING__MAX_LOST_CLASSES": "1"}
"""Five hundred times the rate that goes with this network, and nobody stops it when it collapses."""

INT8 = {"ADAPTD_EXPORT__QUANTIZE": "true", "ADAPTD_EXPORT__QUANTIZED_MAX_LOSS": "1"}


def versions(shop) -> list[dict]:
    """`versions --json`, checked against its schema."""
    found = json.loads(shop.does("versions", "--json").stdout)
    jsonschema.validate(found, SCHEMA)
    return found["versions"]


def card(shop, version: int, name: str = "shop"):
    """The card of a published version."""
    return read_card(shop.root / "models" / name / str(version))


def is_clean(shop) -> bool:
    """`fsck` finds nothing, nothing lies about, and the folder holds exactly the promoted versions."""
    run = shop.run("fsck", "--json")
    assert (run.returncode, json.loads(run.stdout)["findings"]) == (0, [])
    assert shop.leftovers() == []
    promoted = {v["version"]: v["sha256"] for v in versions(shop) if v["state"] == "promoted"}
    assert shop.published() == promoted
    assert max(promoted) == shop.status()["served"]["version"]
    return True


@pytest.fixture(scope="session")
def dusk(tmp_path_factory, paint) -> Path:
    """Another domain, with a labelled test set."""
    folder = paint(tmp_path_factory.mktemp("data") / "dusk", 20, seed=3, shift=15, flat=True)
    paint(folder / "_test", 4, seed=4, shift=15)
    return folder


@pytest.fixture(scope="session")
def _wrecked(tmp_path_factory, _adapted_shop, dusk):
    shop = _adapted_shop.copy(tmp_path_factory.mktemp("wrecked") / "shop")
    shop.said = shop.does("adapt", dusk, env=WRECK).stdout
    return shop


@pytest.fixture
def wrecked(_wrecked, tmp_path):
    """Version 3, on dusk, was rejected."""
    shop = _wrecked.copy(tmp_path / "shop")
    shop.said = _wrecked.said
    return shop


class TestPublishing:
    def test_every_episode_gives_a_version(self, adapted_shop):
        """The source version 1, the first domain version 2; each with a card, under one configuration for Triton."""
        first, second = versions(adapted_shop)
        assert [first["state"], second["state"]] == ["promoted", "promoted"]
        assert (first["parent"], second["parent"], second["served"]) == (None, 1, True)
        assert (first["domain"], second["domain"], second["episode"]) == ("source", "night", 1)
        for item in (first, second):
            told = card(adapted_shop, item["version"])
            assert Path(item["path"]) == adapted_shop.root / "models" / "shop" / str(item["version"])
            assert (told.model_sha256, told.weights_sha256) == (item["sha256"], item["weights_sha256"])
            assert list(told.gate.reasons) == item["gate"]["reasons"]
            assert told.classes == ("a", "b", "c")
            assert told.parity.max_error <= 1e-4
        assert [step.version for step in card(adapted_shop, 2).lineage] == [1]
        assert {entry.domain: entry.kind for entry in card(adapted_shop, 2).row} == {"source": "measured", "night": "measured"}
        config = (adapted_shop.root / "models" / "shop" / "config.pbtxt").read_text()
        assert 'name: "shop"' in config
        assert "dims: [ 3, 16, 16 ]" in config
        assert is_clean(adapted_shop)

    def test_a_file_that_cannot_be_proven_is_rejected(self, shop, night):
        """No export is within 1e-12 of torch: the episode counts, its version is rejected with the figures, the old one stays."""
        shop.does("adapt", night, env={"ADAPTD_EXPORT__PARITY_TOLERANCE": "1e-12"})
        rejected = versions(shop)[-1]
        assert rejected["state"] == "rejected"
        assert "does not answer as the model does" in rejected["gate"]["reasons"][0]
        assert "does not answer as the model does" in shop.status()["daemon"]["warnings"][0]
        assert is_clean(shop)
        shop.does("promote", 2)
        assert is_clean(shop)

    @pytest.mark.long
    def test_not_even_a_person_publishes_what_cannot_be_proven(self, wrecked):
        """`promote --force` overrules the gate, not the proof."""
        words = ("promote", 3, "--force", "--why", "I like it")
        refused = wrecked.refuses(*words, env={"ADAPTD_EXPORT__PARITY_TOLERANCE": "1e-12"})
        assert "version 3 cannot be published: model.onnx" in refused
        assert "--force" not in refused
        wrecked.does(*words)
        assert is_clean(wrecked)

    def test_what_others_put_there_is_not_published_over(self, shop, night):
        """A folder with a larger number would be served instead: the version is rejected before it counts, with the remedy."""
        stray = shop.root / "models" / "shop" / "7"
        stray.mkdir()
        shop.does("adapt", night)
        assert versions(shop)[-1]["gate"]["reasons"][0] == f"{stray} would be served instead of version 2: move it away"
        stray.rmdir()
        shop.does("promote", 2)
        assert is_clean(shop)


class TestTheGate:
    def test_a_wrecked_model_is_rejected_and_told_everywhere(self, wrecked):
        """Status, versions, explain and the command say why; what is served does not change, and no memory is kept."""
        *_, before, rejected = versions(wrecked)
        assert (before["served"], rejected["state"], rejected["path"], rejected["sha256"]) == (True, "rejected", None, None)
        reason = rejected["gate"]["reasons"][0]
        assert "On the source" in reason
        assert reason in wrecked.said
        status = wrecked.status()
        assert status["served"]["version"] == 2
        assert f"version 3 was rejected, version 2 goes on: {reason}" in status["daemon"]["warnings"]
        assert [d["reason"] for d in status["queue"] if d["domain"] == "dusk"] == [f"version 3 was rejected: {reason}"]
        lines = wrecked.does("status").stdout
        assert "serves   version 2 since" in lines
        assert "! version 3 was rejected, version 2 goes on" in lines
        told = wrecked.does("explain", "dusk").stdout
        assert f"version 3: rejected, gate failed; {reason}" in told
        assert "0 kept in memory" in told
        assert wrecked.rows("SELECT count(*) FROM memories JOIN domains ON domain_id = domains.id WHERE name = 'dusk'") == [(0,)]
        assert is_clean(wrecked)

    def test_a_rejected_domain_is_rejected_and_may_try_another_way(self, wrecked):
        """Not `done`; the same again is refused, other settings give another episode; forced by a person, it is done."""
        assert [d["state"] for d in wrecked.status()["queue"]] == ["done", "rejected"]
        document = json.loads(wrecked.does("explain", "dusk", "--json").stdout)
        assert (document["state"], document["episodes"][0]["state"]) == ("rejected", "done")
        assert document["episodes"][0]["outcome"] == "rejected"
        assert "would end as before" in wrecked.refuses("retry", "dusk", env=WRECK)
        said = wrecked.does("retry", "dusk", "--method", "grcl", "--set", "training.epochs=2", env=WRECK).stdout
        assert said == "dusk gets another episode by grcl with method.name=grcl, training.epochs=2\n"
        ((config,),) = wrecked.rows("SELECT config FROM episodes WHERE state = 'queued' AND method = 'grcl' AND delivery = 1")
        assert json.loads(config)["training"]["epochs"] == 2
        wrecked.does("cancel", "dusk")
        wrecked.does("promote", 3, "--force", "--why", "I like it")
        with Store(wrecked.state / "adaptd.db") as store, store.writing() as tx:
            dusk = tx.domains.get_named("dusk")
            tx.domains.set_state(dusk.id, DomainState.REJECTED)
            assert tx.domains.get_named("dusk").state is DomainState.DONE

    def test_the_next_episode_begins_with_the_promoted_version(self, wrecked, tmp_path, paint):
        """Not with the rejected one; and a second delivery that is rejected leaves the memory of the first alone."""
        more = paint(tmp_path / "night", 20, seed=9, shift=30, flat=True)
        memory = wrecked.rows("SELECT * FROM memories")
        wrecked.does("adapt", more, env=WRECK)
        assert wrecked.rows("SELECT base FROM episodes ORDER BY id DESC LIMIT 1") == [(2,)]
        assert versions(wrecked)[-1]["state"] == "rejected"
        assert wrecked.rows("SELECT * FROM memories") == memory
        assert is_clean(wrecked)
        wrecked.does("gc", "--yes")
        assert is_clean(wrecked)

    def test_only_a_person_with_a_reason_overrules_it(self, wrecked):
        """Refused with reasons and remedy; --force alone is a usage error; with --why it is promoted, and that is recorded."""
        refused = wrecked.refuses("promote", 3)
        assert "On the source, measured accuracy went from" in refused
        assert refused.endswith("To overrule the gate: adaptd promote 3 --force --why REASON")
        run = wrecked.run("promote", 3, "--force")
        assert (run.returncode, "--force --why REASON" in run.stderr) == (2, True)
        assert versions(wrecked)[-1]["state"] == "rejected"
        assert wrecked.does("promote", 3, "--force", "--why", "the customer asked").stdout == "version 3 is promoted\n"
        forced = versions(wrecked)[-1]
        assert (forced["served"], forced["gate"]["passed"], forced["forced_because"]) == (True, False, "the customer asked")
        assert card(wrecked, 3).forced_because == "the customer asked"
        events = wrecked.rows("SELECT message FROM events WHERE kind = 'version-forced'")
        assert events == [("the customer asked",)]
        assert "rejected" not in " ".join(wrecked.status()["daemon"]["warnings"])
        assert is_clean(wrecked)
        assert wrecked.refuses("promote", 3) == "adaptd: version 3 is the promoted one already"
        wrecked.does("rollback")
        assert versions(wrecked)[-1]["restores"] == 2

    def test_a_rollback_during_training_wins(self, shop, night):
        """What was trained on a version that is no longer served is rejected, with that reason."""
        shop.does("adapt", night, env={"ADAPTD_TRAINING__EPOCHS": "1"})
        process = shop.start("adapt", night.parent / "night", "--domain", "again", "--epochs", 30)
        query = "SELECT count(*) FROM checkpoints"
        while shop.rows(query) == [(0,)]:
            assert process.is_running(), process.wait().stderr
            time.sleep(0.01)
        shop.does("rollback")
        run = process.wait()
        assert run.returncode == 0, run.stderr
        second, third, fourth = versions(shop)[1:]
        assert (third["restores"], third["served"]) == (1, True)
        assert fourth["state"] == "rejected"
        assert fourth["gate"]["reasons"][0] == "It follows version 2, and version 3 was promoted while it was trained."
        assert is_clean(shop)
        assert second["state"] == "promoted"


class TestGoingBack:
    def test_one_step_after_the_other(self, adapted_shop, dusk):
        """Along what was served, under ever larger numbers; what came after a rollback goes back to what it came from."""
        adapted_shop.does("adapt", dusk)
        assert adapted_shop.does("rollback").stdout == "version 4 is promoted: the weights of version 2\n"
        assert adapted_shop.does("rollback").stdout == "version 5 is promoted: the weights of version 1\n"
        refused = adapted_shop.refuses("rollback")
        assert "nothing was promoted before version 1, whose weights are served" in refused
        assert "adaptd rollback N" in refused
        assert adapted_shop.does("rollback", 3).stdout == "version 6 is promoted: the weights of version 3\n"
        assert adapted_shop.does("rollback").stdout == "version 7 is promoted: the weights of version 1\n"
        found = versions(adapted_shop)
        assert [v["version"] for v in found] == [1, 2, 3, 4, 5, 6, 7]
        assert [v["parent"] for v in found] == [None, 1, 2, 3, 4, 5, 6]
        assert card(adapted_shop, 7).restores == 1
        assert card(adapted_shop, 7).weights_sha256 == card(adapted_shop, 1).weights_sha256
        assert is_clean(adapted_shop)
        for number in (1, 5, 7):
            assert "already" in adapted_shop.refuses("rollback", number)
        assert adapted_shop.refuses("rollback", 9) == "adaptd: there is no version 9: there are 1, 2, 3, 4, 5, 6, 7"

    def test_a_rejected_version_is_no_place_to_go_back_to(self, wrecked):
        """The message names the command that can."""
        assert "adaptd promote 3 --force --why REASON" in wrecked.refuses("rollback", 3)

    def test_retired_versions_come_back(self, adapted_shop):
        """Two are kept in the folder, all of them in the store; one whose folder is gone is exported again."""
        keep = {"ADAPTD_EXPORT__KEEP_VERSIONS": "2"}
        adapted_shop.does("rollback", env=keep)
        assert [v["state"] for v in versions(adapted_shop)] == ["retired", "promoted", "promoted"]
        assert versions(adapted_shop)[0]["path"] is None
        adapted_shop.does("rollback", 2, env=keep)
        assert [v["state"] for v in versions(adapted_shop)] == ["retired", "retired", "promoted", "promoted"]
        assert adapted_shop.does("rollback", 1, env=keep).stdout == "version 5 is promoted: the weights of version 1\n"
        assert sorted(adapted_shop.published()) == [4, 5]
        assert is_clean(adapted_shop)


class TestInt8:
    def test_it_stands_beside_its_version(self, adapted_shop):
        """Under its own name, with its own card and figures; retention does not take the last one from its clients."""
        keep = {"ADAPTD_EXPORT__KEEP_VERSIONS": "1"}
        adapted_shop.does("rollback", env=INT8)
        told = card(adapted_shop, 3, "shop-int8")
        assert (told.model, told.version, told.parity.exporter) == ("shop-int8", 3, "int8")
        assert told.quantization.n == 12
        assert told.model_sha256 != card(adapted_shop, 3).model_sha256
        assert versions(adapted_shop)[-1]["int8"] == {
            "passed": True, "reasons": list(told.gate.reasons), "sha256": told.model_sha256
        }  # fmt: skip
        assert is_clean(adapted_shop)
        adapted_shop.does("rollback", 2, env=keep)
        assert sorted(adapted_shop.published()) == [4]
        assert [path.name for path in (adapted_shop.root / "models" / "shop-int8").glob("[0-9]*")] == ["3"]
        assert is_clean(adapted_shop)

    def test_one_that_is_refused_is_explained(self, adapted_shop):
        """The version itself is published all the same."""
        stray = adapted_shop.root / "models" / "shop-int8" / "9"
        stray.mkdir(parents=True)
        adapted_shop.does("rollback", env=INT8)
        told = versions(adapted_shop)[-1]["int8"]
        assert told == {
            "passed": False, "reasons": [f"{stray} would be served instead of version 3: move it away"], "sha256": None
        }  # fmt: skip
        shutil.rmtree(stray.parent)
        assert is_clean(adapted_shop)

    def test_damage_is_found(self, adapted_shop):
        """`fsck` looks at int8 models as it looks at versions."""
        adapted_shop.does("rollback", env=INT8)
        flip(adapted_shop.root / "models" / "shop-int8" / "3" / "model.onnx")
        findings = json.loads(adapted_shop.run("fsck", "--json").stdout)["findings"]
        assert [finding["invariant"] for finding in findings] == ["I3"]
        assert "shop-int8/3/model.onnx is not the file its card tells of" in findings[0]["what"]


def flip(path: Path) -> None:
    """One bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


class TestDamage:
    def test_a_flipped_byte_is_found_and_the_version_before_answers(self, adapted_shop, night):
        """By `fsck`, with the remedy, and by `predict`, which says so."""
        flip(adapted_shop.root / "models" / "shop" / "2" / "model.onnx")
        findings = json.loads(adapted_shop.run("fsck", "--json").stdout)["findings"]
        assert len(findings) == 1
        assert "rollback" in findings[0]["repair"]
        run = adapted_shop.does("predict", next(night.glob("a-*.png")), "--json")
        assert json.loads(run.stdout)["version"] == 1
        assert "version 2 of shop is refused" in run.stderr
        adapted_shop.does("rollback")
        assert json.loads(adapted_shop.does("predict", next(night.glob("a-*.png")), "--json").stdout)["version"] == 3

    def test_a_lost_version_is_exported_again(self, wrecked):
        """Whoever deletes the served version's folder gets it back with the next command, also one that was forced."""
        wrecked.does("promote", 3, "--force", "--why", "so be it")
        shutil.rmtree(wrecked.root / "models" / "shop" / "3")
        assert wrecked.run("fsck").returncode == 1
        assert "promoted one already" in wrecked.refuses("promote", 3)
        assert is_clean(wrecked)
        assert (card(wrecked, 3).parent, card(wrecked, 3).forced_because) == (2, "so be it")


class TestDiff:
    def test_the_numbers_add_up(self, wrecked, tmp_path):
        """Better, worse and other are the images whose class changed; accuracies are those of R; images are drawn."""
        picture = tmp_path / "flips.png"
        document = json.loads(wrecked.does("diff", 2, 3, "--json", "--plot", picture).stdout)
        assert (document["schema"], document["before"], document["after"]) == ("adaptd.diff/1", 2, 3)
        measured = {
            (version, domain): value
            for version, domain, value in wrecked.rows(
                "SELECT version, name, value FROM accuracies JOIN domains ON domain_id = domains.id WHERE kind = 'measured'"
            )
        }
        for row in document["domains"]:
            assert (row["before"], row["after"]) == (measured[2, row["domain"]], measured[3, row["domain"]])
            assert (row["better"] - row["worse"]) / row["n"] == pytest.approx(row["after"] - row["before"])
            assert row["better"] + row["worse"] + row["other"] <= row["n"]
        assert sum(row["worse"] for row in document["domains"]) > 0
        assert all(example["before"] != example["after"] for example in document["examples"])
        assert document["examples"][0]["label"] == document["examples"][0]["before"]
        backwards = json.loads(wrecked.does("diff", 3, 2, "--json").stdout)["domains"]
        assert [(r["better"], r["worse"]) for r in backwards] == [(r["worse"], r["better"]) for r in document["domains"]]
        with Image.open(picture) as drawn:
            assert drawn.format == "PNG"
        assert "version 2 → 3" in wrecked.does("diff", 2, 3).stdout

    def test_what_cannot_be_compared(self, adapted_shop):
        """One version with itself, or one that is not there."""
        assert "does not differ from itself" in adapted_shop.refuses("diff", 2, 2)
        assert "there is no version 5" in adapted_shop.refuses("diff", 2, 5)


def test_the_table_is_readable(wrecked):
    """A line for each version, with what the gate said first."""
    lines = wrecked.does("versions").stdout.splitlines()
    assert lines[0].split() == ["version", "state", "parent", "episode", "domain", "gate"]
    assert "promoted, served" in lines[2]
    assert "rejected" in lines[3]


def test_a_model_that_spoils_the_new_domain_is_rejected(adapted_shop, paint, tmp_path):
    """Where the new domain brings labels, a candidate that does worse there than the promoted version is not published."""
    shop = adapted_shop.copy(tmp_path / "spoilt" / "shop")
    # The pictures to learn from are of class a only, and called so by their looks; the labelled ones are of all classes.
    folder = paint(tmp_path / "odd", 40, 77, classes="a", flat=True)
    paint(folder / "_test", 30, 78, classes="abc")
    served = max(shop.published())
    shop.does("adapt", folder, "--epochs", 60, env=WRECK | {"ADAPTD_METHOD__GUARDED__MIN_AGREEMENT": "0"})
    (newest,) = shop.rows("SELECT version, state, gate_figures FROM versions ORDER BY version DESC LIMIT 1")
    assert (newest[1], max(shop.published())) == ("rejected", served)
    assert "odd (test)" in json.loads(newest[2])
