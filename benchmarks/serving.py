"""`adaptd serve` against a bare ONNX Runtime loop, LitServe and BentoML: same file, same threads, 1 and 32 clients.

One command: `python -m benchmarks.serving [--rounds N] [--seconds S] [--models lenet,resnet18] [--peers-python PATH]`, or
`--no-peers`. Prints a table, with the speed of a matrix product in the same minutes, and writes benchmarks/out/serving.json. The
peers get an environment of their own under ~/.cache/adaptd-bench, or are in one that is named; one that cannot be had is left out
with a message.

How it is made fair. Rounds are interleaved: every contestant is measured for a short while, again and again, so that a
noisy minute hits all; a server that is not being measured is stopped (SIGSTOP). The clients are one process that does
next to nothing (benchmarks/http_load.py), but it shares the cores with the server while the bare loop has them alone, so
two ratios are told: of images per second as measured, and of images per second of processor time that the server's
processes took, which is what would be left on a machine whose clients are elsewhere. The bare loop runs at the batch of
the requests ("bare") and at the batch that 32 clients could at best form together ("bare, batch 32"). Each server is
asked in the most compact form it documents: tensors in binary for adaptd, base64 in JSON for the peers.
"""

import argparse
import base64
import hashlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from adaptd.library.preprocessing import Preprocessing
from adaptd.machine import cpu_count
from adaptd.project.toml import render_toml
from adaptd.publishing.card import CARD_FILE, Card, GateOutcome, Parity, software_versions

OUT = Path(__file__).parent / "out"
CACHE = Path.home() / ".cache" / "adaptd-bench" / "peers"
CASES = ((1, 1), (1, 32), (32, 1), (32, 32))
SIZES = {"lenet": 32, "resnet18": 64}
CLASSES = 10
GEMM = "matrix product"

BARE = """
import json, sys, time, numpy
from benchmarks.serving_peers.net import Net
net, size, batch, seconds = Net(), int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
question = {"images": numpy.random.default_rng(0).integers(0, 256, (batch, 3, size, size), dtype=numpy.uint8)}
for _ in range(3): net.session.run(None, question)
runs, begin, cpu = 0, time.perf_counter(), time.process_time()
while time.perf_counter() - begin < seconds:
    net.session.run(None, question); runs += 1
images, spent, cpu = runs * batch, time.perf_counter() - begin, time.process_time() - cpu
print(json.dumps({"images_per_second": images / spent, "images_per_cpu_second": images / cpu}))
"""


def export(name: str, path: Path) -> None:
    """A network of random weights, as publishing would write it: uint8 in, logits and probabilities out."""
    import torch  # noqa: PLC0415

    from adaptd.learning.torchvision_compat import import_torchvision  # noqa: PLC0415

    nn, size = torch.nn, SIZES[name]

    class Served(nn.Module):
        def __init__(self, net: Any) -> None:
            super().__init__()
            self.net = net

        def forward(self, images: Any) -> Any:
            logits = self.net(images.float() / 127.5 - 1)
            return logits, logits.softmax(1)

    if name == "lenet":
        convolutions = [nn.Conv2d(3, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2)]
        net: Any = nn.Sequential(
            *convolutions, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4096, 256), nn.ReLU(), nn.Linear(256, CLASSES)
        )
    else:
        net = import_torchvision().models.resnet18(num_classes=CLASSES)
    names, example = ("images", "logits", "probabilities"), torch.zeros(2, 3, size, size, dtype=torch.uint8)
    torch.onnx.export(
        Served(net).eval(),
        (example,),
        str(path),
        dynamo=False,
        opset_version=18,
        input_names=names[:1],
        output_names=names[1:],
        dynamic_axes={each: {0: "n"} for each in names},
    )


def make_project(folder: Path, name: str, model: bytes) -> None:
    """A project with one published version."""
    place = folder / "models" / name / "1"
    place.mkdir(parents=True)
    (folder / "adaptd.toml").write_text(render_toml({"model.name": name, "model.image_size": SIZES[name]}))
    (place / "model.onnx").write_bytes(model)
    card = Card(
        model=name,
        version=1,
        episode=0,
        domain="source",
        created_at=datetime.now(UTC),
        backbone=name,
        classes=tuple(str(number) for number in range(CLASSES)),
        preprocessing=Preprocessing(SIZES[name]),
        weights_sha256="",
        config_hash="",
        gate=GateOutcome(passed=True, reasons=("For a benchmark.",)),
        parity=Parity(exporter="torchscript", max_error=0, equal_argmax=1, ties=0, tolerance=None, images={}),
        model_sha256=hashlib.sha256(model).hexdigest(),
        versions=software_versions(),
    )
    (place / CARD_FILE).write_text(card.to_text())


def make_request(contestant: str, name: str, batch: int) -> bytes:
    """One whole HTTP request."""
    size = SIZES[name]
    pixels = np.random.default_rng(0).integers(0, 256, (batch, 3, size, size), dtype=np.uint8).tobytes()
    text = base64.b64encode(pixels).decode()
    path, head, body = {"litserve": "/predict", "bentoml": "/infer"}.get(contestant, f"/v2/models/{name}/infer"), "", b""
    match contestant:
        case "litserve":
            head, body = "content-type: application/json\r\n", json.dumps({"images": text}).encode()
        case "bentoml":
            head, body = "content-type: application/json\r\n", json.dumps({"images": [text]}).encode()
        case _:
            binary = {"binary_data_size": len(pixels)}
            tensor = {"name": "images", "shape": [batch, 3, size, size], "datatype": "UINT8", "parameters": binary}
            wanted = {"inputs": [tensor], "outputs": [{"name": "probabilities", "parameters": {"binary_data": True}}]}
            header = json.dumps(wanted).encode()
            head, body = f"inference-header-content-length: {len(header)}\r\n", header + pixels
    return f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body


@dataclass
class Contestant:
    """A running server, and all of its processes."""

    name: str
    process: subprocess.Popen[bytes]
    port: int

    def processes(self) -> dict[int, float]:
        """Every process of its tree, with the seconds of processor time it took; some peers' workers leave the group."""
        parents, seconds = {}, {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            pid = int(stat.parent.name)
            parents[pid] = int(fields[1])
            seconds[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        tree = {self.process.pid}
        while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
            tree |= more
        return {pid: seconds.get(pid, 0.0) for pid in tree}

    def signal(self, number: int) -> None:
        """To every process of it."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def cpu_seconds(self) -> float:
        """What its processes took so far."""
        return sum(self.processes().values())

    def settle(self, seconds: float = 10) -> None:
        """Wait until it has nothing left to do: requests of clients that went away must not burden its next turn."""
        deadline, before = time.monotonic() + seconds, -1.0
        while time.monotonic() < deadline and (now := self.cpu_seconds()) - before > 0.02:
            before = now
            time.sleep(0.3)

    def wait_for_port(self, seconds: float = 60) -> bool:
        """Whether it starts to listen."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return True
        return False


def free_port() -> int:
    """A port nobody uses at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def find_peers(named: Path | None) -> Path | None:
    """The interpreter that was named, if it has the peers, or that of an environment of their own."""
    if named is None:
        return install_peers()
    if has_peers(named):
        return named
    print(f"peers are left out: {named} does not have them; {named} -m pip install litserve bentoml onnxruntime")
    return None


def has_peers(python: Path) -> bool:
    """Whether an interpreter can run them."""
    check = [str(python), "-c", "import litserve, bentoml, onnxruntime"]
    return python.exists() and subprocess.run(check, check=False, capture_output=True).returncode == 0


def install_peers() -> Path | None:
    """The peers' interpreter, in an environment of its own; None, with a message, where it cannot be had."""
    python = CACHE / "bin" / "python"
    if has_peers(python):
        return python
    import onnxruntime  # noqa: PLC0415

    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("torch==2.13.0\n")
        constraints.flush()
        packages = ["litserve", "bentoml", f"onnxruntime=={onnxruntime.__version__}"]
        commands = [
            [sys.executable, "-m", "venv", str(CACHE)],
            [str(python), "-m", "pip", "install", "-q", "-c", constraints.name, *packages],
        ]
        for command in commands:
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode:
                print(f"peers are left out, they cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
                return None
    return python if has_peers(python) else None


@contextmanager
def running(project: Path, model: Path, peers: Path | None) -> Iterator[list[Contestant]]:
    """Every contestant that starts, stopped in its tracks until it is its turn."""
    started: list[Contestant] = []
    environ = os.environ | {"PEER_MODEL": str(model), "PEER_THREADS": str(cpu_count()), "BENTOML_DO_NOT_TRACK": "True"}
    commands = {"adaptd": [sys.executable, "-m", "adaptd.cli.main", "--project", str(project), "serve", "--port", "PORT"]}
    if peers:
        commands["litserve"] = [str(peers), "litserve_app.py"]
        commands["bentoml"] = [str(peers.with_name("bentoml")), "serve", "bentoml_app:App", "--port", "PORT"]
    try:
        for name, command in commands.items():
            port = free_port()
            process = subprocess.Popen(
                [str(port) if word == "PORT" else word for word in command],
                env=environ | {"PEER_PORT": str(port)},
                cwd=None if name == "adaptd" else Path(__file__).with_name("serving_peers"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            contestant = Contestant(name, process, port)
            started.append(contestant)
            if not contestant.wait_for_port():
                print(f"{name} is left out: it did not start")
                contestant.signal(signal.SIGKILL)
                started.remove(contestant)
        time.sleep(3)  # workers behind an open port may still be loading
        for contestant in started:
            contestant.signal(signal.SIGSTOP)
        yield started
    finally:
        for contestant in started:
            contestant.signal(signal.SIGKILL)
            contestant.process.wait()


def measure(contestant: Contestant, request: Path, clients: int, batch: int, seconds: float) -> dict[str, float]:
    """One short while of load.

    Raises:
        ConnectionError: a request was refused, or a connection closed.
    """
    order = request.with_suffix(".json")
    warm = 0.3
    order.write_text(
        json.dumps(
            {"request": str(request), "port": contestant.port, "clients": clients, "warm_seconds": warm, "seconds": seconds}
        )
    )
    contestant.signal(signal.SIGCONT)
    before = contestant.cpu_seconds()
    command = [sys.executable, "-m", "benchmarks.http_load", str(order)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    spent = contestant.cpu_seconds() - before
    contestant.settle()
    contestant.signal(signal.SIGSTOP)
    if done.returncode:
        raise ConnectionError(" ".join(done.stderr.rpartition("Error: ")[2].split()))
    found = json.loads(done.stdout)
    rate = found["requests_per_second"] * batch
    return {
        "images_per_second": rate,
        "images_per_cpu_second": rate * (found["seconds"] + warm) / max(spent, 0.01),
        "p50_ms": found["p50"] * 1000,
        "p99_ms": found["p99"] * 1000,
    }


def bare(model: Path, size: int, batch: int, seconds: float) -> dict[str, float]:
    """The session in a loop, nothing around it."""
    command = [sys.executable, "-c", BARE, str(size), str(batch), str(seconds)]
    environ = os.environ | {"PEER_MODEL": str(model), "PEER_THREADS": str(cpu_count())}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environ)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure_gemm() -> dict[str, float]:
    """How fast this machine is at the moment."""
    square = np.random.default_rng(0).random((1024, 1024), dtype=np.float32)
    begin = time.perf_counter()
    for _ in range(5):
        square @ square
    return {"gflops": 5 * 2 * 1024**3 / (time.perf_counter() - begin) / 1e9}


def run_model(name: str, peers: Path | None, rounds: int, seconds: float) -> dict[str, list[dict[str, float]]]:
    """All contestants in all cases, round by round."""
    rows: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        model, project = Path(folder) / "model.onnx", Path(folder) / "project"
        export(name, model)
        make_project(project, name, model.read_bytes())
        with running(project, model, peers) as contestants:
            for _ in range(rounds):
                rows.setdefault(GEMM, []).append(measure_gemm())
                for clients, batch in CASES:
                    case = f"{name} {clients} clients, batch {batch}"
                    rows.setdefault(f"{case}: bare", []).append(bare(model, SIZES[name], batch, seconds))
                    if clients * batch == 32 and batch == 1:
                        rows.setdefault(f"{case}: bare, batch 32", []).append(bare(model, SIZES[name], 32, seconds))
                    for contestant in contestants:
                        request = Path(folder) / f"{contestant.name}.request"
                        request.write_bytes(make_request(contestant.name, name, batch))
                        try:
                            found = measure(contestant, request, clients, batch, seconds)
                        except ConnectionError as problem:
                            print(f"{case}: {contestant.name} is left out: {problem}")
                        else:
                            rows.setdefault(f"{case}: {contestant.name}", []).append(found)
    return {title: found for title, found in rows.items() if len(found) == rounds}


def print_table(rows: dict[str, list[dict[str, float]]]) -> None:
    """Median and p25 of images per second, ratios to the bare loop, and latencies."""
    print(f"{'':42} {'img/s':>8} {'p25':>8} {'of bare':>8} {'per CPU':>8} {'p50 ms':>8} {'p99 ms':>8}")
    for title, found in ((title, found) for title, found in rows.items() if title != GEMM):
        base = rows[f"{title.partition(':')[0]}: bare"]
        median = {key: statistics.median(row[key] for row in found) for key in found[0]}
        ratios = [
            statistics.median(row[key] / reference[key] for row, reference in zip(found, base, strict=True))
            for key in ("images_per_second", "images_per_cpu_second")
        ]
        low = sorted(row["images_per_second"] for row in found)[len(found) // 4]
        latency = f"{median['p50_ms']:8.1f} {median['p99_ms']:8.1f}" if "p50_ms" in median else ""
        print(f"{title:42} {median['images_per_second']:8.0f} {low:8.0f} {ratios[0]:8.2f} {ratios[1]:8.2f} {latency}")
    speeds = sorted(row["gflops"] for row in rows[GEMM])
    print(f"{GEMM}: {statistics.median(speeds):.0f} GFLOP/s, p25 {speeds[len(speeds) // 4]:.0f}")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--models", default="lenet,resnet18")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--peers-python", type=Path, help="the interpreter of an environment that has LitServe and BentoML")
    args = parser.parse_args()
    peers = None if args.no_peers else find_peers(args.peers_python)
    rows: dict[str, list[dict[str, float]]] = {}
    for name in args.models.split(","):
        measured = run_model(name, peers, args.rounds, args.seconds)
        rows |= measured | {GEMM: rows.get(GEMM, []) + measured[GEMM]}
    print_table(rows)
    OUT.mkdir(exist_ok=True)
    (OUT / "serving.json").write_text(
        json.dumps({"arguments": vars(args), "threads": cpu_count(), "rows": rows}, indent=2, default=str)
    )


if __name__ == "__main__":
    main()
