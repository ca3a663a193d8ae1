"""What an episode opens, and what it leaves to others."""

import shutil
import sys
from collections import Counter
from pathlib import Path

from tests.episodes.library import Library


class Opens:
    """Counts the files that this process opens, by path. A hook cannot be taken back, so it can be told to look away."""

    def __init__(self) -> None:
        self.found: Counter[Path] = Counter()
        self.looks = True
        sys.addaudithook(self._note)

    def _note(self, event: str, words: tuple) -> None:
        if self.looks and event == "open" and isinstance(words[0], str) and "w" not in (words[1] or ""):
            self.found[Path(words[0])] += 1

    def of(self, name: str) -> dict[str, int]:
        """How often each file with this end of its name was opened: by folder and name. What is being written does not count."""
        found = {path: count for path, count in self.found.items() if path.name.endswith(name)}
        return {f"{path.parent.name}/{path.name}": n for path, n in found.items() if not path.parent.name.startswith(".")}


def test_each_image_set_and_model_is_opened_once(adapted_shop, monkeypatch, paint, tmp_path):
    """Caches and memories of all domains; the weights of the versions before, the source's and the parent's."""
    fog = paint(tmp_path / "fog", 10, seed=10, flat=True)
    library = Library(adapted_shop, monkeypatch, fog, name="fog")
    opens = Opens()
    before: list[dict[str, int]] = []

    def look(report) -> None:
        if report.step == report.steps:
            before.append(opens.of(".safetensors"))

    finished = library.run(look)
    opens.looks = False
    library.store.close()
    assert finished.version.gate.passed
    caches = {"1-1-train", "1-1-test", "2-1-test", "3-1-train", "3-1-held-out", "2-2"}
    for name in ("index.json", "pixels.u8"):
        assert opens.of(name) == {f"{folder}/{name}": 1 for folder in caches}
    weights = Counter({name: count for name, count in opens.of(".safetensors").items() if name.startswith("weights/")})
    weights -= Counter(before[0])
    assert weights == {"weights/episode-1.safetensors": 1, "weights/episode-2.safetensors": 1}


def test_an_episode_repairs_no_publication(shop, monkeypatch, night):
    """A version whose folder is gone is the business of the daemon's job, or of the command before it runs the episode."""
    lost = shop.root / "models" / "shop" / "1"
    shutil.rmtree(lost)
    library = Library(shop, monkeypatch, night)
    library.run()
    assert (sorted(shop.published()), lost.exists()) == ([2], False)
