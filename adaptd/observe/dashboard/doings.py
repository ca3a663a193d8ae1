"""What a person may do from a page, in words: what it is called, what comes of it, and the command that does it.

Running the command is `actions`' business; who may ask for it, `access`'.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from shlex import join

from adaptd.errors import RequestRefused
from adaptd.learning.methods.registry import list_methods
from adaptd.records import NEW_SOURCE, Domain, DomainState

AT_REST = (DomainState.DONE, DomainState.REFUSED, DomainState.REJECTED, DomainState.FAILED, DomainState.SKIPPED)
AT_WORK = (DomainState.QUEUED, DomainState.TRAINING)


@dataclass(frozen=True, slots=True)
class Doing:
    """Something done to a domain, or to everything.

    Args:
        word: on the button.
        means: what comes of it.
        words: of the command, for a domain's name or none, and a form.
    """

    word: str
    means: str
    words: Callable[[str, Mapping[str, str]], list[str]]


def _retry(name: str, form: Mapping[str, str]) -> list[str]:
    method = form.get("method", "")
    if method and method not in list_methods():
        raise RequestRefused(400, "there is no such method")
    return ["retry", *([f"--method={method}"] if method else []), "--", name]


def _plain(command: str) -> Callable[[str, Mapping[str, str]], list[str]]:
    return lambda name, _: [command, *(["--", name] if name else [])]


DOINGS = {
    "retry": Doing(
        "Try again",
        "Another episode is queued, with the settings as they are now. Where the gate rejected the last one, the same settings "
        "would end the same: choose another method.",
        _retry,
    ),
    "forget": Doing(
        "Forget",
        "Its memory, its given labels and its place in later episodes go. Its original files stay, and so do versions that "
        "learned from it.",
        lambda name, _: ["forget", "--yes", "--", name],
    ),
    "pause": Doing("Pause", "A running episode writes a checkpoint and waits, until somebody lets it go on.", _plain("pause")),
    "resume": Doing("Let it go on", "What was paused goes on from where it was.", _plain("resume")),
    "cancel": Doing("Cancel", "Its episode is given up. Its images stay, and it can be tried again.", _plain("cancel")),
    "quarantine": Doing(
        "Restore from quarantine",
        "Its files move back into the inbox and come as its next delivery; what still cannot be used comes back.",
        lambda name, _: ["quarantine", "restore", f"--domain={name}"],
    ),
}
EVERYTHING = ("pause", "resume")
"""What can be done without naming a domain."""
WORDS = {name: doing.word for name, doing in DOINGS.items()} | {"promote": "Promote", "label": "Label images"}


def tell_command(action: str, domain: str | None = None, version: int | None = None) -> str:
    """What a person types at a terminal for the same."""
    if action == "promote":
        return f"adaptd promote {version} --force --why REASON"
    words = ["labels", "template", domain or ""] if action == "label" else DOINGS[action].words(domain or "", {})
    return join(["adaptd", *(word for word in words if word not in {"--", "--yes"})])


def list_doings(domain: Domain, *, is_paused: bool) -> list[str]:
    """What makes sense for a domain as it is; `label` is a page of its own."""
    is_target = domain.position != 0 and not domain.name.startswith(NEW_SOURCE)  # sources that were replaced, too
    found = ["label"] if is_target and domain.images else []
    found += ["retry", "forget"] if is_target and domain.state in AT_REST else []
    found += ["resume"] if is_paused else ["pause"] if domain.state in AT_WORK else []
    found += ["cancel"] if domain.state in AT_WORK else []
    return found + (["quarantine"] if domain.quarantined else [])
