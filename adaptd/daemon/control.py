"""What a person may tell the daemon: pause, resume, retry, cancel. Each is a change in the store, which the daemon follows."""

from shlex import quote

from adaptd.errors import EpisodeError
from adaptd.imports.commit import new_episode
from adaptd.project.settings import Settings
from adaptd.records import EVERYTHING, SOURCE, SUPERVISED, Domain, DomainState, EpisodeState, EventKind, Purpose
from adaptd.store import Store, Transaction


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


def retry(store: Store, name: str, settings: Settings) -> str:
    """Queue a failed, cancelled or waiting domain again, with everything that came for it; a finished one to be taught."""
    with store.writing() as tx:
        domain = tx.domains.get_named(name)
        waits_for_more = domain.state is DomainState.SETTLED and domain.reason is not None
        if domain.state not in {DomainState.DONE, DomainState.FAILED, DomainState.SKIPPED} and not waits_for_more:
            raise EpisodeError(
                f"{name} is {domain.state}: only a domain that is done, failed, was cancelled or waits can be tried again"
            )
        is_over = domain.state is DomainState.DONE and not tx.drops.list_waiting(domain.id)
        if is_over or not tx.drops.give_back(domain.id, tx.episodes.last_delivery(domain.id) + 1):
            return _teach(tx, domain, settings)
        tx.domains.set_state(domain.id, DomainState.SETTLED)
        tx.events.add(EventKind.RETRIED, f"{name} is tried again", domain_id=domain.id)
    return f"{name} is tried again, from its images on"


def _teach(tx: Transaction, domain: Domain, settings: Settings) -> str:
    """Queue another episode on the newest delivery that was learned from, for the labels that came to teach since then."""
    name, base = domain.name, tx.versions.find_base()
    learned = [e for e in tx.episodes.list_all(EpisodeState.DONE) if e.domain_id == domain.id and e.method != SUPERVISED]
    if not learned or base is None:
        how = "adaptd source import DIR" if name == SOURCE else f"adaptd adapt DIR --domain {quote(name)}"
        raise EpisodeError(f"{name} did not come through the inbox: run `{how}` again, or drop its images into the inbox")
    begun = learned[-1].started_at
    new = [label for label in tx.labels.list_for(domain.id, Purpose.TEACH) if begun is None or label.labelled_at > begun]
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
