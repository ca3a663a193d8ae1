"""`adaptd report`: one file that needs nothing else, from a project at rest."""

import base64
import hashlib
import re

import pytest

from adaptd.observe.dashboard import report

from .pages import make_project


@pytest.fixture
def project_root(tmp_path):
    """A project with two domains."""
    return make_project(tmp_path)


def test_the_report_stands_alone(project_root, adaptd, tmp_path):
    """Every chapter is there, pictures are inside, and nothing in it points elsewhere."""
    run = adaptd("--project", project_root, "report", "--out", tmp_path / "out.html")
    assert run.returncode == 0, run.stderr
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    for chapter in ("overview", "matrix", "domains", "versions", "events"):
        assert f'<section id="{chapter}"' in text
    addresses = re.findall(r'(?:src|href|action)="([^"]*)"', text)
    assert all(address.startswith(("#", "data:image/png;base64,")) for address in addresses)
    inside = [address.partition(",")[2] for address in addresses if address.startswith("data:")]
    assert len(inside) == 4
    assert all(base64.b64decode(item).startswith(b"\x89PNG") for item in inside)
    anchors = {address[1:] for address in addresses if address.startswith("#")}
    assert anchors <= set(re.findall(r'id="([^"]+)"', text))
    assert len(re.findall(r'id="([^"]+)"', text)) == len(set(re.findall(r'id="([^"]+)"', text)))
    assert "url(" not in text
    allowed = re.search(r"script-src ([^\"]+)\"", text)[1].split()
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert allowed == [f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts]
    assert text.count("<script") == len(scripts) == 2
    assert all("<tbody></tbody>" not in figure for figure in re.findall(r"<figure.*?</figure>", text, re.DOTALL))


def test_pictures_are_bounded(project_root, monkeypatch):
    """Beyond the limit a picture is told to be left out, and the report is still whole."""
    from adaptd.observe.dashboard.site import Site
    from adaptd.observe.pictures import StoredPictures
    from adaptd.project.layers import load_project
    from adaptd.store import Store

    monkeypatch.setattr(report, "PICTURES", 2)
    project = load_project(project_root, {})
    with Store(project.database) as store, store.reading() as tx:
        text = report.make_report(tx, Site(project, store, lambda: None, StoredPictures(project.state)))
    assert text.count("data:image/png") == 2
    assert "2 pictures are left out" in text
    assert "not kept" not in text
    assert text.rstrip().endswith("</html>")
