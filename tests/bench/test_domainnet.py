"""DomainNet's public layout: which images are taken, in which order, and what a folder that is not whole is told."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from adaptd.bench import domainnet
from adaptd.bench.domainnet import DOMAINS, load_domainnet
from adaptd.errors import FolderUnusable
from tests.bench.test_bench import SMALL

CLASSES = ("aircraft_carrier", "airplane", "alarm_clock")
TRAIN, TEST = 6, 3


@pytest.fixture
def tree(tmp_path):
    """Six and three images of each of three classes in every domain, listed as the public lists do."""
    folder = tmp_path / "domainnet"
    draw = np.random.default_rng(0)
    for name in (*DOMAINS, "quickdraw"):
        lines = {"train": [], "test": []}
        for number, label in enumerate(CLASSES):
            place = folder / name / label
            place.mkdir(parents=True)
            for image in range(TRAIN + TEST):
                path = f"{name}/{label}/{name}_{number + 1:03}_{image + 1:06}.jpg"
                pixels = draw.integers(0, 80, (20, 24, 3))
                pixels[..., number] += 150
                Image.fromarray(pixels.astype(np.uint8)).save(folder / path)
                lines["train" if image < TRAIN else "test"].append(f"{path} {number}")
        for split, entries in lines.items():
            (folder / f"{name}_{split}.txt").write_text("\n".join(entries) + "\n")
    return folder


def test_the_papers_domains_with_the_published_splits(tree, tmp_path):
    """Five of the six, in the paper's order; classes by their numbers; what a list names for testing is never trained on."""
    recipe = load_domainnet(tree, tmp_path / "cache", 16)
    assert [domain.name for domain in recipe.domains] == ["clipart", "real", "infograph", "sketch", "painting"]
    assert recipe.classes == CLASSES
    for domain in recipe.domains:
        assert np.bincount(domain.train.labels).tolist() == [TRAIN] * 3
        assert np.bincount(domain.test.labels).tolist() == [TEST] * 3
        assert (domain.test.pixels.mean(axis=(2, 3)).argmax(axis=1) == domain.test.labels).all(), "another class's images"


def test_a_larger_domain_gives_as_many_as_the_paper_takes(monkeypatch):
    """Drawn once for all, whatever the folder is called; a smaller one gives all."""
    entries = [(f"real/airplane/{number}.jpg", 1) for number in range(30)]
    monkeypatch.setattr(domainnet, "IMAGES", {"train": 10, "test": 8_000})
    first, again = ([file.name for file in domainnet._choose(Path(root), entries, "train")] for root in ("/one", "/two"))
    assert first == again == sorted(first, key=[path for path, _ in entries].index)
    assert len(set(first)) == 10
    assert len(domainnet._choose(Path("/one"), entries, "test")) == 30


@pytest.mark.parametrize("what", ["a list", "an archive", "some images", "a line", "a number"])
def test_a_folder_that_is_not_whole(tree, tmp_path, what):
    """One error, before anything is decoded, that names the file and what to do."""
    listed = tree / "sketch_train.txt"
    if what == "a list":
        listed.unlink()
        told = r"sketch_train\.txt is not there: put DomainNet's split lists"
    elif what == "an archive":
        (tree / "real").rename(tree / "elsewhere")
        told = r"27 of the 27 images that real's lists name are not in .*: unpack real\.zip"
    elif what == "some images":
        (tree / "painting" / "airplane" / "painting_002_000003.jpg").unlink()
        told = r"1 of the 27 .* \(the first: painting/airplane/painting_002_000003\.jpg\): unpack painting\.zip"
    elif what == "a line":
        listed.write_text("sketch/../../etc/passwd 0\n")
        told = r"sketch_train\.txt, line 1 is .* instead of `sketch/<class>/<image> <number>`"
    else:
        listed.write_text(listed.read_text().replace(" 2\n", " 0\n"))
        told = "gives the number 0 to 'alarm_clock', and another list to 'aircraft_carrier'"
    with pytest.raises(FolderUnusable, match=told):
        load_domainnet(tree, tmp_path / "cache", 16)
    assert not (tmp_path / "cache").exists()


def test_from_the_command_line(adaptd, tree, tmp_path):
    """The recipe's own network is ResNet-50; a smaller one is a setting. The paper's figures stand beside ours."""
    words = ["bench", "domainnet", "--data", tree.parent, "--methods", "source-only", "--out", tmp_path / "out"]
    run = adaptd(*words, env=SMALL | {"ADAPTD_MODEL__WEIGHTS": "", "ADAPTD_SOURCE__EPOCHS": "1"})
    assert run.returncode == 0, run.stderr
    (row,) = json.loads((tmp_path / "out" / "results.json").read_text())["rows"]
    assert np.shape(row["R"]) == (5, 5)
    assert "| 29.18 / – |" in run.stdout
