"""`adaptd explain`: the whole story of one domain, in words and as JSON."""

import json
import re

import pytest

from adaptd.records import Accuracy, AccuracyKind, DomainState, EventKind, GateDecision, MemoryItem, NewImage, VersionState
from adaptd.store import NewDrop, NewEpisode, NewVersion, Store

HOSTILE = "[red]<script>\n\u202egnp.exe"


LOOK = {"step": 0, "agreement": 0.5, "balance": 0.75, "nuclear_norm": 0.6, "confidence": 0.7, "classes": 2}
TRUST = {"images": 40, "agreement": 0.5, "balance": 0.9, "spread": 1.0, "confidence": 0.7, "largest": 0.6}
REPORT = {
    "trust": {**TRUST, "largest_class": "a", "single_class": 0.0, "recognition": 0.45},
    "health": [LOOK, {**LOOK, "step": 9, "agreement": 0.8, "classes": 1}],
}


@pytest.fixture
def told(project):
    """A project in which night came twice, failed once and was adapted to, and everything is paused."""
    with Store(project / "state" / "adaptd.db") as store, store.writing() as tx:
        source = tx.domains.add("source", DomainState.DONE)
        night = tx.domains.add("night", DomainState.DONE)
        tx.events.add(EventKind.DOMAIN_QUEUED, "night: 2 images accepted", domain_id=night.id)
        drops = [tx.drops.add(NewDrop(night.id, n, f"domains/2/{n}", "night", "0" * 64, 4, 5000)) for n in (1, 2)]
        tx.drops.take_in([drops[0].id], 1)
        tx.drops.count(drops[0].id, accepted=2, duplicates=1)
        ids = tx.images.add_many(night.id, [NewImage("a" * 64, 1, "a.png"), NewImage("b" * 64, 1, "b.png")])
        for name in (HOSTILE, "x.gif", "y.gif", "z.gif"):
            tx.quarantine.add(night.id, name, "truncated", "cut", None, drops[0].id)
        tx.quarantine.add(night.id, "e.png", "empty", "0 bytes", None, drops[0].id)
        failed = tx.episodes.add(NewEpisode(night.id, "grcl", 0, {}, "0" * 64))
        tx.episodes.count_crash(failed.id)
        tx.episodes.give_up(failed.id, f"its worker died {HOSTILE}")
        for number, domain in enumerate((source, night), 1):
            episode = tx.episodes.add(NewEpisode(domain.id, "grcl", 0, {}, "0" * 64))
            lease = tx.episodes.lease(episode.id, "worker", "boot", 1.0)
            tx.domains.place(domain.id)
            tx.episodes.commit(episode.id, lease, REPORT)
            parent = number - 1 or None
            tx.versions.add(NewVersion(parent, episode.id, ("a", "b"), "w", "0" * 64))
        tx.versions.set_gate(2, GateDecision(passed=False, reasons=("source fell by 25.0 %",)))
        tx.versions.set_state(2, VersionState.REJECTED)
        tx.accuracies.record(Accuracy(1, source.id, AccuracyKind.MEASURED, 0.75, 4, correct=3))
        tx.accuracies.record(Accuracy(2, source.id, AccuracyKind.MEASURED, 0.5, 4, correct=2))
        tx.accuracies.record(Accuracy(1, night.id, AccuracyKind.ESTIMATED, 0.4, 2, estimator="atc"))
        tx.accuracies.record(Accuracy(2, night.id, AccuracyKind.MEASURED, 0.5, 2, correct=1))
        tx.memories.replace(night.id, [MemoryItem(ids["a" * 64], night.id, "a", 0.9)])
        tx.pauses.add("*", "over the weekend")
        tx.pauses.add("fog", "not this one")
        tx.events.add(EventKind.EPISODE_DONE, f"episode 1 gave {HOSTILE}", domain_id=night.id)
        tx.events.add("daemon-started", "of no domain")
    return project


def test_a_person_reads_it_all(adaptd, told):
    """Drops, refusals, pauses, episodes, versions, what they did to R, memory and the timeline."""
    run = adaptd("--project", told, "explain", "night")
    assert (run.returncode, run.stderr) == (0, "")
    for line in (
        "  2 images, 1 kept in memory",
        "(everything): over the weekend",
        "4 files, 5.0 kB; delivery 1: 2 accepted, 1 duplicate",
        "4 files, 5.0 kB; waits",
        "recognition 0.45; agreement 50%, balance 90%, spread 100%, confidence 70% of the source's on 40 images; 60% taken for a",
        "health: agreement 0.50 → 0.80, balance 0.75 → 0.75, nuclear norm 0.60 → 0.60, classes predicted 2 → 1",
        "  quarantined: 4 truncated ([red]<script>\\n\\u202egnp.exe, x.gif, y.gif, …)",
        "  quarantined: 1 empty (e.png)",
        " on delivery 1 with grcl: failed, its worker died 1 time: its worker died [red]<script>\\n\\u202egnp.exe",
        "episode 1 on delivery 1 with grcl: rejected after 1 s",
        "  version 2: rejected, gate failed; source fell by 25.0 %",
        "  source: 75.0% measured on 4 images → 50.0% measured on 4 images (-25 points)",
        "  night: 40.0% estimated on 2 images it learned from → 50.0% measured on 2 images\n",
        "episode-done: episode 1 gave [red]<script>\\n\\u202egnp.exe",
    ):
        assert line in run.stdout
    assert re.search(r"^episode of 20\d\d-\S+ \d\d:\d\d on delivery 1", run.stdout, re.MULTILINE), "it failed, and has no number"
    assert "not this one" not in run.stdout
    assert "of no domain" not in run.stdout
    assert run.stdout.index("domain-queued") < run.stdout.index("episode-done")


def test_a_program_reads_it_too(adaptd, told):
    """The same as JSON, with its schema's name."""
    document = json.loads(adaptd("--project", told, "explain", "night", "--json").stdout)
    assert (document["schema"], document["domain"], document["memory"]) == ("adaptd.explain/2", "night", 1)
    assert [(episode["number"], episode["state"]) for episode in document["episodes"]] == [(None, "failed"), (1, "done")]
    assert document["episodes"][1]["effect"][1] == {
        "domain": "night",
        "before": {"value": 0.4, "kind": "estimated", "n": 2, "low": None, "high": None, "held_out": False},
        "after": {"value": 0.5, "kind": "measured", "n": 2, "low": None, "high": None, "held_out": False},
    }
    assert document["quarantined"][0] == {"reason": "truncated", "count": 4, "names": [HOSTILE, "x.gif", "y.gif"]}


def test_after_a_rollback_the_parent_is_what_was_restored(adaptd, told):
    """The next episode began with version 1's weights again: it is compared with those, and not with the row before it."""
    with Store(told / "state" / "adaptd.db") as store, store.writing() as tx:
        source, night = (tx.domains.get_named(name) for name in ("source", "night"))
        first = tx.versions.get(1)
        restored = tx.versions.add(NewVersion(2, first.episode_id, first.classes, "w", "0" * 64, restores=1))
        episode = tx.episodes.add(NewEpisode(night.id, "grcl", 0, {}, "0" * 64))
        tx.episodes.commit(episode.id, tx.episodes.lease(episode.id, "worker", "boot", 1.0), REPORT)
        after = tx.versions.add(NewVersion(restored.version, episode.id, ("a", "b"), "w", "0" * 64))
        tx.accuracies.record(Accuracy(after.version, source.id, AccuracyKind.MEASURED, 1.0, 4, correct=4))
    assert (
        "  source: 75.0% measured on 4 images → 100.0% measured on 4 images (+25 points)"
        in adaptd("--project", told, "explain", "night").stdout
    )


def test_the_source_has_a_story_too(adaptd, told):
    """Its first row has nothing before it."""
    assert "  source: not known → 75.0% measured" in adaptd("--project", told, "explain", "source").stdout


def test_unknown_domains(adaptd, told):
    """The nearest name is offered; what lies in the inbox is told as such; a path is no name."""
    run = adaptd("--project", told, "explain", "nigth")
    assert (run.returncode, "did you mean night?" in run.stderr) == (1, True)
    (told / "inbox" / "dawn").mkdir()
    assert "lies in the inbox" in adaptd("--project", told, "explain", "dawn").stderr
    assert "lies in the inbox" not in adaptd("--project", told, "explain", "../inbox").stderr
