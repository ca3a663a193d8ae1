"""Tiny real ONNX models in a real repository, and real servers that serve them."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from adaptd.library.preprocessing import Preprocessing
from adaptd.publishing.card import SEAL, Card, GateOutcome, Parity, _dump, software_versions

REPOSITORY = Path(__file__).resolve().parents[2]
NAME = "shop"
SIZE = 8
CLASSES = ("cat", "dog", "emu")


def make_onnx(seed: int, depth: int = 0, **changes: object) -> bytes:
    """Mean-pool, MatMul, Softmax, with weights of this seed; `depth` matrices of 512 in between make it slower."""
    batch, kind, outputs = changes.get("batch", "n"), changes.get("kind", TensorProto.UINT8), ("logits", "probabilities")
    random = np.random.default_rng(seed)
    weights = {"w": random.normal(size=(3, len(CLASSES))).astype(np.float32)}
    nodes = [
        helper.make_node("Cast", ["images"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["floats"], ["means"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["means", "w"], ["scores"]),
    ]
    here = "scores"
    if depth:
        weights |= {"into": np.zeros((len(CLASSES), 512), np.float32), "out": np.zeros((512, len(CLASSES)), np.float32)}
        weights["square"] = random.normal(size=(512, 512)).astype(np.float32)
        nodes += [helper.make_node("MatMul", ["scores", "into"], ["h0"])]
        nodes += [helper.make_node("MatMul", [f"h{n}", "square"], [f"h{n + 1}"]) for n in range(depth)]
        nodes += [
            helper.make_node("MatMul", [f"h{depth}", "out"], ["zero"]),
            helper.make_node("Add", ["scores", "zero"], ["slow"]),
        ]
        here = "slow"
    nodes += [
        helper.make_node("Identity", [here], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("images", kind, [batch, 3, SIZE, SIZE])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, len(CLASSES)]) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10).SerializeToString()


def make_card(folder: Path, version: int, model: bytes) -> Card:
    """The card of a version in `models/<name>`."""
    return Card(
        model=folder.name,
        version=version,
        episode=version - 1,
        domain="source",
        created_at=datetime(2026, 1, 2, tzinfo=UTC),
        backbone="lenet5",
        classes=CLASSES,
        preprocessing=Preprocessing(SIZE),
        weights_sha256="ab" * 32,
        config_hash="cd" * 32,
        gate=GateOutcome(passed=True, reasons=("It is the first version: nothing was promoted before.",)),
        parity=Parity(exporter="torchscript", max_error=0, equal_argmax=1, ties=0, tolerance=1e-4, images={"source": 9}),
        model_sha256=hashlib.sha256(model).hexdigest(),
        versions=software_versions(),
    )


def seal(card: dict[str, object]) -> str:
    """A card whose seal is right, whatever else is wrong with it."""
    content = {name: value for name, value in card.items() if name != SEAL}
    return json.dumps(content | {SEAL: hashlib.sha256(_dump(content).encode()).hexdigest()})


def publish(folder: Path, version: int, model: bytes | None = None, /, **changes: object) -> Path:
    """Put a version into `models/<name>` as publishing does: staged elsewhere, then one rename. `changes` make its card wrong."""
    model = make_onnx(version) if model is None else model
    staged = folder.parent.parent / f"staged-{version}"
    staged.mkdir()
    (staged / "model.onnx").write_bytes(model)
    (staged / "card.json").write_text(seal(make_card(folder, version, model).to_json() | changes))
    folder.mkdir(exist_ok=True, parents=True)
    return staged.rename(folder / str(version))


def expected(version: int, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a version answers, asked directly."""
    import onnxruntime

    session = onnxruntime.InferenceSession(make_onnx(version), providers=["CPUExecutionProvider"])
    return tuple(session.run(["logits", "probabilities"], {"images": images}))


def random_images(count: int, seed: int = 0) -> np.ndarray:
    """Uint8 [count, 3, SIZE, SIZE]."""
    return np.random.default_rng(seed).integers(0, 256, (count, 3, SIZE, SIZE), dtype=np.uint8)


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for something that will come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@dataclass
class Server:
    """`adaptd serve` in a process of its own."""

    process: subprocess.Popen[str]
    line: str
    errors: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        """host:port."""
        found = re.search(r"http://(\S+?),", self.line)
        assert found, self.line
        return found[1]

    @property
    def port(self) -> int:
        """The port it chose."""
        return int(self.address.rpartition(":")[2])

    def client(self, **options: object) -> httpx.Client:
        """Plain HTTP."""
        return httpx.Client(base_url=f"http://{self.address}", timeout=60, **options)

    def version(self) -> str | None:
        """The version that is served."""
        with self.client() as client:
            return client.get("/health").json()["version"]

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


Serve = Callable[..., Server]


@pytest.fixture(scope="module")
def start() -> Iterator[Serve]:
    """Start servers; whatever runs at the end is stopped."""
    servers: list[Server] = []

    def run(project: Path, *words: str, **settings: object) -> Server:
        outside = {name: value for name, value in os.environ.items() if not (name.startswith("ADAPTD_") and "__" in name)}
        chosen = {"poll_seconds": 0.05} | settings
        environ = {**outside, "PYTHONPATH": str(REPOSITORY)}
        environ |= {f"ADAPTD_SERVING__{key.upper()}": str(value) for key, value in chosen.items()}
        command = [sys.executable, "-m", "adaptd.cli.main", "--project", str(project), "serve", "--port", "0", *words]
        process = subprocess.Popen(command, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        server = Server(process, process.stdout.readline())
        if not server.line:
            pytest.fail(f"no server: {process.stderr.read()}")
        threading.Thread(target=lambda: server.errors.extend(process.stderr), daemon=True).start()
        servers.append(server)
        return server

    yield run
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project folder with nothing but its settings: serving needs no more."""
    folder = tmp_path_factory.mktemp("project") / NAME
    folder.mkdir()
    (folder / "adaptd.toml").write_text(f'[model]\nname = "{NAME}"\nbackbone = "lenet5"\nimage_size = {SIZE}\n')
    return folder


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """The same, for one test alone."""
    folder = tmp_path / NAME
    folder.mkdir()
    (folder / "adaptd.toml").write_text(f'[model]\nname = "{NAME}"\nbackbone = "lenet5"\nimage_size = {SIZE}\n')
    return folder


def models(project: Path) -> Path:
    """`models/<name>` of a project."""
    return project / "models" / NAME
