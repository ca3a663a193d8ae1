"""`adaptd source import` and `adaptd adapt`: one episode in the foreground, with progress, resumed by the same command.

Ctrl-C and SIGTERM leave a checkpoint and exit with 130 and 143.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adaptd.cli.app import App
from adaptd.cli.output import make_console, print_json, say
from adaptd.cli.progress import progress_bar
from adaptd.cli.project import open_project, open_store
from adaptd.errors import ConfigError, ExitCode
from adaptd.intake.names import find_domain_name
from adaptd.pace import tell_duration
from adaptd.records import NEW_SOURCE, SOURCE, SUPERVISED, Episode, VersionState
from adaptd.text import tell_count

if TYPE_CHECKING:
    from adaptd.episodes.concluding import Finished
    from adaptd.imports.commit import Imported
    from adaptd.imports.importer import Importer
    from adaptd.learning.reports import StepReport
    from adaptd.project.layers import Project
    from adaptd.signals import Stop
    from adaptd.store import Store

app = App("The labelled source: episode 0.")

Json = Annotated[bool, typer.Option("--json", help="Machine-readable.")]


@app.command("import")
def import_source(
    context: typer.Context,
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR…",
            readable=False,
            help="Labelled images: one sub-folder a class, optionally _test/<class>/; several folders make one source.",
        ),
    ],
    weights: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Start from a safetensors file, from torchvision, timm or package, or from none."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=0, help="Passes over the source; 0 takes the model of --weights as it is.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Replace the source that is there: a new lineage. To extend it, give both folders.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --again: without asking.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Promote version 1 also where it is near chance or never predicts a class.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Import the labelled source and train episode 0 on it. Interrupted, the same command goes on where it stopped.

    A model near chance, or one that never predicts some class, is kept but not promoted, and the exit code is 1: run the command
    again with other weights, more epochs or more images, or force it.

    With --again a new source takes the place of the old one, also after domains were learned: what becomes of them, of memories
    and of R is said before, and asked. Until its version is promoted, and where it comes to nothing, all is as before.
    """
    from adaptd.project.weights import parse_choice

    chosen = None if weights is None else parse_choice(weights)
    project = open_project(context, {"model.weights": chosen, "source.epochs": epochs})
    _get_weights(project)
    with _working(project, "source import") as (store, stop):
        name = _agree_to_replace(store, yes) if again else SOURCE
        with _importing(project, store, stop) as importer:
            episode = _find_unfinished(importer, name) or _tell_imported(importer.import_source(*folders, again=again))
        finished = _run(project, store, episode, stop)
        if finished.version.state is VersionState.REJECTED and force:
            finished = _promote_weak(project, store, finished)
        _tell_finished(store, finished, as_json)
    if finished.version.state is VersionState.REJECTED:
        raise typer.Exit(ExitCode.FAILURE)


def _agree_to_replace(store: "Store", yes: bool) -> str:
    """Say what a new source means, and ask where something is lost by it; the name under which it is imported."""
    from adaptd.cli.gc import confirm
    from adaptd.releases.succession import look_ahead

    with store.reading() as tx:
        succession = look_ahead(tx)
        begun = tx.domains.find(NEW_SOURCE)
        goes_on = begun is not None and tx.episodes.find_unfinished(begun.id) is not None
    if succession is None:
        return SOURCE
    if not goes_on:
        say(*succession.tell(), err=True)
        if succession.domains:
            confirm("replace the source", yes)
    return NEW_SOURCE


def _promote_weak(project: "Project", store: "Store", finished: "Finished") -> "Finished":
    from adaptd.releases.promotion import promote

    return replace(finished, version=promote(project, store, finished.version.version, "source import --force"))


def _get_weights(project: "Project") -> None:
    """Fetch published weights that are not here, or fail, before an hour of reading images."""
    from adaptd.learning.origins import ORIGINS

    model = project.settings.model
    if model.weights in ORIGINS:
        from adaptd.learning.pretrained import load_pretrained

        load_pretrained(model.backbone, model.weights)


def adapt(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", readable=False, help="Unlabelled images, optionally with _test/<class>/.")
    ],
    domain: Annotated[str | None, typer.Option(metavar="NAME", help="The domain's name; default: the folder's.")] = None,
    test: Annotated[
        Path | None, typer.Option(metavar="DIR", readable=False, help="Labelled test images, <class>/*, to measure accuracy.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="grcl, contrastive+sdc, contrastive+source, …; default: method.name.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the domain.")] = None,
    as_json: Json = False,
) -> None:
    """Adapt to a domain: one episode in the foreground. Interrupted, the same command goes on where it stopped."""
    project = open_project(context, {"method.name": method, "training.epochs": epochs})
    name = _name_domain(project, folder, domain)
    with _working(project, "adapt") as (store, stop):
        with _importing(project, store, stop) as importer:
            episode = _find_unfinished(importer, name) or _tell_imported(importer.import_domain(folder, name, test))
        _tell_finished(store, _run(project, store, episode, stop), as_json)


@contextmanager
def _working(project: "Project", command: str) -> Iterator[tuple["Store", "Stop"]]:
    """Be the only one at work on the project, in a state folder without leftovers; a signal is a request to stop."""
    from adaptd.episodes.sweep import sweep
    from adaptd.project.layout import Layout
    from adaptd.project.lock import hold_project
    from adaptd.releases.repositories import recover_repository
    from adaptd.signals import noting_signals

    with noting_signals() as stop, open_store(project) as store, hold_project(project.state, command):
        sweep(store, Layout(project.state))
        recover_repository(project, store)
        yield store, stop


@contextmanager
def _importing(project: "Project", store: "Store", stop: "Stop") -> Iterator["Importer"]:
    """An importer that shows its progress, and stops between two files."""
    from adaptd.imports.importer import Importer

    with progress_bar("reading images") as show:

        def show_file(done: int, total: int) -> None:
            stop.check()
            show(done, total)

        yield Importer(project, store, show_file)
    stop.check()


def _find_unfinished(importer: "Importer", name: str) -> Episode | None:
    """The episode of a domain that was queued or interrupted, which goes on as it began: that is said, and how to start over."""
    episode = importer.find_unfinished(name)
    if episode is not None:
        going_on = "its episode goes on where it was interrupted, with the images and settings it began with"
        say(f"{going_on}: {_describe_start(episode)}", err=True)
        say(f"to start over with others: adaptd cancel {quote(name)}, then the same command", err=True)
    return episode


def _tell_imported(imported: "Imported") -> Episode:
    rest = f"{imported.held_out:,} held-out" if imported.held_out else f"{imported.test:,} test"
    parts = [f"{imported.train:,} training and {rest} images"]
    if imported.quarantined:
        parts.append(f"{tell_count(imported.quarantined, 'file')} quarantined")
    if imported.duplicates:
        parts.append(f"{tell_count(imported.duplicates, 'duplicate')} left out")
    say(", ".join(parts), *filter(None, [imported.remark]), err=True)
    return imported.episode


def _run(project: "Project", store: "Store", episode: Episode, stop: "Stop") -> "Finished":
    from adaptd.episodes.running import EpisodeRunner
    from adaptd.episodes.telling import Audience
    from adaptd.project.lock import publishing_alone
    from adaptd.releases.promotion import finish_publishing

    with publishing_alone(project.state):
        finish_publishing(project, store)
    with store.reading() as tx:
        number = tx.episodes.next_number()
    with progress_bar(f"episode {number}") as show:

        def show_phase(phase: str, done: int, total: int) -> None:
            show(done, total, phase=phase)

        def show_step(report: "StepReport", accuracy: float | None) -> None:
            live = "" if accuracy is None else f" · source {accuracy:.1%} measured"
            losses = " ".join(f"{name} {value:.3f}" for name, value in report.losses.items())
            show(report.step, report.steps, (losses or "skipped: not finite") + live, left=report.seconds_left)

        audience = Audience(show_step, show_phase, lambda text: say(text, err=True))
        return EpisodeRunner(project, store, episode, audience, stop).run()


def _describe_start(episode: Episode) -> str:
    """What an episode was queued with, as far as its command can set it."""
    model, section = episode.config["model"], "source" if episode.method == SUPERVISED else "training"
    start = f", {model['backbone']} from {model['weights'] or 'random weights'}" if episode.method == SUPERVISED else ""
    return f"{episode.method}, {episode.config[section]['epochs']} epochs{start}"


def _tell_finished(store: "Store", finished: "Finished", as_json: bool) -> None:
    from adaptd.cli.matrix import render_matrix
    from adaptd.evaluation.metrics import summarize
    from adaptd.releases.matrix import read_matrix

    with store.reading() as tx:
        matrix = read_matrix(tx)
    version = finished.version
    passed, reasons = (version.gate.passed, version.gate.reasons) if version.gate else (None, ())
    document: dict[str, Any] = {"episode": finished.number, "version": version.version, "state": version.state}
    document["gate"] = {"passed": passed, "reasons": reasons}
    document["report"] = finished.report
    if as_json:
        print_json("adaptd.episode/1", document | {"matrix": matrix.to_json(), "metrics": summarize(matrix).to_json()})
        return
    make_console().print(render_matrix(matrix))
    for name, loss in finished.report["cross_entropy"].items():
        if loss["before"] is not None:
            say(f"{name} cross-entropy {loss['before']:.4f} → {loss['after']:.4f}")
    took = tell_duration(finished.report["seconds"])
    say(f"episode {finished.number} done in {took}: version {version.version} is {version.state}")
    if version.state is VersionState.REJECTED:
        say(*(f"  {reason}" for reason in reasons))
        if finished.number == 0:
            say("  Dropped folders wait. `adaptd promote 1 --force --why REASON` publishes it as it is.")


def _name_domain(project: "Project", folder: Path, name: str | None) -> str:
    """The name given, or the one that the folder would have in the inbox."""
    from adaptd.imports.naming import name_domain

    wanted = folder.resolve().name if name is None else name
    with open_store(project) as store, store.reading() as tx:
        found = name_domain(tx, wanted) if name is None else find_domain_name(name)
    if found is None:
        raise ConfigError(
            f"{wanted!r} is not a name for a domain: give --domain NAME, without a slash or a dot before it, and not `source`"
        )
    return found
