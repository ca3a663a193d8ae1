"""What a person may tell the daemon: pause, resume, retry, cancel. Each is a change in the store, which the daemon follows."""

from collections.abc import Sequence
from shlex import quote

from adaptd.errors import EpisodeError
from adaptd.imports.commit import new_episode
from adaptd.library.memories import find_forgotten
from adaptd.project.layers import Project
from adaptd.project.reload import reload_project
from adaptd.project.settings import Settings
from adaptd.records import EVERYTHING, SOURCES, SUPERVISED, Domain, DomainState, Episode, EpisodeState, EventKind, Label, Purpose
from adaptd.store import Store, Transaction

AT_REST = (DomainState.DONE, DomainState.REFUSED, DomainState.REJECTED, DomainState.FAILED, DomainState.SKIPPED)


def pause(store: Store, name: str | None) -> str:
    """Train nothing more for a domain, or at all; a running episode writes a checkpoint and waits."""
    with store.writing() as tx:
        domain = None if name is None else tx.domains.get_named(name)
        tx.pauses.add(name or EVERYTHING, "paused by `adaptd pause`")
        tx.events.add(EventKind.PAUSED, f"{name or 'everything'} is paused", domain_id=domain.id if domain else None)
    return f"{name or 'everything'} is paused: `adaptd resume{f' {quote(name)}' if name else ''}` lets it go on"


def resume(store: Store, name: str | None) -> str:
    """Let a domain, or everything, go on."""
    with store.writing() as tx:
        domain = None if name is None else tx.domains.get_named(name)
        if not tx.pauses.remove(name or EVERYTHING):
            paused = ", ".join(pause.scope for pause in tx.pauses.list_all()) or "nothing"
            raise EpisodeError(f"{name or 'everything'} is not paused: {paused} is")
        tx.events.add(EventKind.RESUMED, f"{name or 'everything'} goes on", domain_id=domain.id if domain else None)
    return f"{name or 'everything'} goes on"


def retry(store: Store, name: str, settings: Settings, assignments: Sequence[str] = ()) -> str:
    """Queue a domain that is at rest again, with everything that came for it; a rejected one with other settings.

    Args:
        store: of the project.
        name: the domain's.
        settings: as they are at this moment, with the assignments.
        assignments: what a person wants for this episode, as `section.key=value`; the import reads the rest from the file again.
    """
    with store.writing() as tx:
        domain = tx.domains.get_named(name)
        waits_for_more = domain.state is DomainState.SETTLED and domain.reason is not None
        if domain.state not in AT_REST and not waits_for_more:
            raise EpisodeError(f"{name} is {domain.state}: only a domain that is at rest or waits for images can be tried again")
        has_more = bool(tx.drops.list_waiting(domain.id))
        if domain.state is DomainState.REJECTED and not has_more:
            return _try_another_way(tx, domain, settings, assignments)
        if (domain.state is DomainState.DONE and not has_more) or not _give_back(tx, domain):
            return _teach(tx, domain, settings)
        newest = tx.episodes.find_newest(domain.id)
        tx.domains.set_retry(domain.id, newest.id if newest else 0, assignments)
        tx.domains.set_state(domain.id, DomainState.SETTLED)
        tx.events.add(EventKind.RETRIED, f"{name} is tried again{_tell(assignments)}", domain_id=domain.id)
    return f"{name} is tried again, from its images on{_tell(assignments)}"


def resolve_retry(project: Project, tx: Transaction, domain: Domain) -> Project:
    """The project with the settings for a domain's next episode: read anew, with what a person wants, where it is a retry.

    Raises:
        ConfigError: they are wrong by now.
    """
    newest = tx.episodes.find_newest(domain.id)
    if domain.retry is None or domain.retry["after"] != (newest.id if newest else 0):
        return project
    return reload_project(project, domain.retry["set"])[0]


def _tell(assignments: Sequence[str]) -> str:
    return f" with {', '.join(assignments)}" if assignments else ""


def _give_back(tx: Transaction, domain: Domain) -> int:
    """How many drops wait then; of a domain that was forgotten all that are kept."""
    if domain.id in find_forgotten([domain], tx.episodes.list_all()):
        given = tx.drops.give_back_all(domain.id)
        if not given:
            raise EpisodeError(f"{domain.name} is forgotten, and none of its originals is kept: drop its images again")
        return given
    return tx.drops.give_back(domain.id, tx.episodes.last_delivery(domain.id) + 1)


def _try_another_way(tx: Transaction, domain: Domain, settings: Settings, assignments: Sequence[str]) -> str:
    """Queue another episode on the delivery whose version was rejected. The same seed and settings would give the same."""
    before, base = _find_learned(tx, domain)[-1], tx.versions.find_base()
    assert base is not None, "a version was rejected"
    new = new_episode(domain, before.delivery, base.classes, settings)
    if new.config_hash == before.config_hash and before.base == base.version and not _list_new_labels(tx, domain, before):
        raise EpisodeError(
            f"{domain.name} would end as before, with the same settings and images: give --method NAME or "
            "--set section.key=value, drop more images of it, or label some"
        )
    episode = tx.episodes.add(new)
    tx.domains.set_state(domain.id, DomainState.QUEUED)
    message = f"{domain.name} gets another episode by {new.method}{_tell(assignments)}"
    tx.events.add(EventKind.RETRIED, message, domain_id=domain.id, episode_id=episode.id)
    return message


def _teach(tx: Transaction, domain: Domain, settings: Settings) -> str:
    """Queue another episode on the newest delivery that was learned from, for the labels that came to teach since then."""
    name, base = domain.name, tx.versions.find_base()
    learned = _find_learned(tx, domain)
    if not learned or base is None:
        how = "adaptd source import DIR --again" if name in SOURCES else f"adaptd adapt DIR --domain {quote(name)}"
        raise EpisodeError(f"{name} did not come through the inbox: run `{how}` again, or drop its images into the inbox")
    new = _list_new_labels(tx, domain, learned[-1])
    if not new:
        raise EpisodeError(
            f"{name} is {domain.state}, and no labels came to teach it since its last episode: fill in teach.csv of "
            f"`adaptd labels template {quote(name)}`, import it, and try again"
        )
    if not settings.labels.train:
        raise EpisodeError(f"{len(new)} labels wait to teach {name}, but labels.train is false: set it, and try again")
    episode = tx.episodes.add(new_episode(domain, learned[-1].delivery, base.classes, settings))
    tx.domains.set_state(domain.id, DomainState.QUEUED)
    message = f"{name} gets another episode: {len(new)} labels came to teach it"
    tx.events.add(EventKind.RETRIED, message, domain_id=domain.id, episode_id=episode.id)
    return message


def _find_learned(tx: Transaction, domain: Domain) -> list[Episode]:
    """The committed episodes on a domain."""
    return [e for e in tx.episodes.list_all(EpisodeState.DONE) if e.domain_id == domain.id and e.method != SUPERVISED]


def _list_new_labels(tx: Transaction, domain: Domain, before: Episode) -> list[Label]:
    """Labels that came to teach since an episode began."""
    begun = before.started_at
    return [label for label in tx.labels.list_for(domain.id, Purpose.TEACH) if begun is None or label.labelled_at > begun]


def cancel(store: Store, name: str) -> str:
    """Give a domain's waiting or running episode up; its images stay."""
    why = "cancelled by `adaptd cancel`"
    with store.writing() as tx:
        domain = tx.domains.get_named(name)
        episode = tx.episodes.find_unfinished(domain.id)
        if episode is None and not tx.drops.list_waiting(domain.id):
            raise EpisodeError(f"{name} is {domain.state}: there is nothing to cancel")
        if episode is not None:
            tx.episodes.cancel(episode.id, why)
            tx.checkpoints.forget_all(episode.id)
        tx.domains.set_state(domain.id, DomainState.SKIPPED, f"{why}; `adaptd retry {quote(name)}` takes it up again")
        tx.events.add(EventKind.CANCELLED, why, domain_id=domain.id, episode_id=episode.id if episode else None)
    return f"{name} is cancelled: its images are kept, `adaptd retry {quote(name)}` takes it up again"
