"""A small project made by hand, with one of everything that fsck looks at; each test breaks a copy of it."""

import dataclasses
import hashlib
import shutil
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from adaptd.library.cache import write_cache
from adaptd.library.imageset import ImageSet
from adaptd.library.preprocessing import Preprocessing
from adaptd.project.layers import Project, load_project
from adaptd.project.layout import Layout
from adaptd.project.toml import render_toml
from adaptd.publishing.card import Card, GateOutcome, Parity
from adaptd.publishing.repository import ModelRepository
from adaptd.records import Accuracy, AccuracyKind, DomainState, EventKind, GateDecision, MemoryItem, NewImage, Split, VersionState
from adaptd.store import NewDrop, NewEpisode, NewVersion, Store, Transaction
from adaptd.store.migrate import upgrade

SIZE = 8


@dataclasses.dataclass
class Kept:
    """A project's folders and store."""

    root: Path

    @property
    def project(self) -> Project:
        """As the commands see it."""
        return load_project(self.root, environ={})

    @property
    def state(self) -> Path:
        """Its state folder."""
        return self.root / "state"

    @property
    def drop(self) -> Path:
        """The drop that was imported: a.png, b.png, twin.png."""
        return self.state / "domains" / "2" / "1"

    @property
    def quarantined(self) -> Path:
        """The file of that drop that is no image."""
        return self.state / "quarantine" / "night" / "1" / "notes.txt"

    @property
    def model(self) -> Path:
        """The published version's folder."""
        return self.root / "models" / "shop" / "2"

    def store(self) -> Store:
        """Open it."""
        return Store(self.state / "adaptd.db")


@pytest.fixture(scope="session")
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    kept = Kept(tmp_path_factory.mktemp("kept") / "shop")
    for folder in ("inbox", "models", "state/backups"):
        (kept.root / folder).mkdir(parents=True)
    (kept.root / "adaptd.toml").write_text(render_toml({"model.name": "shop", "model.image_size": SIZE}))
    upgrade(kept.state / "adaptd.db", kept.state / "backups")
    with kept.store() as store, store.writing() as tx:
        _fill_source(tx, kept)
        _fill_night(tx, kept)
        _fill_versions(tx, kept)
    return kept


@pytest.fixture
def kept(_kept: Kept, tmp_path: Path) -> Kept:
    """A copy for one test."""
    shutil.copytree(_kept.root, tmp_path / "shop")
    return Kept(tmp_path / "shop")


def _images(contents: list[bytes], split: Split = Split.TRAIN, label: str | None = None) -> list[NewImage]:
    return [
        NewImage(hashlib.sha256(content).hexdigest(), len(content), f"{content.decode()}.png", split, label)
        for content in contents
    ]


def _write(kept: Kept, folder: Path, ids: dict[str, int]) -> None:
    pixels = np.arange(len(ids) * 3 * SIZE * SIZE, dtype=np.uint8).reshape(len(ids), 3, SIZE, SIZE)
    images = ImageSet(np.array(list(ids.values()), dtype=np.int64), pixels)
    write_cache(folder, images, list(ids), Preprocessing(SIZE))


def _fill_source(tx: Transaction, kept: Kept) -> None:
    domain = tx.domains.add("source", DomainState.DONE)
    layout = Layout(kept.state)
    for split in Split:
        new = _images([f"{split}{n}".encode() for n in range(3)], split, "a")
        _write(kept, layout.cache(domain.id, 1, split), tx.images.add_many(domain.id, new))
    tx.quarantine.add(domain.id, "mine.txt", "not-an-image", "no picture", "/somewhere/of/the/user/mine.txt")


def _fill_night(tx: Transaction, kept: Kept) -> None:
    """Two drops: one imported with a duplicate and a refused file, one that waits."""
    domain = tx.domains.add("night", DomainState.DONE)
    layout = Layout(kept.state)
    for number, content in ((1, {"a.png": b"a", "b.png": b"b", "twin.png": b"a", ".DS_Store": b"x"}), (2, {"c.png": b"c"})):
        folder = layout.drop(domain.id, number)
        folder.mkdir(parents=True)
        for name, data in content.items():
            (folder / name).write_bytes(data)
        count = 4 if number == 1 else 1
        tx.drops.add(NewDrop(domain.id, number, layout.relative(folder), "night", "0" * 64, count, count))
    tx.drops.take_in([1], 1)
    tx.drops.count(1, accepted=2, duplicates=1)
    ids = tx.images.add_many(domain.id, _images([b"a", b"b"]))
    _write(kept, layout.cache(domain.id, 1, Split.TRAIN), ids)
    _write(kept, layout.memory(domain.id, 2), dict(list(ids.items())[:1]))
    tx.memories.replace(domain.id, [MemoryItem(next(iter(ids.values())), domain.id, "a", 0.9)])
    place = layout.quarantine("night", 1) / "notes.txt"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"notes")
    tx.quarantine.add(domain.id, "notes.txt", "not-an-image", "no picture", layout.relative(place), 1)


def _fill_versions(tx: Transaction, kept: Kept) -> None:
    layout = Layout(kept.state)
    (kept.state / "weights").mkdir()
    for key, name in ((1, "source"), (2, "night")):
        domain = tx.domains.find(name)
        episode = tx.episodes.add(NewEpisode(domain.id, "grcl" if key == 2 else "supervised", 0, {}, "0" * 64))
        lease = tx.episodes.lease(episode.id, "worker", "boot", 1.0)
        tx.domains.place(domain.id)
        tx.episodes.commit(episode.id, lease, {})
        weights = layout.weights(episode.id)
        weights.write_bytes(b"weights" + bytes([key]))
        digest = hashlib.sha256(weights.read_bytes()).hexdigest()
        parent = None if key == 1 else 1
        tx.versions.add(NewVersion(parent, episode.id, ("a", "b"), layout.relative(weights), digest))
        tx.versions.set_model(key, f"shop/{key}", _publish(kept, key))
        tx.versions.set_gate(key, GateDecision(passed=True, reasons=("source lost nothing",)))
        tx.versions.set_state(key, VersionState.PROMOTED)
        tx.events.add(EventKind.EPISODE_DONE, f"episode {key - 1} gave version {key}", domain_id=domain.id)
    tx.accuracies.record(Accuracy(1, 1, AccuracyKind.MEASURED, 0.75, 4, correct=3))
    tx.accuracies.record(Accuracy(2, 1, AccuracyKind.MEASURED, 0.5, 4, correct=2))
    tx.accuracies.record(Accuracy(2, 2, AccuracyKind.ESTIMATED, 0.7, 2, estimator="atc"))
    tx.accuracies.record(Accuracy(1, 2, AccuracyKind.ESTIMATED, 0.4, 2, estimator="atc"))


def _publish(kept: Kept, version: int) -> str:
    """A real, tiny ONNX model with a real card, published as the daemon does."""
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10).SerializeToString()
    digest = hashlib.sha256(model).hexdigest()
    card = Card(
        model="shop",
        version=version,
        episode=version - 1,
        domain="night",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        backbone="lenet5",
        classes=("a", "b"),
        preprocessing=Preprocessing(SIZE),
        weights_sha256="0" * 64,
        config_hash="0" * 64,
        gate=GateOutcome(passed=True, reasons=()),
        parity=Parity(exporter="x", max_error=0, equal_argmax=1, ties=0, tolerance=1, images={}),
        model_sha256=digest,
        versions={},
    )
    repository = ModelRepository(kept.root / "models", "shop", kept.state / "staging")
    folder = repository.prepare(version)
    (folder / "model.onnx").write_bytes(model)
    (folder / "card.json").write_text(card.to_text())
    repository.publish(version, digest)
    return digest
