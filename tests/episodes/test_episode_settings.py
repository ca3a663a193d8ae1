"""Which settings decide: at an episode's end those it was queued with, for what is done to a version later those of that time."""

import onnx
import pytest

from adaptd.episodes.settings import resolve_project
from adaptd.project.layers import load_project
from adaptd.publishing.card import read_card
from adaptd.records import VersionState
from adaptd.releases.facts import hash_settings
from adaptd.releases.promotion import promote
from tests.episodes.library import Library


@pytest.fixture
def strict(shop, monkeypatch, night):
    """An episode that was queued with settings that no export can meet; the project has others by the time it runs."""
    library = Library(shop, monkeypatch, night, ADAPTD_EXPORT__OPSET="99", ADAPTD_EXPORT__KEEP_VERSIONS="1")
    monkeypatch.delenv("ADAPTD_EXPORT__OPSET")
    monkeypatch.delenv("ADAPTD_EXPORT__KEEP_VERSIONS")
    library.project = load_project(shop.root)
    return library


def test_the_episode_s_settings_decide_at_its_end(strict):
    """The export fails by the opset that it was queued with; promoted later, the version gets that of the day."""
    version = strict.run().version
    assert version.state is VersionState.REJECTED
    assert "there is no opset 99" in version.gate.reasons[0]
    promote(strict.project, strict.store, 2)
    told = read_card(strict.project.models / "shop" / "2")
    assert onnx.load(strict.project.models / "shop" / "2" / "model.onnx").opset_import[0].version == 18
    assert told.config_hash != strict.episode.config_hash


def test_gate_and_retention_are_the_episode_s(shop, monkeypatch, night):
    """Settings that would refuse every model, and keep all versions, came too late; the card has the hash of the others."""
    library = Library(shop, monkeypatch, night, ADAPTD_EXPORT__KEEP_VERSIONS="1")
    text = (shop.root / "adaptd.toml").read_text()
    assert "\n#min_class_share = 0.1\n" in text
    (shop.root / "adaptd.toml").write_text(text.replace("\n#min_class_share = 0.1\n", "\nmin_class_share = 1.0\n"))
    monkeypatch.delenv("ADAPTD_EXPORT__KEEP_VERSIONS")
    library.project = load_project(shop.root)
    assert library.project.settings.gate.min_class_share == 1
    assert library.run().version.state is VersionState.PROMOTED
    with library.store.reading() as tx:
        assert [version.state for version in tx.versions.list_all()] == [VersionState.RETIRED, VersionState.PROMOTED]
    assert read_card(library.project.models / "shop" / "2").config_hash == library.episode.config_hash


def test_where_things_lie_is_the_project_s(strict, monkeypatch, tmp_path):
    """Folders, the database with its password, and the model's name: they may have moved since."""
    monkeypatch.setenv("ADAPTD_PATHS__MODELS", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("ADAPTD_DATABASE__URL", "postgresql://me:secret@host/name")
    monkeypatch.setenv("ADAPTD_MODEL__NAME", "renamed")
    project = load_project(strict.project.root)
    resolved = resolve_project(project, strict.episode)
    assert (resolved.models, resolved.database) == (tmp_path / "elsewhere", "postgresql://me:secret@host/name")
    assert resolved.settings.model.name == "renamed"
    assert resolved.settings.export.opset == 99
    assert resolved.settings.model.classes == ("a", "b", "c")


def test_the_hash_is_the_episode_s_while_nothing_changed(strict):
    """Of a version that is promoted later; any other gate or export gives another."""
    settings = resolve_project(strict.project, strict.episode).settings
    assert hash_settings(settings, strict.episode) == strict.episode.config_hash
    assert hash_settings(strict.project.settings, strict.episode) != strict.episode.config_hash
