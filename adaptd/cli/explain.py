"""`adaptd explain DOMAIN`: the whole story of one domain, for a person. Works while the daemon is stopped."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from adaptd.cli.output import print_json, say
from adaptd.cli.project import open_project, open_store
from adaptd.errors import DomainUnknown
from adaptd.pace import tell_duration
from adaptd.text import tell_count, tell_moment, tell_points


def explain(
    context: typer.Context,
    domain: Annotated[str, typer.Argument(metavar="DOMAIN", help="Its name; `adaptd status` lists them.")],
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Tell when a domain came, what is in quarantine and why, its episodes and versions, and what they did to R."""
    from adaptd.observe.explain import SCHEMA, build_explanation

    project = open_project(context)
    try:
        with open_store(project) as store, store.reading() as tx:
            document = build_explanation(tx, domain)
    except DomainUnknown:
        if "/" not in domain and not domain.startswith(".") and (project.inbox / domain).is_dir():
            raise DomainUnknown(f"{domain} lies in the inbox and was not taken yet: start `adaptd run`, or wait") from None
        raise
    if as_json:
        print_json(SCHEMA, document)
    else:
        for line in _tell(document):
            say(line)


def _tell(story: dict[str, Any]) -> Iterator[str]:
    from adaptd.labels.summary import tell_errors

    because = f": {story['reason']}" if story["reason"] else ""
    yield f"{story['domain']} came {tell_moment(story['came_at'])}, is {story['state']}{because}"
    yield f"  {tell_count(story['images'], 'image')}, {story['memory']:,} kept in memory"
    if labels := story["labels"]:
        yield f"  {tell_count(labels['to_measure'], 'label')} to measure on, {labels['to_teach']:,} to teach{tell_errors(labels)}"
    for pause in story["paused"]:
        what = "everything" if pause["scope"] == "*" else "this domain"
        yield f"  paused since {tell_moment(pause['at'])} ({what}): {pause['reason']}"
    for drop in story["drops"]:
        yield _drop(drop)
    for group in story["quarantined"]:
        more = ", …" if group["count"] > len(group["names"]) else ""
        yield f"  quarantined: {group['count']:,} {group['reason']} ({', '.join(group['names'])}{more})"
    for episode in story["episodes"]:
        yield from _episode(episode)
    if story["events"]:
        yield "timeline"
    for event in story["events"]:
        yield f"  {tell_moment(event['at'])}  {event['kind']}: {event['message']}"


def _drop(drop: dict[str, Any]) -> str:
    size = (
        f"{tell_count(drop['files'], 'file')}, {decimal(drop['size_bytes'])}"
        if drop["files"]
        else "its files are not kept any more"
    )
    if drop["delivery"] is None:
        came_of_it = "waits"
    else:
        found = f"{drop['accepted']:,} accepted, {tell_count(drop['duplicates'], 'duplicate')}"
        came_of_it = f"delivery {drop['delivery']}: {found}" if drop["delivery"] else f"nothing new: {found}"
    died = f", reading it died {tell_count(drop['crashes'], 'time')}" if drop["crashes"] else ""
    return f"  drop {drop['number']} of {tell_moment(drop['claimed_at'])}: {size}; {came_of_it}{died}"


def _episode(episode: dict[str, Any]) -> Iterator[str]:
    title = f"episode of {tell_moment(episode['queued_at'])}" if episode["number"] is None else f"episode {episode['number']}"
    took = "" if episode["seconds"] is None else f" after {tell_duration(episode['seconds'])}"
    tries = f", {episode['attempts']} attempts" if episode["attempts"] > 1 else ""
    crashes = f", its worker died {tell_count(episode['crashes'], 'time')}" if episode["crashes"] else ""
    because = f": {episode['reason']}" if episode["reason"] else ""
    ended = f"{episode['outcome']}{took}{tries}{crashes}{because}"
    yield f"{title} on delivery {episode['delivery']} with {episode['method']}: {ended}"
    if episode["novelty"]:
        yield from _novelty(episode["novelty"])
    for version in episode["versions"]:
        restores = f", brings back version {version['restores']}" if version["restores"] else ""
        gate = version["gate"]
        outcome = "" if gate is None else f", gate {'passed' if gate.get('passed') else 'failed'}"
        reasons = "" if gate is None else "".join(f"; {reason}" for reason in gate.get("reasons", ()))
        yield f"  version {version['version']}: {version['state']}{restores}{outcome}{reasons}"
    if episode["trust"]:
        yield f"  at the start: {describe_trust(episode['trust'])}"
    if episode["health"]:
        yield f"  health: {describe_health(episode['health'])}"
    for change in episode["effect"]:
        before, after = change["before"], change["after"]
        yield f"  {change['domain']}: {_share(before)} → {_share(after)}{_gain(before, after)}"


def _gain(before: dict[str, Any] | None, after: dict[str, Any]) -> str:
    """In points; none where the two are known in different ways."""
    if before is None or before["kind"] != after["kind"]:
        return ""
    gain = after["value"] - before["value"]
    return f" ({'+' if gain >= 0 else ''}{tell_points(gain)})"


def describe_trust(trust: dict[str, Any]) -> str:
    """A domain beside the source, in one line."""
    shares = ", ".join(f"{name} {trust[name]:.0%}" for name in ("agreement", "balance", "spread", "confidence"))
    most = f"{trust['largest']:.0%} taken for {trust['largest_class']}"
    return f"recognition {trust['recognition']:.2f}; {shares} of the source's on {trust['images']:,} images; {most}"


def describe_health(looks: list[dict[str, Any]]) -> str:
    """The first look and the last, in one line."""
    first, last = looks[0], looks[-1]
    names = ("agreement", "balance", "nuclear_norm")
    parts = [f"{name.replace('_', ' ')} {first[name]:.2f} → {last[name]:.2f}" for name in names]
    return ", ".join([*parts, f"classes predicted {first['classes']} → {last['classes']}"])


def _novelty(novelty: dict[str, Any]) -> Iterator[str]:
    yield f"  {novelty['message']}"
    for each in novelty["distances"]:
        shift = f"class {each['shifted_class']} differs by {each['class_distance']:.2f} (p {each['outputs_p']:.1g})"
        told = "told apart" if each["told_apart"] else "not told apart"
        yield f"    {each['domain']}: AUC {each['auc']:.2f} (p {each['features_p']:.1g}), {shift}: {told}"


def _share(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "not known"
    from adaptd.evaluation.matrix import format_interval

    learned = " it learned from" if entry["kind"] == "estimated" and not entry["held_out"] else ""
    where = f" on {tell_count(entry['n'], 'image')}{learned}"
    return f"{entry['value']:.1%} {entry['kind']}{format_interval(entry['low'], entry['high'], '%')}{where}"
