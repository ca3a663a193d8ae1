"""The worker process: imports a domain's waiting drops, trains one episode, or measures, then says how that ended and is gone.

Started by the supervisor as `python -m adaptd.daemon.worker PROJECT KIND ID PARENT` with the settings on standard input; dies
with it.
"""

import ctypes
import gc
import logging
import os
import signal
import sys
from pathlib import Path

from adaptd.daemon.jobs import JobEnd, JobKind, JobOutcome
from adaptd.errors import AdaptdError, ConfigError, DomainKnown, EpisodeError, IntakeError, Interrupted, StoreConflict
from adaptd.observe.logs import set_up_logs
from adaptd.project.layers import Project
from adaptd.project.settings import Settings
from adaptd.records import Domain, DomainState, EventKind
from adaptd.signals import Stop, noting_signals
from adaptd.store import Store
from adaptd.text import tell_count

PR_SET_PDEATHSIG = 1

log = logging.getLogger(__name__)


def main(words: list[str]) -> int:
    """Do one job."""
    root, kind, key, parent = words
    _die_with(int(parent))
    with noting_signals() as stop:
        try:
            project = Project(Path(root), Settings.model_validate_json(sys.stdin.read()), {})
            set_up_logs(project.settings.logging.level, project.settings.logging.format)
            with Store(project.database, project.settings.database.busy_timeout_seconds) as store:
                end = WORK[JobKind(kind)](project, store, int(key), stop)
        except Interrupted as problem:
            end = JobEnd(JobOutcome.STOPPED, str(problem))
        except StoreConflict as problem:
            end = JobEnd(JobOutcome.TAKEN, str(problem))
        except (AdaptdError, OSError) as problem:
            end = JobEnd(JobOutcome.TROUBLE, str(problem))
        except Exception as problem:
            log.exception("the %s crashed", kind)
            end = JobEnd(JobOutcome.CRASHED, f"{type(problem).__name__}: {problem}")
    sys.stdout.write(f"\n{end.to_line()}\n")
    sys.stdout.flush()
    return 0


def _die_with(parent: int) -> None:
    """The kernel ends this process when the supervisor ends, however that happens: no two work on one episode."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we asked
        os.kill(os.getpid(), signal.SIGKILL)


def _import(project: Project, store: Store, domain_id: int, stop: Stop) -> JobEnd:
    from adaptd.daemon.control import resolve_retry
    from adaptd.imports.importer import Importer

    with store.reading() as tx:
        domain = tx.domains.get(domain_id)
        try:
            project = resolve_retry(project, tx, domain)
        except ConfigError as problem:
            return _fail_import(store, domain, f"the settings to try it again with are wrong: {problem}")
    importer = Importer(project, store, lambda _done, _total: stop.check())
    try:
        imported = importer.import_drops(domain)
    except IntakeError as problem:
        return _fail_import(store, domain, str(problem))
    if imported is None:
        return JobEnd(JobOutcome.DONE, f"{domain.name} waits for more images")
    images, files = tell_count(imported.train, "image"), tell_count(imported.quarantined, "file")
    return JobEnd(JobOutcome.DONE, f"{domain.name}: {images} to learn from, {files} quarantined")


def _fail_import(store: Store, domain: Domain, why: str) -> JobEnd:
    with store.writing() as tx:
        tx.domains.set_state(domain.id, DomainState.FAILED, why)
        tx.events.add(EventKind.IMPORT_FAILED, why, domain_id=domain.id)
    return JobEnd(JobOutcome.FAILED, why)


def _train(project: Project, store: Store, episode_id: int, stop: Stop) -> JobEnd:
    gc.disable()  # a quarter of the time that the import takes, and it finds nothing there
    from adaptd.episodes.running import EpisodeRunner

    gc.freeze()
    gc.enable()
    with store.reading() as tx:
        episode = tx.episodes.get(episode_id)
    stop.check()
    try:
        finished = EpisodeRunner(project, store, episode, stop=stop).run()
    except DomainKnown as problem:
        return JobEnd(JobOutcome.DONE, str(problem))
    except (EpisodeError, ConfigError, IntakeError) as problem:
        return JobEnd(JobOutcome.FAILED, str(problem))
    return JobEnd(JobOutcome.DONE, f"episode {finished.number} gave version {finished.version.version}")


def _publish(project: Project, store: Store, number: int, stop: Stop) -> JobEnd:
    from adaptd.project.lock import publishing_alone
    from adaptd.releases.promotion import finish_publishing

    stop.check()
    with publishing_alone(project.state):
        finish_publishing(project, store)
    return JobEnd(JobOutcome.DONE, f"version {number} was exported again")


def _measure(project: Project, store: Store, domain_id: int, stop: Stop) -> JobEnd:
    from adaptd.labels.measuring import measure_domain

    try:
        measured = measure_domain(project, store, domain_id, lambda _done, _total: stop.check())
    except IntakeError as problem:
        return JobEnd(JobOutcome.FAILED, str(problem))
    if measured.troubles:
        return JobEnd(JobOutcome.FAILED, "; ".join(measured.troubles))
    return JobEnd(JobOutcome.DONE, f"{measured.versions} versions were measured")


WORK = {JobKind.IMPORT: _import, JobKind.EPISODE: _train, JobKind.PUBLISH: _publish, JobKind.MEASURE: _measure}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
