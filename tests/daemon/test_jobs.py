"""Jobs: what people are told of them, and how their ends are understood."""

import pytest

from adaptd.daemon.jobs import Job, JobEnd, JobKind, JobOutcome
from adaptd.daemon.queue import read_next_jobs
from adaptd.records import DomainState
from adaptd.store import NewEpisode, Store
from adaptd.store.migrate import upgrade


@pytest.mark.parametrize("outcome", JobOutcome)
def test_an_end_comes_through_the_pipe(outcome):
    """What a worker writes is what the supervisor reads."""
    end = JobEnd(outcome, 'why: "this" %s\n')
    assert JobEnd.from_line(end.to_line(), 0) == end


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("", -9, "killed by SIGKILL"),
        ("", -11, "ended by SIGSEGV"),
        ("not json", 3, "exit code 3"),
        ("[1]", 0, "exit code 0"),
        ('{"outcome": "odd", "reason": ""}', 0, "exit code 0"),
    ],
)
def test_a_worker_without_a_last_word_crashed(line, code, told):
    """How it ended is told from its exit code."""
    end = JobEnd.from_line(line, code)
    assert end.outcome is JobOutcome.CRASHED
    assert told in end.reason


def test_people_see_the_number_that_an_episode_will_have(tmp_path):
    """Neither its row's id nor that of its domain is in a log line."""
    upgrade(f"sqlite:///{tmp_path / 'adaptd.db'}", tmp_path / "backups")
    with Store(tmp_path / "adaptd.db") as store, store.writing() as tx:
        domain = tx.domains.add("camera", DomainState.QUEUED)
        for _ in range(2):
            failed = tx.episodes.add(NewEpisode(domain.id, "guarded", 0, {}, "hash"))
            tx.episodes.cancel(failed.id, "why")
        episode = tx.episodes.add(NewEpisode(domain.id, "guarded", 0, {}, "hash"))
        (job,) = read_next_jobs(tx).jobs
    assert (job.kind, job.key) == (JobKind.EPISODE, episode.id)
    assert job.log_fields == {"domain": "camera", "episode": 0}
    assert Job(JobKind.IMPORT, 7, "camera").log_fields == {"domain": "camera"}
    assert Job(JobKind.PUBLISH, 3, number=3).log_fields == {"version": 3}
