"""The list of domains, sorted and filtered; and the page that asks before something is done to one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from adaptd.errors import AdaptdError
from adaptd.evaluation.matrix import Matrix
from adaptd.learning.methods.registry import list_methods
from adaptd.observe.dashboard.doings import DOINGS, tell_command
from adaptd.observe.dashboard.site import PageLinks, Site
from adaptd.records import Accuracy, Domain, DomainState, VersionState
from adaptd.releases.forgetting import look_ahead
from adaptd.releases.served import read_accuracies
from adaptd.store import Transaction

PAGE = 50


@dataclass(frozen=True, slots=True)
class Listed:
    """A domain as one line: what the served version reaches on it, and what the model did before its first episode."""

    domain: Domain
    memory: int
    served: Accuracy | None
    before: Any

    @property
    def gain(self) -> float | None:
        """Since before its first episode; None unless both are known alike."""
        if self.served is None or self.before is None or self.before.kind is not self.served.kind:
            return None
        return self.served.value - float(self.before.value)


KEYS: dict[str, tuple[str, Callable[[Listed], Any]]] = {
    "newest": ("newest first", lambda each: -each.domain.id),
    "name": ("by name", lambda each: each.domain.name),
    "accuracy": ("least accurate first", lambda each: 2.0 if each.served is None else each.served.value),
    "gain": ("least gain first", lambda each: 2.0 if each.gain is None else each.gain),
    "images": ("most images first", lambda each: -each.domain.images),
    "quarantined": ("most in quarantine first", lambda each: -each.domain.quarantined),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What an address asks of the list; what it does not know is as good as none."""

    sort: str = "newest"
    state: str = ""
    name: str = ""
    page: int = 0

    def at(self, page: int) -> str:
        """The address of another page."""
        return "/domains?" + urlencode({"sort": self.sort, "state": self.state, "name": self.name, "page": page})


def view_domains(tx: Transaction, site: Site, asked: Asked | None = None) -> dict[str, Any]:
    """A page of the domains that are asked for."""
    asked = asked or Asked()
    memories, domains, matrix = tx.memories.counts(), tx.domains.list_all(), site.matrices.read(tx)
    promoted = tx.versions.find_latest(VersionState.PROMOTED)
    served = {} if promoted is None else read_accuracies(tx, promoted)
    before = _before(matrix)
    meant = [
        Listed(domain, memories.get(domain.id, 0), served.get(domain.name), before.get(domain.name))
        for domain in domains
        if asked.state in {"", domain.state} and asked.name.lower() in domain.name.lower()
    ]
    meant.sort(key=KEYS[asked.sort if asked.sort in KEYS else "newest"][1])
    last = max(0, -(-len(meant) // PAGE) - 1)
    page = min(asked.page, last)
    return {
        "asked": asked,
        "domains": meant[page * PAGE : (page + 1) * PAGE],
        "meant": len(meant),
        "all": len(domains),
        "first": page * PAGE + 1,
        "served_version": None if promoted is None else promoted.version,
        "sorts": [(key, text) for key, (text, _) in KEYS.items()],
        "states": [state.value for state in DomainState],
        "earlier": asked.at(page - 1) if page else None,
        "later": asked.at(page + 1) if page < last else None,
    }


def _before(matrix: Matrix) -> dict[str, Any]:
    """What is known of each target from before its first episode."""
    begins = ((name, matrix.begin(j), matrix.first_rows[j], j) for j, name in enumerate(matrix.domains) if j)
    return {name: matrix.rows[row][j] for name, row, first, j in begins if row < first}


def view_doing(tx: Transaction, site: Site, action: str, name: str | None) -> dict[str, Any]:
    """What is about to be done to a domain, or to everything, and what that means; DomainUnknown."""
    domain = None if name is None else tx.domains.get_named(name)
    return {
        "doing": DOINGS[action],
        "domain": domain,
        "address": PageLinks().act(action, name),
        "command": tell_command(action, name),
        "methods": list_methods() if action == "retry" else (),
        "method": site.project.settings.method.name,
        "told": _foretell(tx, site, name) if action == "forget" and name is not None else (),
    }


def _foretell(tx: Transaction, site: Site, name: str) -> tuple[str, ...]:
    try:
        return tuple(look_ahead(tx, site.project.state, name).tell())
    except AdaptdError as problem:
        return (str(problem),)
