"""An import that ends before its commit accepts nothing, and the next one is as if it had not been."""

from pathlib import Path

import pytest

from adaptd.imports import importer as importing
from adaptd.imports.importer import Importer
from adaptd.library.cache import open_cache
from adaptd.project.layers import load_project
from adaptd.project.layout import Layout
from adaptd.project.toml import render_toml
from adaptd.records import DomainState, Split
from adaptd.store import Store
from adaptd.store.migrate import upgrade


class Ended(Exception):
    """Stands for the end of the process."""


@pytest.fixture
def root(tmp_path) -> Path:
    """An empty project."""
    root = tmp_path / "shop"
    (root / "state" / "backups").mkdir(parents=True)
    (root / "adaptd.toml").write_text(render_toml({"model.name": "shop", "model.image_size": 16}))
    upgrade(root / "state" / "adaptd.db", root / "state" / "backups")
    return root


def import_source(root: Path, folder: Path):
    """With an importer of its own, as another process would."""
    with Store(root / "state" / "adaptd.db") as store:
        return Importer(load_project(root, environ={}), store).import_source(folder)


def read(root: Path) -> tuple:
    """Images, quarantined files, episodes and domains."""
    with Store(root / "state" / "adaptd.db") as store, store.reading() as tx:
        domains = tx.domains.list_all()
        images = [image for domain in domains for image in tx.images.list_for(domain.id)]
        return images, tx.quarantine.list_all(), tx.episodes.list_all(), domains


@pytest.mark.parametrize("step", ["build_delivery", "reserve", "commit", "move_to_quarantine"])
def test_it_ends_before_a_step(root, paint, tmp_path, monkeypatch, step):
    """Before the commit nothing is accepted; after it everything is, and the caches hold exactly what the store has."""

    def end(*_: object) -> None:
        raise Ended

    source = paint(tmp_path / "photos", 20, seed=0)
    (source / "notes.txt").write_text("no image")
    with monkeypatch.context() as patch:
        patch.setattr(importing, step, end)
        with pytest.raises(Ended):
            import_source(root, source)
    images, quarantined, episodes, domains = read(root)
    if step != "move_to_quarantine":
        assert (images, quarantined, episodes) == ([], (), ())
        assert [domain.state for domain in domains] == ([DomainState.ARRIVING] if step == "commit" else [])
        imported = import_source(root, source)
        assert (imported.train, imported.test, imported.quarantined) == (48, 12, 1)
        images, quarantined, episodes, domains = read(root)
    assert (len(images), len(quarantined), len(episodes)) == (60, 1, 1)
    assert [(domain.state, domain.images, domain.quarantined) for domain in domains] == [(DomainState.QUEUED, 60, 1)]
    for split in (Split.TRAIN, Split.TEST):
        index = open_cache(Layout(root / "state").cache(1, 1, split)).index
        assert dict(zip(index.ids, index.sha256, strict=True)) == {i.id: i.sha256 for i in images if i.split is split}
    assert sorted(path.name for path in (root / "state" / "cache").iterdir()) == ["1-1-test", "1-1-train"]
