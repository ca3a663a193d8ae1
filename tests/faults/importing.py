"""The way of a drop from the inbox to its commit, in one process: what faults are injected into.

`python -m tests.faults.importing PROJECT` exits with 0 when everything in the inbox was taken and imported.
"""

import sys
from pathlib import Path

from adaptd.daemon.arrivals import Arrivals
from adaptd.imports.importer import Importer
from adaptd.imports.quarantine import move_to_quarantine
from adaptd.project.layers import load_project
from adaptd.project.layout import Layout
from adaptd.store import Store


def main(root: Path) -> int:
    """As a daemon does that is started, takes what is there, and imports it."""
    project = load_project(root, overrides={"intake.settle_seconds": 0.0, "intake.minimum_images": 3})
    with Store(project.database, 5) as store:
        Arrivals(project, store).look(may_claim=True)
        with store.reading() as tx:
            domains = [tx.domains.get(key) for key in dict.fromkeys(drop.domain_id for drop in tx.drops.list_waiting())]
        move_to_quarantine(store, Layout(project.state))
        for domain in domains:
            Importer(project, store).import_drops(domain)
        stuck = move_to_quarantine(store, Layout(project.state))
    return 1 if stuck or any(project.inbox.iterdir()) else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
