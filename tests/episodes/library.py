"""Episodes run inside the test's process."""

from adaptd.episodes.running import EpisodeRunner
from adaptd.episodes.telling import Audience
from adaptd.imports.importer import Importer
from adaptd.project.layers import load_project
from adaptd.store import Store
from tests.conftest import FAST


class Library:
    """An episode run inside this process, to look at it between steps."""

    def __init__(self, shop, monkeypatch, folder, name="night", **env: str) -> None:
        for key, value in {**FAST, **env}.items():
            monkeypatch.setenv(key, value)
        self.project = load_project(shop.root)
        self.store = Store(self.project.database, self.project.settings.database.busy_timeout_seconds)
        importer = Importer(self.project, self.store)
        self.episode = importer.find_unfinished(name) or importer.import_domain(folder, name).episode

    def run(self, show=None, stop=None):
        """To its end, or until stopped."""
        audience = Audience(lambda report, _: show and show(report))
        return EpisodeRunner(self.project, self.store, self.episode, audience, stop).run()
