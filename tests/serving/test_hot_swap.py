"""Versions come, go bad and are swapped while clients ask: nobody notices but by the version number."""

import hashlib
import itertools
import json
import re
import shutil
import threading

import numpy as np
import pytest

from adaptd.serving.catalogue import Catalogue

from .conftest import CLASSES, NAME, SIZE, expected, make_onnx, models, publish, random_images, seal, wait_until

QUESTION = {"name": "images", "shape": [2, 3, SIZE, SIZE], "datatype": "UINT8"}
LAST = 12


class Asker(threading.Thread):
    """A client that asks again and again, and keeps every answer with the version it names."""

    def __init__(self, server, seed: int) -> None:
        super().__init__(daemon=True)
        self.images = random_images(2, seed)
        self.answers: list[tuple[int, np.ndarray]] = []
        self.failures: list[str] = []
        self.stop = threading.Event()
        self.server = server

    def run(self) -> None:
        """Until told to stop."""
        data = self.images.tobytes()
        parameters = {"binary_data_size": len(data)}
        header = json.dumps(
            {"inputs": [QUESTION | {"parameters": parameters}], "parameters": {"binary_data_output": True}}
        ).encode()
        headers = {"Inference-Header-Content-Length": str(len(header))}
        with self.server.client() as http:
            while not self.stop.is_set():
                response = http.post(f"/v2/models/{NAME}/infer", content=header + data, headers=headers)
                if response.status_code != 200:
                    self.failures.append(response.text)
                    continue
                length = int(response.headers["inference-header-content-length"])
                version = int(json.loads(response.content[:length])["model_version"])
                self.answers.append((version, np.frombuffer(response.content[length:], "<f4").reshape(2, 2, 3)))


def test_no_request_fails_while_versions_change(fresh, start):
    """Under load, every answer is exactly what the version it names gives, and the newest takes over each time."""
    publish(models(fresh), 1)
    server = start(fresh)
    askers = [Asker(server, seed) for seed in range(8)]
    for asker in askers:
        asker.start()
    for version in range(1, LAST + 1):
        if version > 1:
            publish(models(fresh), version)
        wait_until(lambda version=version: all(asker.answers and asker.answers[-1][0] == version for asker in askers))
    for asker in askers:
        asker.stop.set()
        asker.join(30)
    assert [failure for asker in askers for failure in asker.failures] == []
    for asker in askers:
        right = {version: np.stack(expected(version, asker.images)) for version in range(1, LAST + 1)}
        assert all(np.array_equal(answer, right[version]) for version, answer in asker.answers)
        seen = [version for version, _ in asker.answers]
        assert seen == sorted(seen)
        assert set(seen) == set(range(1, LAST + 1))
    assert server.stop() == 0


def test_a_flipped_byte_leaves_the_previous_version_served(fresh, start):
    """The damage is seen before the session is made, told in log and index, and counted once."""
    publish(models(fresh), 1)
    server = start(fresh)
    broken = bytearray(make_onnx(2))
    broken[len(broken) // 2] ^= 1
    place = publish(models(fresh), 2, bytes(broken), model_sha256=hashlib.sha256(make_onnx(2)).hexdigest())
    with server.client() as http:
        wait_until(lambda: "adaptd_model_refused_total 1.0" in http.get("/metrics").text)
        rows = http.post("/v2/repository/index").json()
        assert [(row["version"], row["state"]) for row in rows] == [("1", "READY"), ("2", "UNAVAILABLE")]
        assert "is damaged: its SHA-256 is" in rows[1]["reason"]
        assert [row["version"] for row in http.post("/v2/repository/index", json={"ready": True}).json()] == ["1"]
        assert http.get(f"/v2/models/{NAME}").json()["versions"] == ["1"]
        assert server.version() == "1"
        answer = http.post(f"/v2/models/{NAME}/versions/2/infer", content=b"{}")
        assert answer.status_code == 503
        assert "is damaged" in answer.json()["error"]
        shutil.rmtree(place)
        publish(models(fresh), 2)
        wait_until(lambda: server.version() == "2")
        assert "adaptd_model_refused_total 1.0" in http.get("/metrics").text
        assert 'adaptd_model_info{model="shop",version="2"} 1.0' in http.get("/metrics").text
    assert sum("is refused" in line for line in server.errors) == 1


def test_waits_for_a_first_version(fresh, start):
    """Without one the server is alive, not ready, says so; the first version makes it ready."""
    server = start(fresh)
    assert "waiting for a first version" in server.line
    with server.client() as http:
        assert http.get("/v2/health/live").status_code == 200
        assert (http.get("/v2/health/ready").status_code, http.get("/v2/health/ready").json()) == (503, {"ready": False})
        assert http.get("/health").status_code == 503
        answer = http.post(f"/v2/models/{NAME}/infer", content=b"{}")
        assert answer.status_code == 503
        assert "no usable version of shop" in answer.json()["error"]
        assert answer.headers["retry-after"]
        assert http.post("/v2/repository/index").json() == []
        publish(models(fresh), 7)
        wait_until(lambda: http.get("/v2/health/ready").status_code == 200)
        assert server.version() == "7"


class TestCatalogue:
    @pytest.fixture
    def folder(self, fresh):
        """A good version 1."""
        publish(models(fresh), 1)
        return models(fresh)

    @pytest.mark.parametrize(
        ("model", "card", "reason"),
        [
            (None, {"model_sha256": "0" * 64}, "is damaged"),
            (None, {"version": 3}, "is the card of shop 3, not of shop 2"),
            (None, {"model": "other"}, "is the card of other 2"),
            (None, {"schema": "adaptd.card/9"}, r"is not a card of this adaptd \(adaptd.card/1\)"),
            (None, {"classes": []}, "is damaged.*classes"),
            (None, {"classes": ["a", "b"]}, r"does not give \(1, 2\)"),
            (None, {"preprocessing": {"image_size": SIZE, "resize": "crop"}}, "is damaged.*preprocessing"),
            (None, {"preprocessing": {"image_size": 9, "resize": "stretch-bilinear"}}, "takes"),
            (b"no model", {}, "does not run"),
            (make_onnx(2, batch=4), {}, "batches of 4 only"),
            (make_onnx(2, kind=1), {}, "not images as uint8"),
        ],
    )
    def test_odd_versions_are_refused(self, folder, model, card, reason):
        """Whatever is wrong with it, the version before is served, and the reason is kept."""
        publish(folder, 2, model, **card)
        catalogue = Catalogue(folder, 1)
        catalogue.refresh()
        assert catalogue.get_current().version == 1
        assert re.search(reason, catalogue.refusals[2][1]), catalogue.refusals[2][1]

    def test_tensors_in_other_files_are_refused(self, folder, tmp_path, monkeypatch):
        """ONNX Runtime would read them from the working directory."""
        import onnx

        model = onnx.load_model_from_string(make_onnx(2))
        onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
        monkeypatch.chdir(tmp_path)
        publish(folder, 2, (tmp_path / "m.onnx").read_bytes())
        catalogue = Catalogue(folder, 1)
        catalogue.refresh()
        assert catalogue.get_current().version == 1
        assert "xternal data" in catalogue.refusals[2][1]

    def test_other_names_are_no_versions(self, folder):
        """Only decimal folders count."""
        for name in ("3.tmp", "04", "+5", "6 ", ".7", "x", "٨", "-9"):
            shutil.copytree(folder / "1", folder / name)
        (folder / "99").write_text("a file")
        catalogue = Catalogue(folder, 1)
        catalogue.refresh()
        assert catalogue.versions == (1,)

    def test_a_refused_version_is_not_tried_again_until_it_changes(self, folder):
        """One look, one refusal; a new card is a new look."""
        refused: list[str] = []
        place = publish(folder, 2, classes=[])
        catalogue = Catalogue(folder, 1, refused=refused.append)
        for _ in range(3):
            catalogue.refresh()
        assert len(refused) == 1
        card = json.loads((place / "card.json").read_text())
        (place / "card.json").write_text(seal(card | {"classes": list(CLASSES)}))
        catalogue.refresh()
        assert catalogue.get_current().version == 2
        assert catalogue.refusals == {}

    def test_goes_on_without_the_folder_and_follows_it_back(self, folder):
        """An unmounted repository changes nothing; a version taken away gives the one before."""
        publish(folder, 2)
        catalogue = Catalogue(folder, 1)
        catalogue.refresh()
        folder.rename(folder.with_name("away"))
        catalogue.refresh()
        assert catalogue.get_current().version == 2
        folder.with_name("away").rename(folder)
        shutil.rmtree(folder / "2")
        catalogue.refresh()
        assert catalogue.get_current().version == 1

    def test_few_old_versions_are_kept(self, folder):
        """However many a client asks for, memory holds three beside the served one, and each is loaded once for all who wait."""
        import asyncio

        for version in range(2, 9):
            publish(folder, version)
        catalogue = Catalogue(folder, 1)
        catalogue.refresh()

        async def ask() -> None:
            for version in (*range(1, 9), 1):
                first, second = await asyncio.gather(catalogue.get(version), catalogue.get(version))
                assert first is second
                assert first.version == version

        asyncio.run(ask())
        assert list(catalogue._old) == [6, 7, 1]


def test_swaps_do_not_pile_up_threads(fresh, start):
    """Sessions that are swapped out end, with their threads."""
    publish(models(fresh), 1)
    server = start(fresh)
    status = f"/proc/{server.process.pid}/status"

    def threads() -> int:
        with open(status, encoding="ascii") as file:  # noqa: PTH123
            return next(int(line.split()[1]) for line in file if line.startswith("Threads"))

    before = threads()
    for version in range(2, 12):
        publish(models(fresh), version)
        wait_until(lambda version=version: server.version() == str(version))
    wait_until(lambda: threads() <= before + 3)


def test_many_versions_asked_for_do_not_hold_up_a_swap(fresh, start):
    """Clients that ask for every old version, and for thousands that are none, get those, 404 or 503; the newest takes over."""
    for version in range(1, 13):
        publish(models(fresh), version)
    server = start(fresh)
    statuses: set[int] = set()
    stop = threading.Event()

    def ask(versions) -> None:
        with server.client() as http:
            for version in versions:
                if stop.is_set():
                    return
                statuses.add(http.get(f"/v2/models/{NAME}/versions/{version}").status_code)

    askers = [threading.Thread(target=ask, args=(itertools.cycle(range(1, 12)),)) for _ in range(4)]
    askers += [threading.Thread(target=ask, args=(range(first, 10**9),)) for first in (100, 10_000)]
    for asker in askers:
        asker.start()
    wait_until(lambda: {200, 404} <= statuses)
    publish(models(fresh), 13)
    wait_until(lambda: server.version() == "13")
    stop.set()
    for asker in askers:
        asker.join()
    assert statuses <= {200, 404, 503}
