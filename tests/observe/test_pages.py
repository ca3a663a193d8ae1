"""The pages over real HTTP: hostile names stay text, nobody changes anything unasked, and strangers stay outside."""

import base64
import contextlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import numpy as np
import pytest

from adaptd.evaluation.insight import Insight, parse_insight, project_features
from adaptd.observe.dashboard.doings import list_doings
from adaptd.observe.dashboard.wording import make_visible
from adaptd.project.layout import Layout
from adaptd.records import DomainState, EventKind, VersionState
from adaptd.store import NewEpisode, Store

from .pages import HOSTILE, make_project, serve_pages

TOKEN = "correct-horse"
PAGES = (
    *("/", "/matrix", "/domains", "/domains/night", "/domains/night/labels"),
    *("/versions", "/versions/1", "/versions/2", "/events", "/do/pause", "/domains/night/do/retry", "/domains/night/do/forget"),
    "/domains?name=%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with a hostile name in every place that a stranger can write to."""
    return make_project(tmp_path)


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    """Its store."""
    with Store(root / "state" / "adaptd.db") as store:
        yield store


@pytest.fixture
def pages(root: Path, store: Store) -> Iterator[httpx.Client]:
    """A client of its pages, with a token set."""
    with serve_pages(root, store, token=TOKEN) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


class Elements(HTMLParser):
    """Names of elements and attributes in a document."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.sources: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One element."""
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.sources += [value or "" for name, value in attrs if name in {"src", "href", "action"}]


@pytest.mark.parametrize("page", [*PAGES, "/domains/" + "".join(f"%{byte:02X}" for byte in HOSTILE[:63].encode())])
def test_hostile_names_stay_text(pages, page):
    """No element, attribute or address comes of a name; marks that turn or break lines are named by their numbers."""
    answer = pages.get(page)
    assert answer.status_code == 200
    found = Elements(answer.text)
    assert not any(name.startswith("on") or name == "style" for name in found.attributes)
    assert "style" not in found.names
    assert all(source.startswith(("/", "#")) and not source.startswith("//") for source in found.sources)
    assert "alert(1)>" not in answer.text
    assert "\u202e" not in answer.text
    assert "line49" not in answer.text
    if page not in {"/matrix", "/do/pause", "/domains/night/do/retry", "/domains/night/do/forget"}:
        assert "⟨U+202E⟩gpj.exe⟨U+000A⟩line" in answer.text or "&lt;img src=x" in answer.text or page == "/versions/1"


def test_a_domain_page_says_whether_it_is_new(pages):
    """With its distance to every known domain."""
    text = pages.get("/domains/night").text
    assert "is a new domain; " in text
    assert "How far its 60 images are from known domains" in text
    assert "0.97</td>" in text


def test_the_gain_is_told_from_before_the_first_episode(pages):
    """Overview, lists and charts have what the model before the domain's first episode reached, beside what is served."""
    overview, domain, matrix = (pages.get(page).text for page in ("/", "/domains/night", "/matrix"))
    assert "~50.0 % → <strong>~75.0 %</strong>" in overview
    assert 'class="was guessed" y="1" width="50.0"' in overview
    assert "estimated on 1 without labels (60 images)" in overview
    for text in (domain, matrix):
        assert re.search(r'<th scope="row">0</th>.*data-value="50.0" title="estimated on 60 images" data-estimate', text)
    for page in ("/domains", "/versions"):
        assert re.search(r"~50\.0 %.*~75\.0 %.*\+25\.0", pages.get(page).text, re.DOTALL)


def test_the_gallery_tells_who_changed_its_mind(pages):
    """By class, change and confidence; what nobody knows is as good as no filter, and hostile words stay words."""

    def shown(**words: str) -> list[str]:
        text = pages.get("/domains/night", params=words).text.partition("Who changed its mind")[2].partition("</section>")[0]
        return re.findall(r"images/(\d+)\.png\?large=1", text)

    assert shown() == ["1", "2"]
    assert (shown(change="changed"), shown(change="kept"), shown(change="wrong"), shown(change="right")) == (
        ["1"],
        ["2"],
        ["1"],
        [],
    )
    assert (shown(sure="middle"), shown(sure="highest"), shown(sure="low")) == (["1"], ["2"], [])
    assert shown(**{"class": make_visible(HOSTILE)}) == ["1"]
    assert shown(**{"class": "b"}) == shown(change="<script>", sure="\u202e", page="999") == ["1", "2"]


def test_a_version_page_shows_the_flow_of_classes(pages):
    """From what to what, with pictures of those newly wrong; of the first version there is none."""
    text = pages.get("/versions/2").text
    assert "1 of 2 images are taken for another class" in text
    assert re.search(r"→ b <strong>1</strong>", text)
    assert '<figure class="newly-wrong">' in text
    assert "Who changed its mind" not in pages.get("/versions/1").text


def test_curves_begin_with_the_episode(pages, store):
    """A page that is opened late tells every step that is kept, to its script and without one."""
    with store.writing() as tx:
        running = tx.episodes.add(NewEpisode(tx.domains.get_named("night").id, "grcl", 0, {}, "0" * 64))
        tx.episodes.lease(running.id, "test", "boot", 1e9)
        for step in (1, 50, 99):
            tx.curves.add(running.id, step, {"losses": {HOSTILE: 1 / step}})
    assert [point["step"] for point in pages.get("/curves.json").json()] == [1, 50, 99]
    text = pages.get("/").text
    assert re.findall(r'<th scope="row">(\d+)</th><td class="number" data-value', text) == ["1", "50", "99"]
    assert "alert(1)>" not in text


def test_visible_keeps_what_people_write():
    """Letters of any script, spaces and punctuation stay as they are."""
    for text in ("camera-7", "Größe 3 × 4", "東京", "عربي", "a\u202fb"):
        assert make_visible(text) == text
    assert make_visible("a\u200bb\x00\u2066") == "a⟨U+200B⟩b⟨U+0000⟩⟨U+2066⟩"


def test_every_answer_forbids_what_is_not_ours(pages):
    """A policy that lets only our own files in, on pages, errors and files alike."""
    for address in (*PAGES, "/nothing", "/static/live.js", "/metrics"):
        headers = pages.get(address).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_pictures_come_from_their_own_domain_only(pages, root):
    """A picture is a PNG; another domain's, a missing one and a path are not found."""
    source = re.search(r'src="(/domains/night/images/\d+\.png)"', pages.get("/domains/night").text)[1]
    answer = pages.get(source)
    assert answer.headers["content-type"] == "image/png"
    assert answer.content.startswith(b"\x89PNG")
    for address in (source.replace("night", "source"), "/domains/night/images/999.png", "/domains/night/images/..%2f1.png"):
        assert pages.get(address).status_code == 404
    assert pages.get("/static/../app.py").status_code == 404
    assert pages.get("/static/%2e%2e/app.py").status_code == 404


def test_what_is_not_known_is_said(pages):
    """A domain, a version or an address that does not exist gives a page that says so."""
    assert "did you mean night?" in pages.get("/domains/nigth").text
    assert "there is no version 77" in pages.get("/versions/77").text
    assert [pages.get(address).status_code for address in ("/domains/nigth", "/versions/77", "/x")] == [404, 404, 404]


def test_people_see_episode_numbers_only(pages, store):
    """The running episode has the number that it will get, a failed one its date; row ids are nowhere."""
    with store.writing() as tx:
        night = tx.domains.get_named("night")
        failed, running = (tx.episodes.add(NewEpisode(night.id, "grcl", 0, {}, "0" * 64)) for _ in range(2))
        tx.episodes.give_up(failed.id, "it could not go on")
        tx.events.add(EventKind.EPISODE_FAILED, "night failed", domain_id=night.id, episode_id=failed.id)
        tx.events.add(EventKind.EPISODE_DONE, "night is done", domain_id=night.id, episode_id=2)
        tx.episodes.lease(running.id, "test", "boot", 1e9)
    overview, domain = pages.get("/").text, pages.get("/domains/night").text
    assert "<p>episode 2, grcl: " in overview
    assert re.findall(r'<span class="kind">(episode.*?)</span>', overview) == ["episode 1"]
    assert re.findall(r"<strong>Episode (\w+)", domain) == ["2", "of", "1"]
    assert re.search(r"<strong>Episode of 20\d\d-\d\d-\d\d \d\d:\d\d UTC</strong>", domain)


def test_confusion_and_map_are_shown_where_they_are_known(pages, root):
    """The insight of the newest episode is drawn; a damaged one is as good as none."""
    text = pages.get("/domains/night").text
    assert "1 labelled images after episode 1" in text
    assert text.count('<svg viewBox="-4 -4 208 208"') == 3
    Layout(root / "state").insight(2).write_text('{"schema": "adaptd.insight/1", "ids": [1]}')
    assert "208 208" not in pages.get("/domains/night").text


def test_confusion_is_that_of_the_served_version(pages, root, store):
    """The source's is not left at what its own episode gave; what is rolled back is not shown, and the caption says which."""
    layout = Layout(root / "state")
    with store.reading() as tx:
        source, night = (tx.domains.get_named(name).id for name in ("source", "night"))
    for episode, predicted in ((1, (0,)), (2, (1, 0))):
        owners = (source, night)[:episode]
        insight = Insight(("a", "b"), tuple(range(episode)), owners, (0,) * episode, (), predicted)
        layout.insight(episode).write_text(insight.to_text())

    def told(domain: str) -> tuple[str, list[str]]:
        section = pages.get(f"/domains/{domain}").text.partition("<h2>Confusion</h2>")[2].partition("</table>")[0]
        return re.search(r"<caption>(.*?)\.", section)[1], re.findall(r"heat-\d+\">(\d+)", section)

    assert told("source") == ("1 labelled images after episode 1, which is served", ["0", "1", "0", "0"])
    with store.writing() as tx:
        tx.versions.set_state(2, VersionState.REJECTED)
    assert told("source") == ("1 labelled images after episode 0, which is served", ["1", "0", "0", "0"])
    assert told("night") == ("1 labelled images after episode 1", ["1", "0", "0", "0"])


def post(client: httpx.Client, headers: dict[str, str], token: str = TOKEN) -> int:
    """Ask to roll back to a version that cannot be, which changes nothing where it is let through."""
    return client.post("/versions/0/restore", data={"token": token}, headers=headers).status_code


def test_changes_need_the_token_from_our_own_page(pages, root, store):
    """Another site, another origin, a wrong or missing token, no form: refused; the right one reaches the command."""
    own = str(pages.base_url).rstrip("/")
    assert post(pages, {"Origin": "https://evil.example"}) == 403
    assert post(pages, {"Origin": "null"}) == 403
    assert post(pages, {"Sec-Fetch-Site": "cross-site"}) == 403
    assert post(pages, {"Sec-Fetch-Site": "same-site"}) == 403
    assert post(pages, {"Origin": own}, token="wrong") == 403
    assert post(pages, {"Origin": own}, token="") == 403
    assert pages.get("/versions/1/restore").status_code == 405
    assert pages.post("/versions/1/restore", content=b"x", headers={"Content-Type": "text/plain"}).status_code == 415
    assert pages.post("/versions/1/restore", data={"token": "x" * 5000}).status_code == 413
    assert pages.post("/versions/1/restore", data={str(n): "x" for n in range(9)}).status_code == 413
    assert pages.post("/versions/1/delete", data={"token": TOKEN}).status_code in {404, 405}
    with store.reading() as tx:
        assert len(tx.versions.list_all()) == 2
    answer = pages.post("/versions/0/restore", data={"token": TOKEN}, headers={"Origin": own, "Sec-Fetch-Site": "same-origin"})
    assert (answer.status_code, "Invalid value" in answer.text) == (409, True)


def test_a_domain_is_paused_and_let_go_on_from_its_page(pages, store):
    """With the token, through the command line; another site, a wrong token, a strange method or domain change nothing."""
    own = {"Origin": str(pages.base_url).rstrip("/")}

    def do(address: str, headers: dict[str, str] = own, **form: str) -> int:
        return pages.post(address, data={"token": TOKEN} | form, headers=headers).status_code

    def paused() -> list[str]:
        with store.reading() as tx:
            return [pause.scope for pause in tx.pauses.list_all()]

    page = "/domains/night/do/pause"
    assert do(page, {"Origin": "https://evil.example"}) == do(page, token="wrong") == 403
    assert (do("/domains/nobody/do/pause"), do("/domains/night/do/retry", method="--help")) == (404, 400)
    assert (do("/do/forget"), do("/domains/night/do/delete")) == (404, 404)
    assert paused() == []
    assert (do(page), paused()) == (200, ["night"])
    assert 'href="/domains/night/do/resume"' in pages.get("/").text
    assert (do("/domains/night/do/resume"), paused()) == (200, [])
    assert do("/domains/night/do/resume") == 409


def test_labels_need_the_token_and_an_image_of_the_domain(pages, store):
    """One label is kept and taken back; a wrong token, another domain's image, no class: refused, and nothing changes."""
    page, own = "/domains/night/labels", str(pages.base_url).rstrip("/")
    with store.reading() as tx:
        night = tx.domains.get_named("night").id
        image = tx.images.list_for(night)[0].id

    def send(accept: str = "application/json", **form: object) -> httpx.Response:
        headers = {"Origin": own, "Accept": accept}
        return pages.post(page, data={"token": TOKEN, "image": image} | form, headers=headers)

    def labels() -> list[str]:
        with store.reading() as tx:
            return [item.label for item in tx.labels.list_for(night)]

    assert pages.post(page, data={"token": TOKEN, "label": "b"}, headers={"Origin": "https://evil.example"}).status_code == 403
    assert send(label="b", token="wrong").json() == {"error": "that is not the token"}
    assert [send(label="nobody").status_code, send(label="b", image=999).status_code, send(check=1).status_code] == [
        400,
        400,
        200,
    ]
    assert labels() == []
    assert send(label="b").json()["measured_on"] == 1
    assert labels() == ["b"]
    assert send(label=make_visible(HOSTILE)).status_code == 200
    assert labels() == [HOSTILE]
    answer = send(accept="text/html", undo=1)
    assert (answer.status_code, answer.headers["location"], labels()) == (303, "labels?", [])


def test_without_a_token_nothing_can_be_changed(root, store):
    """No form on the page, and nothing behind its address."""
    with serve_pages(root, store) as address, httpx.Client(base_url=address) as client:
        assert "<form" not in client.get("/versions/1").text
        assert "/do/" not in client.get("/").text + client.get("/domains/night").text
        assert client.get("/do/pause").status_code == client.post("/do/pause", data={"token": ""}).status_code == 404
        assert post(client, {}) == 404
        assert post(client, {}, token="") == 404


def test_the_token_is_never_shown(pages, root, adaptd):
    """Neither on a page nor by `config show`."""
    assert all(TOKEN not in pages.get(page).text for page in (*PAGES, "/metrics", "/health"))
    shown = adaptd("--project", root, "config", "show", env={"ADAPTD_METRICS__TOKEN": TOKEN})
    assert shown.returncode == 0
    assert TOKEN not in shown.stdout


def test_a_foreign_name_does_not_reach_a_local_daemon(pages):
    """A web page that points its own name here reads nothing; metrics stay open for scrapers."""
    for host in ("evil.example", "localhost.evil.example:9109", "", "127.0.0.1.evil.example"):
        assert pages.get("/", headers={"Host": host}).status_code in {400, 421}
    for host in ("localhost:9109", "127.0.0.1", "[::1]:9109", "10.0.0.7"):
        assert pages.get("/", headers={"Host": host}).status_code == 200
    assert pages.get("/metrics", headers={"Host": "evil.example"}).status_code == 200


def test_beyond_loopback_reading_needs_the_token(root, store):
    """As a password or a bearer token; metrics and health are open; without a token there are no pages."""
    with serve_pages(root, store, host="0.0.0.0", token=TOKEN) as address, httpx.Client(base_url=address) as client:
        basic = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
        assert client.get("/").status_code == 401
        assert client.get("/").headers["www-authenticate"].startswith("Basic")
        assert client.get("/events/stream").status_code == 401
        for given in ("Basic !", f"Basic {base64.b64encode(b'x:y').decode()}", "Bearer wrong", f"Basic {TOKEN}", "Bearer"):
            assert client.get("/", headers={"Authorization": given}).status_code == 401
        for given in (f"Basic {basic}", f"Bearer {TOKEN}"):
            assert client.get("/", headers={"Authorization": given}).status_code == 200
        assert [client.get(open_to_all).status_code for open_to_all in ("/metrics", "/health")] == [200, 200]
    with serve_pages(root, store, host="0.0.0.0") as address:
        assert "set ADAPTD_METRICS__TOKEN" in httpx.get(address).text
        assert httpx.get(f"{address}/metrics").status_code == 200
    with serve_pages(root, store, host="0.0.0.0", insecure=True) as address:
        assert httpx.get(address, headers={"Host": "shop.example"}).status_code == 200


def test_a_store_that_is_gone_is_said(pages, root, store):
    """Pages answer 503 with the reason; metrics still tell the daemon's own state, and nothing that is not known."""
    store.close()
    (root / "state" / "adaptd.db").unlink()
    answer = pages.get("/")
    assert (answer.status_code, "adaptd.db" in answer.text) == (503, True)
    text = pages.get("/metrics").text
    assert 'adaptd_daemon_state{state="idle"} 1.0' in text
    assert "adaptd_images_ingested" not in text


def test_the_stream_tells_and_ends_with_the_server(root, store):
    """A listener hears the state at once, and the server does not wait for it when it stops."""
    with httpx.Client(timeout=30) as client, contextlib.ExitStack() as stack:
        address = stack.enter_context(serve_pages(root, store))
        with client.stream("GET", f"{address}/events/stream") as answer:
            lines = answer.iter_lines()
            assert '"state": "idle"' in next(lines)
            stack.close()
            assert all(line.startswith("data: ") for line in lines if line)
        with pytest.raises(httpx.ConnectError):
            client.get(address)


def test_features_are_laid_into_one_plane():
    """Both models' points share it, within 0…1; what differs most lies along the first axis."""
    draw = np.random.default_rng(0)
    before = draw.normal(size=(40, 8)).astype(np.float32)
    before[:, 3] *= 50
    early, late = project_features(before + 1, before)
    assert len(early) == len(late) == 40
    assert 0 <= min(map(min, early + late)) <= max(map(max, early + late)) <= 1
    assert abs(np.corrcoef([x for x, _ in early], before[:, 3])[0, 1]) > 0.99
    assert project_features(before[:, :1])[0] == ()


def test_insights_come_back_as_they_were_written():
    """And anything else is refused with a ValueError."""
    insight = Insight(("a", "b"), (1,), (2,), (None,), (), (1,), (), ((0.5, 0.25),))
    assert parse_insight(insight.to_text()) == insight
    for text in (
        "",
        "[]",
        "{}",
        '{"schema": "other"}',
        insight.to_text().replace("[1]", "[7]"),
        insight.to_text().replace("[2]", "[]"),
    ):
        with pytest.raises(ValueError, match=r"insight|JSON|Expecting"):
            parse_insight(text)


def test_a_replaced_source_has_no_buttons(store):
    """Retry and forget have nothing to do there; a domain at rest has both."""
    with store.writing() as tx:
        replaced, domain = (tx.domains.add(name, DomainState.SKIPPED) for name in (".source-before-3", "dusk"))
    assert list_doings(replaced, is_paused=False) == []
    assert list_doings(domain, is_paused=False) == ["retry", "forget"]
