"""The protocol over gRPC: unmodified tritonclient against a real server, the same answers as over HTTP, and hostile clients."""

import asyncio
import re
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from .conftest import NAME, SIZE, expected, make_onnx, models, publish, random_images, wait_until

grpc = pytest.importorskip("grpc", reason="gRPC is not installed: pip install 'adaptd[grpc]'")
triton = pytest.importorskip("tritonclient.grpc", reason="pip install 'tritonclient[grpc]'")
from tritonclient.grpc import service_pb2, service_pb2_grpc  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

from adaptd.serving.rpc import Readings  # noqa: E402
from adaptd.serving.rpc_messages import MESSAGES, build_messages  # noqa: E402

Code = grpc.StatusCode


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.fixture(scope="module")
def server(shop, start):
    """Versions 1, 2 and 4, and small limits."""
    for version in (1, 2, 4):
        publish(models(shop), version)
    return start(shop, grpc_port=free_port(), max_request_bytes=3_000_000, request_seconds=2)


def grpc_port(server) -> int:
    """Where it answers."""
    return int(re.search(r"gRPC on port (\d+)", server.line)[1])


@pytest.fixture
def client(server):
    """Triton's own."""
    with triton.InferenceServerClient(f"127.0.0.1:{grpc_port(server)}") as client:
        yield client


@pytest.fixture
def stub(server):
    """Messages as they are; afterwards the server must still answer."""
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{grpc_port(server)}", options=options) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ModelInfer(question(random_images(1))).model_version == "4"


def tensor(images: np.ndarray, kind: str = "UINT8", name: str = "images") -> triton.InferInput:
    """An input as tritonclient makes it."""
    return triton.InferInput(name, list(images.shape), kind).set_data_from_numpy(images)


def question(images: np.ndarray, **changes: object) -> service_pb2.ModelInferRequest:
    """The same as a message."""
    made = service_pb2.ModelInferRequest(model_name=NAME, raw_input_contents=[images.tobytes()])
    made.inputs.add(name="images", datatype="UINT8", shape=images.shape)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def refused(call, *arguments: object, **options: object) -> tuple[Code, str]:
    """How a call fails."""
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **options, timeout=30)
    return caught.value.code(), caught.value.details()


def test_messages_are_the_public_ones():
    """Every field has the number and the type that tritonclient's own description of the protocol has."""
    public: dict[str, dict[str, tuple]] = {}

    def collect(descriptor) -> None:
        public[descriptor.name] = {field.name: (field.number, field.type, field.is_repeated) for field in descriptor.fields}
        for nested in descriptor.nested_types:
            collect(nested)

    for name in MESSAGES:
        if hasattr(service_pb2, name):
            collect(getattr(service_pb2, name).DESCRIPTOR)
    for name, made in build_messages().items():
        ours = {field.name: (field.number, field.type, field.is_repeated) for field in made.DESCRIPTOR.fields}
        assert ours.items() <= public[name].items(), name


class TestTritonClient:
    def test_health_and_metadata(self, client):
        """As over HTTP."""
        assert client.is_server_live()
        assert client.is_server_ready()
        assert [client.is_model_ready(*asked) for asked in ((NAME,), (NAME, "1"), (NAME, "3"), ("other",))] == [
            True,
            True,
            False,
            False,
        ]
        assert client.get_server_metadata().name == "adaptd"
        metadata = client.get_model_metadata(NAME, as_json=True)
        assert metadata["versions"] == ["1", "2", "4"]
        assert metadata["inputs"] == [{"name": "images", "datatype": "UINT8", "shape": ["-1", "3", str(SIZE), str(SIZE)]}]
        assert [output["name"] for output in metadata["outputs"]] == ["logits", "probabilities"]

    @pytest.mark.parametrize(("version", "answers"), [("", 4), ("1", 1), ("2", 2)])
    def test_infer(self, client, version, answers):
        """Bit for bit what the version says, for one image and for a full batch."""
        for count in (1, 64):
            images = random_images(count, seed=count)
            answer = client.infer(NAME, [tensor(images)], model_version=version, request_id="seven")
            assert (answer.get_response().model_version, answer.get_response().id) == (str(answers), "seven")
            for name, values in zip(("logits", "probabilities"), expected(answers, images), strict=True):
                np.testing.assert_array_equal(answer.as_numpy(name), values)

    def test_wanted_outputs_and_classes(self, client):
        """One output alone, and the best classes by name."""
        images = random_images(2)
        wanted = triton.InferRequestedOutput("probabilities", class_count=2)
        answer = client.infer(NAME, [tensor(images)], outputs=[wanted])
        assert answer.as_numpy("logits") is None
        best = [text.decode().split(":") for text in answer.as_numpy("probabilities").ravel()]
        order = np.argsort(-expected(4, images)[1], axis=1)[:, :2].ravel()
        assert [int(index) for _, index, _ in best] == order.tolist()

    def test_errors_have_their_codes(self, client):
        """What over HTTP is 400 or 404."""
        images = random_images(1)

        def code(*arguments: object, **options: object) -> str:
            with pytest.raises(InferenceServerException) as caught:
                client.infer(*arguments, **options)
            return caught.value.status()

        assert code("other", [tensor(images)]) == "StatusCode.NOT_FOUND"
        assert code(NAME, [tensor(images)], model_version="3") == "StatusCode.NOT_FOUND"
        assert code(NAME, [tensor(images)], model_version="03") == "StatusCode.INVALID_ARGUMENT"
        assert code(NAME, [tensor(random_images(65))]) == "StatusCode.INVALID_ARGUMENT"
        assert code(NAME, [tensor(images.astype(np.int8), "INT8")]) == "StatusCode.INVALID_ARGUMENT"
        assert code(NAME, [tensor(images, name="pictures")]) == "StatusCode.INVALID_ARGUMENT"
        assert code(NAME, [tensor(images)], outputs=[triton.InferRequestedOutput("nothing")]) == "StatusCode.INVALID_ARGUMENT"
        with pytest.raises(InferenceServerException, match="UNIMPLEMENTED"):
            client.get_inference_statistics(NAME)


class TestMessages:
    def test_numbers_instead_of_bytes(self, stub):
        """`uint_contents`, for clients without raw bytes; a number that is no pixel is refused."""
        images = random_images(2)
        made = question(images)
        del made.raw_input_contents[:]
        made.inputs[0].contents.uint_contents.extend(images.ravel().tolist())
        answer = stub.ModelInfer(made)
        np.testing.assert_array_equal(np.frombuffer(answer.raw_output_contents[1], "<f4").reshape(2, 3), expected(4, images)[1])
        made.inputs[0].contents.uint_contents[7] = 256
        assert refused(stub.ModelInfer, made) == (Code.INVALID_ARGUMENT, "data of input images must be integers from 0 to 255")

    def test_nonsense(self, stub):
        """Twice, too little, too much, nothing, a long id."""
        images = random_images(1)
        twice, short, two, none = question(images), question(images), question(images), question(images)
        twice.raw_input_contents.append(b"")
        short.raw_input_contents[0] = b"123"
        two.inputs.add(name="images")
        del none.inputs[:]
        for wrong in (twice, short, two, none, question(images, id="x" * 2000)):
            assert refused(stub.ModelInfer, wrong)[0] is Code.INVALID_ARGUMENT

    def test_no_protobuf(self, server, stub):
        """Bytes that are no message."""
        with grpc.insecure_channel(f"127.0.0.1:{grpc_port(server)}") as channel:
            call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
            assert refused(call, b"\xff" * 50)[0] is Code.INVALID_ARGUMENT
            other = channel.unary_unary("/inference.GRPCInferenceService/Nothing")
            assert refused(other, b"")[0] is Code.UNIMPLEMENTED

    def test_large_messages(self, server, stub):
        """Refused by its announced length; what is within the limit but no batch, before it is parsed."""
        before = resident(server)
        big = question(random_images(1))
        big.raw_input_contents[0] = bytes(64_000_000)
        code, _ = refused(stub.ModelInfer, big)
        assert code is Code.RESOURCE_EXHAUSTED
        big.raw_input_contents[0] = bytes(2_000_000)
        assert refused(stub.ModelInfer, big)[0] is Code.RESOURCE_EXHAUSTED
        assert resident(server) - before < 40_000_000

    def test_compressed_messages(self, server, stub):
        """Are unpacked, as far as they fit: a bomb is refused, and costs no memory."""
        assert stub.ModelInfer(question(random_images(2)), compression=grpc.Compression.Gzip).model_version == "4"
        before, bomb = resident(server), question(random_images(1))
        bomb.raw_input_contents[0] = bytes(64_000_000)
        assert refused(stub.ModelInfer, bomb, compression=grpc.Compression.Gzip)[0] is Code.RESOURCE_EXHAUSTED
        assert resident(server) - before < 40_000_000

    def test_slow_clients_make_room(self, server, stub):
        """Calls that send nothing, more than there are places: others are answered, and these are told."""
        slow = [threading.Event() for _ in range(120)]

        def never(event: threading.Event):
            event.wait(30)
            yield from ()

        with grpc.insecure_channel(f"127.0.0.1:{grpc_port(server)}") as channel:
            call = channel.stream_unary("/inference.GRPCInferenceService/ModelInfer")
            waiting = [call.future(never(event)) for event in slow]
            time.sleep(0.5)
            begin = time.monotonic()
            assert stub.ModelInfer(question(random_images(1)), timeout=20).model_version == "4"
            assert time.monotonic() - begin < 20
            assert waiting[0].exception(20).code() is Code.DEADLINE_EXCEEDED
            for event in slow:
                event.set()


def test_places_for_messages():
    """The newest that waits is next, the oldest goes where too many wait, and nobody who leaves takes a place along."""

    async def play() -> list[object]:
        readings, silent = Readings(1, 3, 60), asyncio.Event()

        async def send(text: bytes) -> bytes:
            if text == b"never":
                await silent.wait()
            heard.append(text)
            return text

        heard: list[object] = []
        tasks = []
        for text in (b"never", b"1", b"2", b"3", b"4", b"5"):
            tasks.append(asyncio.create_task(readings.read(lambda text=text: send(text))))
            await asyncio.sleep(0)
        tasks[-1].cancel()  # 3 and 4 are left: 1 and 2 were sent away
        heard += await asyncio.gather(*tasks, return_exceptions=True)
        for moment in range(20):  # cancelled at each
            task = asyncio.create_task(readings.read(lambda: send(b"x")))
            for _ in range(moment % 7):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert (readings._free, readings._waiting) == (1, {})
        return [str(item) if isinstance(item, Exception) else item for item in heard]

    heard = asyncio.run(play())
    assert heard[:2] == [b"4", b"3"]
    slow, first, second, third, fourth, _ = heard[2:8]
    assert ["too long" in slow, "too many" in first, "too many" in second] == [True, True, True]
    assert (third, fourth) == (b"3", b"4")


def test_clients_that_leave(fresh, start):
    """While they wait, or send: they are counted, nothing runs for them, and no log is written about it."""
    publish(models(fresh), 1, make_onnx(1, depth=600))
    server = start(fresh, grpc_port=free_port(), max_batch_size=1)
    with grpc.insecure_channel(f"127.0.0.1:{grpc_port(server)}") as channel, server.client() as http:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        calls = [stub.ModelInfer.future(question(random_images(1))) for _ in range(12)]
        wait_until(lambda: begun(http) >= 3)
        for call in calls:
            call.cancel()
        assert stub.ModelInfer(question(random_images(1))).model_version == "1"
        wait_until(lambda: 'adaptd_requests_total{code="499",endpoint="infer"}' in http.get("/metrics").text)
        assert "adaptd_queue_depth 0.0" in http.get("/metrics").text
    assert server.stop() == 0
    assert server.errors[1:] == []


def resident(server) -> int:
    """The most memory that the server had so far, in bytes."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) * 1024


def test_a_token(fresh, start):
    """As over HTTP: health is open, nothing else, and the message of a stranger is not even received."""
    publish(models(fresh), 1)
    server = start(fresh, token="secret", grpc_port=free_port())
    with triton.InferenceServerClient(f"127.0.0.1:{grpc_port(server)}") as client:
        assert client.is_server_ready()
        for headers in (
            None,
            {"authorization": "Bearer wrong"},
            {"authorization": "secret"},
            {"authorization": "Basic eDpzZWNyZXQ="},
        ):
            for call in (client.get_server_metadata, lambda **options: client.infer(NAME, [tensor(random_images(1))], **options)):
                with pytest.raises(InferenceServerException, match="UNAUTHENTICATED"):
                    call(headers=headers)
        assert client.infer(NAME, [tensor(random_images(1))], headers={"authorization": "Bearer secret"})
    with server.client(headers={"Authorization": "Bearer secret"}) as http:
        text = http.get("/metrics").text
    for code, endpoint, count in ((401, "infer", 4), (401, "model", 4), (200, "infer", 1), (200, "health", 1)):
        assert f'adaptd_requests_total{{code="{code}",endpoint="{endpoint}"}} {count}.0' in text


def begun(http) -> int:
    """Calls that wait or were answered."""
    found = re.findall(
        r'(?:adaptd_queue_depth|adaptd_requests_total{code="200",endpoint="infer"}) (\d+)', http.get("/metrics").text
    )
    return sum(map(int, found))


def test_swaps_and_leaves_in_order(fresh, start):
    """The newest version takes over between two calls; on SIGTERM what was begun is answered and nothing more accepted."""
    server = start(fresh, grpc_port=free_port(), max_batch_size=1)
    address = f"127.0.0.1:{grpc_port(server)}"
    with triton.InferenceServerClient(address) as client:
        assert not client.is_server_ready()
        with pytest.raises(InferenceServerException, match="UNAVAILABLE"):
            client.infer(NAME, [tensor(random_images(1))])
        publish(models(fresh), 1)
        wait_until(client.is_server_ready)
        publish(models(fresh), 2, make_onnx(2, depth=600))
        answered = set()
        while answered != {"1", "2"}:
            answered.add(client.infer(NAME, [tensor(random_images(1))]).get_response().model_version)
        answers: list[object] = []
        with server.client() as http:
            before = begun(http)
            for _ in range(8):
                client.async_infer(
                    NAME, [tensor(random_images(1))], callback=lambda result, error: answers.append(error or result)
                )
            wait_until(lambda: begun(http) >= before + 7)  # beside the one that runs
        assert server.stop() == 0
        wait_until(lambda: len(answers) == 8)
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", grpc_port(server)), 5)


def test_a_port_in_use(adaptd, fresh):
    """Exit 1, with the remedy."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        run = adaptd("--project", fresh, "serve", "--port", "0", "--grpc-port", taken.getsockname()[1])
    assert (run.returncode, "choose another serving.grpc_port" in run.stderr) == (1, True)
