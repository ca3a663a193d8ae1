"""Image files become labels: posted to a server, or offline with `adaptd predict`."""

import json
import subprocess
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from adaptd.library.decode import decode_bytes
from adaptd.library.preprocessing import Limits, Preprocessing

from .conftest import CLASSES, NAME, SIZE, expected, models, publish


def picture(seed: int, suffix: str = "PNG") -> bytes:
    """A file of 20 by 30 noisy pixels."""
    target = BytesIO()
    noise = np.random.default_rng(seed).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    Image.fromarray(noise).save(target, suffix)
    return target.getvalue()


def right(version: int, data: bytes) -> dict:
    """What must come out, decoded and asked directly."""
    pixels = decode_bytes(data, Preprocessing(SIZE), Limits()).pixels
    probabilities = expected(version, pixels[None])[1][0]
    top = [{"label": CLASSES[i], "probability": round(float(probabilities[i]), 6)} for i in np.argsort(-probabilities)]
    return {**top[0], "top": top}


@pytest.fixture(scope="module")
def server(shop, start):
    """Two versions."""
    publish(models(shop), 1)
    publish(models(shop), 2)
    return start(shop)


class TestOverHttp:
    @pytest.mark.parametrize("suffix", ["PNG", "JPEG", "WEBP"])
    def test_a_file_as_the_body(self, server, suffix):
        """Whatever the content type says."""
        with server.client() as http:
            for kind in ({}, {"Content-Type": "application/x-www-form-urlencoded"}, {"Content-Type": "image/any"}):
                answer = http.post("/predict", content=picture(1, suffix), headers=kind).json()
                assert answer == {"model": NAME, "version": "2", "predictions": [right(2, picture(1, suffix))]}

    def test_files_as_a_form(self, server):
        """Several at once, in order; a bad one has its reason, and does not spoil the others."""
        files = [("image", (f"{n}.png", data)) for n, data in enumerate([picture(1), b"nothing", picture(2)])]
        with server.client() as http:
            answer = http.post("/predict", files=files)
        assert answer.status_code == 200
        first, second, third = answer.json()["predictions"]
        assert (first, third) == (right(2, picture(1)), right(2, picture(2)))
        assert "not-an-image" in second["error"]

    def test_more_files_than_a_batch(self, server):
        """They run piece by piece."""
        with server.client() as http:
            answer = http.post("/predict", files=[("image", picture(n)) for n in range(70)]).json()
        assert answer["predictions"] == [right(2, picture(n)) for n in range(70)]

    def test_an_old_version(self, server):
        """By number; one that is none is refused."""
        with server.client() as http:
            assert http.post("/predict?version=1", content=picture(1)).json()["predictions"] == [right(1, picture(1))]
            assert http.post("/predict?version=7", content=picture(1)).status_code == 404
            assert http.post("/predict?version=../1", content=picture(1)).status_code == 400
            assert http.post("/predict?version=", content=picture(1)).status_code == 400

    @pytest.mark.parametrize("words", [["--data-binary", "@{}"], ["-F", "image=@{}"], ["-T", "{}", "-X", "POST"]])
    def test_curl(self, server, tmp_path, words):
        """As the guide shows it."""
        (tmp_path / "x.jpg").write_bytes(picture(3, "JPEG"))
        command = ["curl", "-sS", *[word.format(tmp_path / "x.jpg") for word in words], f"http://{server.address}/predict"]
        try:
            run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        except FileNotFoundError:
            pytest.skip("curl is not installed")
        assert json.loads(run.stdout)["predictions"] == [right(2, picture(3, "JPEG"))]


class TestOffline:
    @pytest.fixture
    def project(self, fresh):
        """Two versions and three files, one of them no picture; and a link."""
        for version in (1, 2):
            publish(models(fresh), version)
        (fresh / "a.png").write_bytes(picture(1))
        (fresh / "b.jpg").write_bytes(picture(2, "JPEG"))
        (fresh / "bad.png").write_bytes(picture(3)[:50])
        (fresh / "link.png").symlink_to(fresh / "a.png")
        return fresh

    def test_json(self, adaptd, project):
        """With the newest version, in the order given; links named by hand are followed."""
        run = adaptd("--project", project, "predict", project / "b.jpg", project / "a.png", project / "link.png", "--json")
        assert run.returncode == 0, run.stderr
        answer = json.loads(run.stdout)
        assert (answer["schema"], answer["model"], answer["version"]) == ("adaptd.predictions/1", NAME, 2)
        assert answer["predictions"] == [
            {"image": str(project / "b.jpg"), **right(2, picture(2, "JPEG"))},
            {"image": str(project / "a.png"), **right(2, picture(1))},
            {"image": str(project / "link.png"), **right(2, picture(1))},
        ]

    def test_unreadable_images_are_told_and_the_others_predicted(self, adaptd, project):
        """Exit 1, each with its reason."""
        words = [project / name for name in ("bad.png", "a.png", "missing.png", ".")]
        run = adaptd("--project", project, "predict", *words, "--json", "--version", "1")
        assert run.returncode == 1
        bad, good, missing, folder = json.loads(run.stdout)["predictions"]
        assert bad["error"]
        assert "there is no such file" in missing["error"]
        assert "not-a-file" in folder["error"]
        assert good == {"image": str(project / "a.png"), **right(1, picture(1))}

    def test_table(self, adaptd, project):
        """For people."""
        run = adaptd("--project", project, "predict", "a.png", "bad.png", cwd=project)
        assert run.returncode == 1
        assert "version 2 of shop" in run.stdout
        assert right(2, picture(1))["label"] in run.stdout
        assert "bad.png" not in run.stdout
        assert run.stderr.startswith("bad.png: ")

    def test_a_damaged_newest_version(self, adaptd, project):
        """The one before answers, and the damage is told."""
        publish(models(project), 3, None, model_sha256="0" * 64)
        run = adaptd("--project", project, "predict", project / "a.png", "--json")
        assert (run.returncode, json.loads(run.stdout)["version"]) == (0, 2)
        assert "version 3 of shop is refused" in run.stderr
        run = adaptd("--project", project, "predict", project / "a.png", "--version", "3")
        assert (run.returncode, "is damaged" in run.stderr) == (1, True)

    def test_nothing_published(self, adaptd, fresh):
        """Exit 1, with what to do."""
        run = adaptd("--project", fresh, "predict", "x.png")
        assert (run.returncode, "publish one first" in run.stderr) == (1, True)
        run = adaptd("--project", fresh, "predict", "x.png", "--version", "9")
        assert (run.returncode, "has no version 9" in run.stderr) == (1, True)
