"""The protocol as its own clients speak it: unmodified tritonclient, and JSON as KServe publishes it."""

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from .conftest import CLASSES, NAME, SIZE, expected, make_onnx, models, publish, random_images


@pytest.fixture(scope="module")
def server(shop, start):
    """Versions 1, 2 and 4."""
    for version in (1, 2, 4):
        publish(models(shop), version)
    return start(shop)


@pytest.fixture
def client(server):
    """Triton's own client."""
    with triton.InferenceServerClient(server.address) as client:
        yield client


def tensor(images: np.ndarray, *, binary: bool = True, name: str = "images", kind: str = "UINT8") -> triton.InferInput:
    """An input as tritonclient makes it."""
    made = triton.InferInput(name, list(images.shape), kind)
    return made.set_data_from_numpy(images, binary_data=binary)


class TestTritonClient:
    def test_health(self, client):
        """Live, ready, and so is the model; another model or version is not."""
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready(NAME)
        assert client.is_model_ready(NAME, "1")
        assert not client.is_model_ready(NAME, "3")
        assert not client.is_model_ready("other")

    def test_metadata(self, client):
        """The server and the model describe themselves."""
        assert client.get_server_metadata()["name"] == "adaptd"
        assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
        metadata = client.get_model_metadata(NAME)
        assert metadata["versions"] == ["1", "2", "4"]
        assert metadata["inputs"] == [{"name": "images", "datatype": "UINT8", "shape": [-1, 3, SIZE, SIZE]}]
        assert [(out["name"], out["datatype"], out["shape"]) for out in metadata["outputs"]] == [
            ("logits", "FP32", [-1, 3]),
            ("probabilities", "FP32", [-1, 3]),
        ]

    def test_config(self, client):
        """The configuration is Triton's, known from the session."""
        config = client.get_model_config(NAME)
        assert (config["name"], config["platform"], config["max_batch_size"]) == (NAME, "onnxruntime_onnx", 64)
        assert config["input"] == [{"name": "images", "data_type": "TYPE_UINT8", "dims": [3, SIZE, SIZE]}]
        assert client.get_model_config(NAME, "2")["output"][1]["dims"] == [len(CLASSES)]

    def test_index(self, client):
        """Every version in the repository, ready."""
        rows = client.get_model_repository_index()
        assert [(row["name"], row["version"], row["state"]) for row in rows] == [(NAME, v, "READY") for v in "124"]

    def test_statistics_count_requests_images_and_runs(self, client):
        """What a version did so far."""
        before = client.get_inference_statistics(NAME, "2")["model_stats"][0]
        for count in (3, 5):
            client.infer(NAME, [tensor(random_images(count))], "2")
        after = client.get_inference_statistics(NAME, "2")["model_stats"][0]
        assert after["version"] == "2"
        assert after["inference_count"] - before["inference_count"] == 8
        assert after["execution_count"] - before["execution_count"] == 2
        assert after["inference_stats"]["success"]["count"] - before["inference_stats"]["success"]["count"] == 2
        assert {3, 5} <= {row["batch_size"] for row in after["batch_stats"]}
        assert client.get_inference_statistics()["model_stats"][0]["version"] == "4"

    @pytest.mark.parametrize("binary_in", [True, False])
    @pytest.mark.parametrize("binary_out", [True, False])
    def test_infer(self, client, binary_in, binary_out):
        """Binary or JSON, either way: exactly the session's answers, and the version and id beside them."""
        images = random_images(3)
        outputs = [triton.InferRequestedOutput(name, binary_data=binary_out) for name in ("probabilities", "logits")]
        result = client.infer(NAME, [tensor(images, binary=binary_in)], outputs=outputs, request_id="question 7")
        logits, probabilities = expected(4, images)
        assert np.array_equal(result.as_numpy("logits"), logits)
        assert np.array_equal(result.as_numpy("probabilities"), probabilities)
        response = result.get_response()
        assert (response["model_name"], response["model_version"], response["id"]) == (NAME, "4", "question 7")
        assert [out["name"] for out in response["outputs"]] == ["probabilities", "logits"]

    @pytest.mark.parametrize("count", [1, 2, 17, 64])
    def test_batches(self, client, count):
        """Up to the largest batch; without named outputs all come, as binary."""
        images = random_images(count, seed=count)
        result = client.infer(NAME, [tensor(images)])
        assert np.array_equal(result.as_numpy("logits"), expected(4, images)[0])
        assert np.array_equal(result.as_numpy("probabilities"), expected(4, images)[1])

    @pytest.mark.parametrize("version", ["1", "2"])
    def test_an_old_version_by_number(self, client, version):
        """The version asked for answers, not the newest."""
        images = random_images(4)
        result = client.infer(NAME, [tensor(images)], version)
        assert np.array_equal(result.as_numpy("logits"), expected(int(version), images)[0])
        assert result.get_response()["model_version"] == version

    @pytest.mark.parametrize("how", ["gzip", "deflate"])
    def test_compressed_requests(self, client, how):
        """A compressed body is unpacked."""
        images = random_images(5)
        result = client.infer(NAME, [tensor(images)], request_compression_algorithm=how, response_compression_algorithm=how)
        assert np.array_equal(result.as_numpy("logits"), expected(4, images)[0])

    @pytest.mark.parametrize("binary", [True, False])
    def test_classification(self, client, binary):
        """The best classes as value:index:label."""
        images = random_images(2)
        wanted = [triton.InferRequestedOutput("probabilities", binary_data=binary, class_count=2)]
        found = client.infer(NAME, [tensor(images)], outputs=wanted).as_numpy("probabilities")
        assert found.shape == (2, 2)
        for row, probabilities in zip(found, expected(4, images)[1], strict=True):
            best = int(probabilities.argmax())
            text = row[0].decode() if isinstance(row[0], bytes) else row[0]
            assert text == f"{probabilities[best]:f}:{best}:{CLASSES[best]}"

    @pytest.mark.parametrize(
        ("images", "how", "message"),
        [
            (random_images(1), {"name": "pixels"}, "unexpected inference input 'pixels'"),
            (random_images(1).astype(np.float32), {"kind": "FP32"}, "the model takes UINT8"),
            (random_images(1)[:, :, :4], {}, r"expected \[-1,3,8,8\], got \[1, 3, 4, 8\]"),
            (random_images(1)[0], {}, "unexpected shape"),
            (random_images(65), {}, "a request's batch must be of 1 to 64 images, not 65"),
            (random_images(0), {}, "a request's batch must be of 1 to 64 images, not 0"),
        ],
    )
    def test_wrong_tensors_give_its_normal_error(self, client, images, how, message):
        """InferenceServerException, with what is wrong."""
        with pytest.raises(InferenceServerException, match=message) as caught:
            client.infer(NAME, [tensor(images, **how)])
        assert caught.value.status() == "400"

    def test_wrong_names_give_its_normal_error(self, client):
        """Model, version and output."""
        question = [tensor(random_images(1))]
        with pytest.raises(InferenceServerException, match="unknown model 'other'"):
            client.infer("other", question)
        with pytest.raises(InferenceServerException, match="has no version 3"):
            client.infer(NAME, question, "3")
        with pytest.raises(InferenceServerException, match="unexpected inference output 'colour'"):
            client.infer(NAME, question, outputs=[triton.InferRequestedOutput("colour")])


class TestJsonClients:
    def test_health(self, server):
        """KServe's client reads the bodies."""
        with server.client() as http:
            assert http.get("/v2/health/live").json()["live"] is True
            assert http.get("/v2/health/ready").json()["ready"] is True
            assert http.get(f"/v2/models/{NAME}/ready").json() == {"name": NAME, "ready": True}
            assert http.get("/v2/").json()["name"] == "adaptd"

    @pytest.mark.parametrize("nested", [True, False])
    def test_infer(self, server, nested):
        """Data flat or nested, answers flat, floats exact."""
        images = random_images(2)
        data = images.tolist() if nested else images.ravel().tolist()
        question = {"inputs": [{"name": "images", "shape": [2, 3, SIZE, SIZE], "datatype": "UINT8", "data": data}]}
        with server.client() as http:
            answer = http.post(f"/v2/models/{NAME}/infer", json=question).json()
        assert (answer["model_name"], answer["model_version"]) == (NAME, "4")
        assert "id" not in answer
        for output, wanted in zip(answer["outputs"], expected(4, images), strict=True):
            assert (output["datatype"], output["shape"]) == ("FP32", [2, 3])
            assert np.array_equal(np.array(output["data"], np.float32), wanted.ravel())

    def test_mixed_outputs(self, server):
        """One output as JSON, the other as binary, in one response."""
        images = random_images(1)
        question = {
            "inputs": [{"name": "images", "shape": [1, 3, SIZE, SIZE], "datatype": "UINT8", "data": images.tolist()}],
            "outputs": [{"name": "logits"}, {"name": "probabilities", "parameters": {"binary_data": True}}],
        }
        with server.client() as http:
            response = http.post(f"/v2/models/{NAME}/infer", json=question)
        length = int(response.headers["inference-header-content-length"])
        assert np.array_equal(np.frombuffer(response.content[length:], "<f4"), expected(4, images)[1].ravel())

    def test_head_and_unknown_methods(self, server):
        """HEAD works where GET does; anything else is told which to use."""
        with server.client() as http:
            assert http.head("/v2/health/live").status_code == 200
            assert http.get(f"/v2/models/{NAME}/infer").json() == {"error": "use POST here"}
            assert http.delete("/v2").status_code == 405


def test_models_are_as_small_and_slow_as_wanted():
    """The slow model of other tests answers like the quick one."""
    import onnxruntime

    images = random_images(2)
    slow = onnxruntime.InferenceSession(make_onnx(1, depth=2)).run(None, {"images": images})
    assert np.array_equal(slow[0], expected(1, images)[0])
