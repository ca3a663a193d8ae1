"""Trained weights: fetched from servers on this machine, checked, kept, read again; and what is said where there are none."""

import hashlib
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save
from torch.nn import functional

from adaptd.errors import ConfigError, WeightsUnavailable
from adaptd.learning import origins
from adaptd.learning.backbones import build_classifier
from adaptd.learning.fetching import find_published
from adaptd.learning.pretrained import load_pretrained
from adaptd.learning.settings import ModelSettings
from adaptd.learning.torchvision_compat import import_timm, import_torchvision
from adaptd.learning.weights import load_weights

MODELS = import_torchvision().models


class Server(ThreadingHTTPServer):
    """Answers with the files it was given, as torchvision's server and as the hub do, and counts."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, tuple[bytes, str]] = {}
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def offer(self, path: str, content: bytes, sha256: str | None = None) -> None:
        """A file, under its own hash or under another."""
        self.files[path] = content, sha256 or hashlib.sha256(content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """The file; one of the hub's is elsewhere, and its hash is told on the way."""
        self.server.asked.append(self.path)
        content, sha256 = self.server.files.get(self.path.removeprefix("/elsewhere"), (b"", ""))
        moved = self.path.startswith("/timm")
        self.send_response(302 if moved else 200 if content else 404)
        headers = {"Location": f"/elsewhere{self.path}", "X-Linked-Etag": f'"{sha256}"'} if moved else {"ETag": '"a date"'}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if not moved:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server():
    """A running one."""
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """Folders of downloads that are empty, and no way out but to this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    for proxy in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(proxy, "http://127.0.0.1:9")  # the discard port: nobody answers
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    return tmp_path / "adaptd" / "weights"


def pickled(path: Path) -> tuple[dict[str, torch.Tensor], bytes]:
    """Weights as torchvision publishes them."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        state = MODELS.get_model("shufflenet_v2_x0_5", weights=None).state_dict()
    torch.save(state, path)
    return state, path.read_bytes()


@pytest.fixture
def torchvision_file(server, tmp_path, monkeypatch):
    """Torchvision's description of ShuffleNet's weights, with our server's address and a file of ours."""
    state, content = pickled(tmp_path / "made.pth")
    best = MODELS.get_model_weights("shufflenet_v2_x0_5").DEFAULT
    path = f"/models/shufflenet-{hashlib.sha256(content).hexdigest()[:8]}.pth"
    monkeypatch.setattr(best.value, "url", server.url + path)
    return state, content, path


def settings(backbone: str) -> ModelSettings:
    """A small classifier."""
    return ModelSettings(backbone=backbone, image_size=32, classes=("a", "b"), projector_hidden=16, projector_output=8)


def test_torchvision_weights_are_fetched_once(server, torchvision_file, cache):
    """The first call fetches and keeps safetensors; the second asks nobody; both fill the whole encoder."""
    state, content, path = torchvision_file
    server.offer(path, content)
    for _ in range(2):
        model = build_classifier(settings("shufflenet_v2_x0_5"))
        report = load_weights(model, "torchvision")
        assert set(report.unexpected) == {"fc.weight", "fc.bias"}
        assert not any(key.startswith("encoder.") for key in report.fresh)
        assert torch.equal(model.encoder.conv1[0].weight, state["conv1.0.weight"])
    assert server.asked == [path]
    assert [file.name for file in cache.rglob("*") if file.is_file()] == ["shufflenet_v2_x0_5.safetensors"]
    assert origins.list_kept() == ("shufflenet_v2_x0_5",)


def test_what_is_not_what_was_published_is_refused(server, torchvision_file, cache):
    """A file with another hash is neither loaded nor kept."""
    _, content, path = torchvision_file
    server.offer(path, content[:-1] + b"x")
    with pytest.raises(WeightsUnavailable, match=r"has the hash .* and not .*--weights FILE.*--weights none"):
        load_pretrained("shufflenet_v2_x0_5", "torchvision")
    assert origins.list_kept() == ()


def test_kept_weights_that_rot_are_fetched_again(server, torchvision_file, cache, caplog):
    """One flipped byte, a file cut short, or weights of another name."""
    state, content, path = torchvision_file
    server.offer(path, content)
    load_pretrained("shufflenet_v2_x0_5", "torchvision")
    kept = cache / "torchvision" / "shufflenet_v2_x0_5.safetensors"
    whole = kept.read_bytes()
    middle = len(whole) // 2
    other = save({"x": torch.zeros(2)})
    for broken in (whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], whole[:middle], other):
        kept.write_bytes(broken)
        assert torch.equal(load_pretrained("shufflenet_v2_x0_5", "torchvision")["fc.weight"], state["fc.weight"])
        assert kept.read_bytes() == whole
    assert len(server.asked) == 4
    assert caplog.text.count("fetched again") == 3


def test_a_user_without_a_home_can_have_them(server, torchvision_file, monkeypatch, tmp_path, caplog):
    """Where nothing can be kept, weights are fetched each time, and that is said."""
    _, content, path = torchvision_file
    server.offer(path, content)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    for _ in range(2):
        assert load_pretrained("shufflenet_v2_x0_5", "torchvision")
    assert len(server.asked) == 2
    assert "cannot be kept" in caplog.text


def test_torchs_own_folder_of_downloads_is_used(server, torchvision_file, tmp_path):
    """Whoever has the file there needs no network."""
    _, content, path = torchvision_file
    folder = tmp_path / "torch" / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    (folder / Path(path).name).write_bytes(content)
    assert load_pretrained("shufflenet_v2_x0_5", "torchvision")
    assert server.asked == []


TIMM_FILE = "/timm/test_resnet.r160_in1k/resolve/main/model.safetensors"


@pytest.fixture
def hub(server, monkeypatch):
    """The hub at our address, and a small model of timm's."""
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    return import_timm().create_model("test_resnet").state_dict()


def test_timm_weights_are_fetched_once(server, hub, cache):
    """The first call fetches from the hub and keeps; the second asks nobody; both fill the whole encoder."""
    server.offer(TIMM_FILE, save(hub))
    for _ in range(2):
        model = build_classifier(settings("timm:test_resnet"))
        report = load_weights(model, "timm")
        assert not any(key.startswith("encoder.") for key in report.fresh)
        assert torch.equal(model.encoder.layer1[0].conv1.weight, hub["layer1.0.conv1.weight"])
    assert server.asked == [TIMM_FILE, "/elsewhere" + TIMM_FILE]
    assert origins.list_kept() == ("timm:test_resnet",)


def test_timm_weights_with_another_hash_are_refused(server, hub):
    """The hub said one hash and sent another file."""
    server.offer(TIMM_FILE, save(hub), "ab" * 32)
    with pytest.raises(WeightsUnavailable, match="has the hash"):
        load_pretrained("timm:test_resnet", "timm")
    assert origins.list_kept() == ()


@pytest.mark.parametrize(("backbone", "origin"), [("resnet18", "torchvision"), ("timm:test_resnet", "timm")])
def test_offline_the_remedies_are_named(backbone, origin):
    """Without a network: one message, with what to do."""
    remedies = r"go online once.*--weights FILE.*--weights none.*efficientnet_lite0"
    with pytest.raises(WeightsUnavailable, match=f"cannot get {origin}'s weights for {backbone} .*{remedies}") as problem:
        load_pretrained(backbone, origin)
    assert "\n" not in str(problem.value)


def test_efficientnet_lite0_needs_no_network(cache):
    """Its weights come from the package, are kept, and fill the whole encoder."""
    for _ in range(2):
        report = load_weights(build_classifier(settings("efficientnet_lite0")), "package")
        assert len(report.matched) == 294
        assert set(report.unexpected) == {"classifier.weight", "classifier.bias"}
    assert origins.list_kept() == ("efficientnet_lite0",)


@pytest.mark.parametrize(
    ("backbone", "origin", "message"),
    [
        ("lenet5", "torchvision", "nobody publishes weights for lenet5"),
        ("resnet81", "torchvision", "did you mean resnet18"),
        ("timm:test_mambaout_of_nobody", "timm", "timm has no backbone named"),
        ("resnet18", "timm", "timm has no weights for resnet18: set model.weights to torchvision"),
        ("efficientnet_lite0", "torchvision", "set model.weights to package"),
    ],
)
def test_wrong_origins_are_explained(backbone, origin, message):
    """Who has no weights for a backbone, and who has."""
    with pytest.raises((ConfigError, WeightsUnavailable), match=message):
        load_pretrained(backbone, origin)


def test_every_file_of_torchvision_carries_its_hash():
    """And each says which images it was made for."""
    for name in MODELS.list_models(module=MODELS):
        published = find_published(name)
        assert len(Path(published.name).stem.rpartition("-")[2]) >= 8, name
        assert 224 <= published.image_size <= 600


def test_its_features_know_photographs(one_thread):
    """A linear probe on EfficientNet-Lite0's features of few photographs is right far more often than on random features."""
    photographs = Path(os.environ.get("ADAPTD_BENCH_DATA", "../shared/data")) / "office_caltech10" / "amazon"
    if not photographs.is_dir():
        pytest.skip(f"no photographs at {photographs}: set ADAPTD_BENCH_DATA")
    train, test = (read(photographs, first, 4) for first in (0, 4))
    model = build_classifier(
        ModelSettings(
            backbone="efficientnet_lite0", image_size=128, mean=origins.LITE0_MEAN, std=origins.LITE0_STD, classes=("a", "b")
        )
    )
    random = probe(model, train, test)
    load_weights(model, "package")
    trained = probe(model, train, test)
    assert trained > max(0.75, random + 0.3)


@pytest.fixture
def one_thread():
    """Others work on this machine, too."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def read(folder: Path, first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Some photographs of each class, as a model takes them, and their classes."""
    files = [(c, f) for c, d in enumerate(sorted(folder.iterdir())) for f in sorted(d.iterdir())[first : first + count]]
    pixels = [torch.from_numpy(np.array(Image.open(file).convert("RGB").resize((128, 128)))) for _, file in files]
    return torch.stack(pixels).permute(0, 3, 1, 2) / 255, torch.tensor([c for c, _ in files])


def probe(model, train: tuple[torch.Tensor, torch.Tensor], test: tuple[torch.Tensor, torch.Tensor]) -> float:
    """The accuracy of ridge regression on frozen features."""
    with torch.no_grad():
        known, asked = (functional.normalize(model.eval().encode(images)) for images, _ in (train, test))
    kernel = known @ known.T + 0.01 * torch.eye(len(known))
    scores = asked @ known.T @ torch.linalg.solve(kernel, functional.one_hot(train[1]).float())
    return (scores.argmax(1) == test[1]).float().mean().item()
