"""The model repository: what stands in it, what never does, and how damage shows."""

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from adaptd.errors import PublishError, RepositoryConflict, StagingIncomplete, VersionDamaged
from adaptd.publishing.card import read_card
from adaptd.publishing.repository import ModelRepository, Published
from adaptd.publishing.triton import read_version

CONFIG = """\
# Written once by adaptd. Leave these lines; settings of your own may follow below them.
name: "digits"
platform: "onnxruntime_onnx"
max_batch_size: 64
input [
  { name: "images" data_type: TYPE_UINT8 dims: [ 3, 32, 32 ] }
]
output [
  { name: "logits" data_type: TYPE_FP32 dims: [ 10 ] },
  { name: "probabilities" data_type: TYPE_FP32 dims: [ 10 ] }
]
dynamic_batching { }
"""


def names(folder: Path) -> list[str]:
    """What stands in a folder."""
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def repository(tmp_path):
    """A repository nothing was published to yet."""
    return ModelRepository(tmp_path / "models", "digits", tmp_path / "state" / "staging")


@pytest.fixture
def stage(repository, facts, card):
    """Put a version together as the daemon does; its hash. The repository does not look into the model."""

    def make(version: int, content: bytes = b"model", **others) -> str:
        folder = repository.prepare(version)
        sha256 = hashlib.sha256(content).hexdigest()
        (folder / "model.onnx").write_bytes(content)
        (folder / "card.json").write_text(card(facts(version, **others), sha256).to_text(), encoding="utf-8")
        return sha256

    return make


def test_versions_are_published_side_by_side(tmp_path, repository, stage):
    """Config first and once, then folders with model and card, nothing else anywhere in models/."""
    assert repository.list_versions() == ()
    assert repository.find_latest() is None
    for version in (1, 2, 10):
        sha256 = stage(version, b"model %d" % version)
        repository.publish(version, sha256)
        assert repository.verify(version, sha256).version == version
    assert repository.list_versions() == tuple(Published(v, tmp_path / "models" / "digits" / str(v)) for v in (1, 2, 10))
    assert repository.find_latest().model.read_bytes() == b"model 10"
    assert repository.list_odd() == ()
    assert names(repository.folder) == ["1", "10", "2", "config.pbtxt"]
    assert (repository.folder / "config.pbtxt").read_text() == CONFIG
    assert names(repository.staging) == []


def test_publishing_again_is_as_good_as_once(repository, stage):
    """The same version again is fine, whether or not it is still staged; another model under the number is not."""
    sha256 = stage(1)
    repository.publish(1, sha256)
    before = (repository.folder / "1" / "model.onnx").stat()
    repository.publish(1, sha256)
    stage(1)
    repository.publish(1, sha256)
    other = stage(1, b"another model")
    with pytest.raises(RepositoryConflict, match=r"published already, as something else.*next number"):
        repository.publish(1, other)
    assert (repository.folder / "1" / "model.onnx").stat() == before


def test_only_whole_and_proven_versions_are_published(repository, stage):
    """Another hash, a missing card, a file too much, somebody else's card, a link: all refused, and models/ stays empty."""
    sha256 = stage(1)

    def refused(expected, message):
        with pytest.raises(StagingIncomplete, match=message):
            repository.publish(1, expected)
        assert not repository.folder.exists()

    refused("00" * 32, "not the file the store tells of")
    (repository.staging / "1" / "model.onnx.data").touch()
    refused(sha256, "wrong: model.onnx.data")
    stage(1)
    (repository.staging / "1" / "card.json").unlink()
    refused(sha256, "wrong: card.json")
    stage(1)
    (repository.staging / "1" / "model.onnx").rename(repository.staging / "elsewhere")
    (repository.staging / "1" / "model.onnx").symlink_to(repository.staging / "elsewhere")
    refused(sha256, "wrong: model.onnx")
    stage(1, model="letters")
    refused(sha256, "belongs to version 1 of letters")
    repository.prepare(1)
    refused(sha256, "wrong: card.json, model.onnx")


def test_all_versions_have_one_shape(repository, stage):
    """Another number of classes or another image size needs another name; a person's own lines below ours may stay."""
    repository.publish(1, stage(1))
    config = repository.folder / "config.pbtxt"
    config.write_text(CONFIG + "instance_group [ { count: 2 } ]\n")
    repository.publish(2, stage(2))
    for shape in ({"classes": ("a", "b")}, {"size": 64}):
        with pytest.raises(RepositoryConflict, match=r"another \[model\] name"):
            repository.publish(3, stage(3, **shape))
    assert [found.version for found in repository.list_versions()] == [1, 2]
    config.write_text(CONFIG.replace("10 ]", "12 ]"))
    with pytest.raises(VersionDamaged, match="does not describe version 2"):
        repository.verify(2)


def test_every_flipped_byte_is_noticed(repository, stage):
    """In the model and in the card, labels included; only a card's line breaks and spaces may change, since they say nothing."""
    sha256 = stage(1, b"weights" * 10)
    repository.publish(1, sha256)
    for name in ("model.onnx", "card.json"):
        path = repository.folder / "1" / name
        whole = path.read_bytes()
        for position in range(0, len(whole), 7):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << position % 8
            path.write_bytes(damaged)
            if name == "card.json" and _same_json(damaged, whole):
                continue
            with pytest.raises(VersionDamaged):
                repository.verify(1)
        path.write_bytes(whole)
    assert repository.verify(1, sha256).model_sha256 == sha256
    with pytest.raises(VersionDamaged, match="the store tells of"):
        repository.verify(1, "00" * 32)
    with pytest.raises(VersionDamaged, match="cannot read version 2"):
        repository.verify(2)


def _same_json(one: bytes, two: bytes) -> bool:
    try:
        return json.loads(one) == json.loads(two)
    except ValueError:
        return False


def test_old_versions_are_withdrawn_but_never_the_latest(repository, stage):
    """What is served stays; withdrawing twice is fine."""
    for version in (1, 2):
        repository.publish(version, stage(version))
    with pytest.raises(PublishError, match="being served"):
        repository.withdraw(2)
    repository.withdraw(1)
    repository.withdraw(1)
    assert [found.version for found in repository.list_versions()] == [2]
    assert names(repository.staging) == []


def test_recovery_finishes_what_was_committed(repository, stage):
    """Committed and staged: published. Committed and gone: to be exported again. The rest of staging goes."""
    repository.recover([])
    first, second, uncommitted = stage(1), stage(2, b"second"), stage(4)
    assert uncommitted
    (repository.staging / "config.pbtxt").write_text("half of")
    for promoted in ([(1, first), (2, second), (3, "33" * 32)], [(1, first)]):
        repository.recover(promoted)
        assert names(repository.staging) == []
        assert [found.version for found in repository.list_versions()] == [1, 2]


def test_odd_things_in_the_repository_are_told(repository, stage):
    """Whatever Triton would stumble over is named, and never taken for a version by us."""
    repository.publish(1, stage(1))
    for name in ("3.tmp", "x", "007", "-1"):
        (repository.folder / name).mkdir()
    (repository.folder / "5").write_text("a file")
    assert [found.version for found in repository.list_versions()] == [1]
    told = "\n".join(repository.list_odd())
    assert told.count("is not a version of adaptd") == 5
    assert "3.tmp is not a version of adaptd, but Triton takes it for version 3: move it away" in told
    assert "007 is not a version of adaptd, and Triton ignores it" in told


@pytest.mark.parametrize(
    ("name", "version"), [("3", 3), ("3.tmp", 3), (" 4", 4), ("-1", -1), ("03", None), ("0", 0), ("x3", None)]
)
def test_folder_names_as_triton_reads_them(name, version):
    """A lenient integer parser, and no leading zeros."""
    assert read_version(name) == version


def test_models_on_another_disk_are_explained(repository, stage):
    """Staging and models must share a filesystem, since only a rename is atomic."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == repository.folder.parents[1].stat().st_dev:
        pytest.skip("there is no second filesystem at /dev/shm")
    sha256 = stage(1)
    with tempfile.TemporaryDirectory(dir=memory) as models:
        apart = ModelRepository(Path(models), "digits", repository.staging.parent)
        with pytest.raises(PublishError, match="different filesystems"):
            apart.publish(1, sha256)
        assert apart.list_versions() == ()


def test_a_card_comes_back_as_it_was_written(tmp_path, facts, card):
    """The same card gives the same bytes, reads back equal, and tells what clients must know."""
    written = card(facts(3), "ef" * 32)
    (tmp_path / "card.json").write_text(written.to_text(), encoding="utf-8")
    assert read_card(tmp_path) == written
    assert read_card(tmp_path).to_text() == written.to_text()
    content = json.loads(written.to_text())
    assert content["schema"] == "adaptd.card/1"
    assert content["inputs"] == [{"name": "images", "datatype": "UINT8", "shape": [-1, 3, 32, 32]}]
    assert content["created_at"] == "2026-01-02T03:04:05Z"
    assert content["row"][0] == {
        "domain": "source", "value": 0.9, "kind": "measured", "n": 100, "low": 0.83, "high": 0.94, "estimator": None,
        "held_out": False,
    }  # fmt: skip
    assert content["lineage"] == [{"version": v, "episode": v - 1, "domain": "source"} for v in (1, 2)]
    assert {"adaptd", "python", "torch", "onnx", "onnxruntime"} <= content["versions"].keys()


@pytest.mark.parametrize("text", ["", "[]", '{"schema": "adaptd.card/2"}', '{"schema": "adaptd.card/1"}', "\xff"])
def test_what_is_no_card_is_refused(tmp_path, text):
    """Empty, foreign, newer or unsealed files are damage, not a crash."""
    (tmp_path / "card.json").write_text(text, encoding="latin-1")
    with pytest.raises(VersionDamaged):
        read_card(tmp_path)


def test_the_repository_needs_nothing_heavy():
    """`adaptd serve` and `status` import it without torch, onnx or numpy."""
    heavy = {"torch", "onnx", "onnxruntime", "numpy"}
    program = f"import sys, adaptd.publishing.repository; print(*({heavy} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""
