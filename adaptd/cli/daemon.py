"""`adaptd run` and what a person may tell the daemon: pause, resume, retry, cancel."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adaptd.cli.output import say
from adaptd.cli.project import open_project, open_store
from adaptd.errors import DrainIncomplete, Interrupted, PublishError

if TYPE_CHECKING:
    from adaptd.daemon.supervisor import Supervisor
    from adaptd.project.layers import Project
    from adaptd.project.lock import LockFile
    from adaptd.signals import Stop

Name = Annotated[str, typer.Argument(metavar="DOMAIN", help="The domain's name.")]
LOCKED_SECONDS = 3.0
"""The supervisor waits this long for a locked database."""
NameOrAll = Annotated[str | None, typer.Argument(metavar="[DOMAIN]", help="The domain's name; default: everything.")]


def run(
    context: typer.Context,
    drain: Annotated[
        bool, typer.Option("--drain", help="Finish what is there, then exit; with code 1, and what, where something failed.")
    ] = False,
) -> None:
    """Watch the inbox: every folder dropped there becomes a domain, an episode and a version. Runs until it is stopped.

    SIGTERM and Ctrl-C leave a checkpoint and exit 0. SIGHUP reloads adaptd.toml.
    """
    from adaptd.observe.logs import set_up_logs
    from adaptd.project.lock import hold_project
    from adaptd.signals import noting_signals

    project = open_project(context)
    set_up_logs(project.settings.logging.level, project.settings.logging.format)
    # Before anything large is imported: of many who start at once, all but one are gone again soon.
    with noting_signals() as stop, hold_project(project.state, "run") as lock:
        _supervise(project, lock, stop, drain=drain)


def _supervise(project: "Project", lock: "LockFile", stop: "Stop", *, drain: bool) -> None:
    from adaptd.daemon.supervisor import Supervisor
    from adaptd.releases.repositories import recover_repository
    from adaptd.store import Store

    # What cannot be written for now is tried again: so a locked database does not keep signals waiting.
    patience = min(project.settings.database.busy_timeout_seconds, LOCKED_SECONDS)
    with Store(project.database, patience) as store:
        supervisor = Supervisor(project, store, lock, stop)
        try:
            recover_repository(project, store)
        except Interrupted:
            return
        except (PublishError, OSError) as problem:
            supervisor.warnings.append(str(problem))
        with _serving_pages(project, supervisor):
            failures = supervisor.run(drain=drain)
    if failures:
        raise DrainIncomplete(f"not everything that is there was done: {'; '.join(failures)}")


@contextmanager
def _serving_pages(project: "Project", supervisor: "Supervisor") -> Iterator[None]:
    """Pages, metrics and health over HTTP; without the port the daemon does its work all the same, and says so."""
    from adaptd.observe.dashboard.site import Site
    from adaptd.observe.http import HttpThread, make_app
    from adaptd.observe.pictures import StoredPictures
    from adaptd.project.lock import Holder
    from adaptd.store import Store

    def health() -> Mapping[str, Any]:
        return supervisor.health

    metrics = project.settings.metrics
    # A store of their own: however many read, the supervisor does not wait for a connection.
    with Store(project.database, LOCKED_SECONDS) as store:
        site = Site(project, store, lambda: Holder(os.getpid(), "run", supervisor.health), StoredPictures(project.state))
        try:
            http = HttpThread(make_app(site, health), metrics.host, metrics.port, metrics.max_connections)
        except OSError as problem:
            supervisor.warnings.append(
                f"no metrics and no pages: {metrics.host}:{metrics.port} cannot be used ({problem.strerror}); "
                "what answers there is not this project: set metrics.port"
            )
            yield
            return
        supervisor.address = http.address
        try:
            yield
        finally:
            http.stop()


def pause(context: typer.Context, domain: NameOrAll = None) -> None:
    """Train nothing more for a domain, or at all. A running episode writes a checkpoint and waits."""
    from adaptd.daemon import control

    with open_store(open_project(context)) as store:
        say(control.pause(store, domain))


def resume(context: typer.Context, domain: NameOrAll = None) -> None:
    """Let a paused domain, or everything, go on."""
    from adaptd.daemon import control

    with open_store(open_project(context)) as store:
        say(control.resume(store, domain))


def retry(
    context: typer.Context,
    domain: Name,
    method: Annotated[str | None, typer.Option(metavar="NAME", help="By another method: --set method.name=NAME.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Another setting, for this episode alone.")
    ] = None,
) -> None:
    """Queue a refused, failed or cancelled domain, or one that waits for more images, again, with everything that came for it.

    The settings are read anew from adaptd.toml, without a reload of the daemon; --method and --set are stronger. A rejected
    domain gets another episode on the images that it has, with other settings; a forgotten one is learned from its originals
    again. A domain that is done gets another episode when labels came to teach it since its last one (labels.train).
    """
    from adaptd.daemon import control

    assignments = [*([f"method.name={method}"] if method else []), *(settings or [])]
    project = open_project(context, assignments=assignments)
    with open_store(project) as store:
        say(control.retry(store, domain, project.settings, assignments))


def cancel(context: typer.Context, domain: Name) -> None:
    """Give a domain's waiting or running episode up. Its images are kept."""
    from adaptd.daemon import control

    with open_store(open_project(context)) as store:
        say(control.cancel(store, domain))
