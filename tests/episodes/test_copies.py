"""The same images under another name are not learned again, unless a person asks for it."""

import shutil

import pytest

from adaptd.daemon.control import retry
from adaptd.episodes.running import EpisodeRunner
from adaptd.episodes.telling import Audience
from adaptd.errors import DomainKnown
from adaptd.imports.importer import Importer
from adaptd.project.layers import load_project
from adaptd.records import DomainState
from adaptd.store import NewDrop, Store
from tests.conftest import FAST


class Begun(BaseException):
    """It learns."""


def begin(_step, _accuracy) -> None:
    """End an episode that makes a step."""
    raise Begun


class Inbox:
    """Drops of one project, taken in and learned from inside the test's process."""

    def __init__(self, shop, monkeypatch) -> None:
        for key, value in FAST.items():
            monkeypatch.setenv(key, value)
        self.project = load_project(shop.root)
        self.store = Store(self.project.database)

    def take(self, name: str, *folders) -> None:
        """What the daemon does with a claimed folder, until its import is next."""
        with self.store.writing() as tx:
            domain = tx.domains.add(name, DomainState.SETTLED)
            path = f"domains/{domain.id}/1"
            tx.drops.add(NewDrop(domain.id, 1, path, name, "f", 1, 1))
        for number, folder in enumerate(folders):
            for image in folder.rglob("*.png"):
                target = self.project.state / path / str(number) / image.relative_to(folder).as_posix().replace("/", "-")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(image, target)

    def learn(self, name: str) -> str:
        """The domain's reason where it is skipped; Begun where it is learned from."""
        with self.store.reading() as tx:
            domain = tx.domains.get_named(name)
        imported = Importer(self.project, self.store).import_drops(domain)
        with pytest.raises(DomainKnown):
            EpisodeRunner(self.project, self.store, imported.episode, Audience(begin)).run()
        with self.store.reading() as tx:
            domain = tx.domains.get_named(name)
            assert tx.episodes.get(imported.episode.id).report["novelty"]["copied"]
        assert domain.state is DomainState.SKIPPED
        return domain.reason


def test_the_same_images_under_another_name(adapted_shop, monkeypatch, source, night, paint, tmp_path):
    """They are said to be known and skipped by default; a person may insist, and with new images among them it is new."""
    inbox = Inbox(adapted_shop, monkeypatch)
    with inbox.store:
        inbox.take("copy", night)
        told = "copy is no new domain: every image of it is in night already; nothing is learned from it, `adaptd retry copy`"
        assert inbox.learn("copy").startswith(told)
        inbox.take("both", source, night)
        assert "every image of it is in night, source already" in inbox.learn("both")
        retry(inbox.store, "copy", inbox.project.settings)
        with pytest.raises(Begun):
            inbox.learn("copy")
        inbox.take("more", night, paint(tmp_path / "few", 1, seed=9, shift=30))
        with pytest.raises(Begun):
            inbox.learn("more")
