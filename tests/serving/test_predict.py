"""Image files become labels: posted to a server, or offline with `adaptd predict`."""

import csv
import json
import subprocess
from base64 import b64encode
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
        assert first == {"image": "0.png", **right(2, picture(1))}
        assert third == {"image": "2.png", **right(2, picture(2))}
        assert (second["image"], "not-an-image" in second["error"]) == ("1.png", True)

    def test_more_files_than_a_batch(self, server):
        """They run piece by piece."""
        with server.client() as http:
            answer = http.post("/predict", files=[("image", (f"{n}.png", picture(n))) for n in range(70)]).json()
        assert answer["predictions"] == [{"image": f"{n}.png", **right(2, picture(n))} for n in range(70)]

    @pytest.mark.parametrize(
        ("header", "name"),
        [
            ('form-data; name="image"', None),
            ('form-data; name="image"; filename="a.png"', "a.png"),
            ("FORM-DATA; name=image; filename=plain.png", "plain.png"),
            ('form-data; name="image"; filename="ein \\"Bild\\".png"', 'ein "Bild".png'),
            ('form-data; name="image"; filename="%22Bild%22%0D%0A.png"', '"Bild"\r\n.png'),
            ('form-data; name="image"; filename="Straße 日本.png"', "Straße 日本.png"),
            ('form-data; name="image"; filename="../../etc/passwd"', "../../etc/passwd"),
            ('form-data; name="image"; filename="unfinished', None),
            ('form-data; name="image"; filename=""', ""),
            (f'form-data; name="image"; filename="{"x" * 3000}"', "x" * 255),
        ],
    )
    def test_names_of_files_come_back(self, server, header, name):
        """As the client gave them, however hostile: they are text, and nothing is made of them."""
        body = f"--x\r\nContent-Disposition: {header}\r\n\r\n".encode() + picture(1) + b"\r\n--x--"
        with server.client() as http:
            answer = http.post("/predict", content=body, headers={"Content-Type": "multipart/form-data; boundary=x"})
        assert answer.json()["predictions"] == [({} if name is None else {"image": name}) | right(2, picture(1))]

    def test_base64_in_json(self, server):
        """In order; what is no base64 has its reason, what scripts and shells put around it does not matter."""
        plain = b64encode(picture(1)).decode()
        lines = "\n".join(plain[start : start + 76] for start in range(0, len(plain), 76))
        images = [plain, "!", f"data:image/png;base64,{plain}", lines, 7, plain[:-1], ""]
        text = json.dumps({"images": images}).replace("/", "\\/")
        with server.client() as http:
            answer = http.post("/predict", content=text, headers={"Content-Type": "application/json; charset=utf-8"})
            old = http.post("/predict?version=1", json={"images": [plain]})
        rows = answer.json()["predictions"]
        assert [rows[place] for place in (0, 2, 3)] == 3 * [right(2, picture(1))]
        assert ["base64" in rows[place]["error"] for place in (1, 4, 5)] == [True, True, True]
        assert "empty" in rows[6]["error"]
        assert old.json() == {"model": NAME, "version": "1", "predictions": [right(1, picture(1))]}

    def test_an_old_version(self, server):
        """By number; one that is none is refused."""
        with server.client() as http:
            assert http.post("/predict?version=1", content=picture(1)).json()["predictions"] == [right(1, picture(1))]
            missing = http.post("/predict?version=7", content=picture(1))
            assert (missing.status_code, missing.json()) == (404, {"error": "shop has no version 7: it has 2 from 1 to 2"})
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
        (found,) = json.loads(run.stdout)["predictions"]
        assert found == ({"image": "x.jpg"} if "-F" in words else {}) | right(2, picture(3, "JPEG"))


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
        words = [project / name for name in ("bad.png", "a.png", "missing.png")]
        run = adaptd("--project", project, "predict", *words, "--json", "--version", "1")
        assert run.returncode == 1
        bad, good, missing = json.loads(run.stdout)["predictions"]
        assert bad["error"]
        assert "there is no such file" in missing["error"]
        assert good == {"image": str(project / "a.png"), **right(1, picture(1))}

    def test_table(self, adaptd, project):
        """For people."""
        run = adaptd("--project", project, "predict", "a.png", "bad.png", cwd=project)
        assert run.returncode == 1
        assert "version 2 of shop" in run.stdout
        assert right(2, picture(1))["label"] in run.stdout
        assert "bad.png" not in run.stdout
        assert run.stderr.startswith("bad.png: ")

    def test_a_folder_as_csv(self, adaptd, project):
        """All that is in it, at any depth and in order, but clutter; what cannot be read is in both streams, the rest goes on."""
        shelf = project / "shelf"
        (shelf / "deep").mkdir(parents=True)
        (shelf / "deep" / 'x, "y"\n.png').write_bytes(picture(1))
        (shelf / "b.png").write_bytes(picture(2))
        (shelf / "broken.png").write_bytes(b"nothing")
        (shelf / "Thumbs.db").touch()
        (shelf / "elsewhere").symlink_to(project)
        run = adaptd("--project", project, "predict", shelf, "--csv", "--version", "1")
        assert run.returncode == 1
        rows = list(csv.DictReader(run.stdout.splitlines()))
        assert [row["image"].removeprefix(f"{shelf}/") for row in rows] == [
            *("b.png", "broken.png", 'deep/x, "y"\\n.png', "elsewhere")
        ]
        good = right(1, picture(1))
        assert (rows[2]["label"], float(rows[2]["probability"]), rows[2]["error"]) == (good["label"], good["probability"], "")
        assert ["not-an-image" in rows[1]["error"], "not-a-file" in rows[3]["error"]] == [True, True]
        assert [line.split(": ")[0] for line in run.stderr.splitlines()] == [rows[1]["image"], rows[3]["image"]]
        both = adaptd("--project", project, "predict", shelf, "--csv", "--json")
        assert (both.returncode, "choose --json or --csv" in both.stderr) == (2, True)

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
