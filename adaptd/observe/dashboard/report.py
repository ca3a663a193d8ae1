"""The whole story in one file to send to someone: the pages' parts one after another, styles and pictures inside it."""

import base64
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from adaptd.observe.dashboard.domains import view_domain, view_domains
from adaptd.observe.dashboard.matrix import view_matrix
from adaptd.observe.dashboard.overview import view_events, view_overview
from adaptd.observe.dashboard.rendering import read_styles, render
from adaptd.observe.dashboard.site import Site
from adaptd.observe.dashboard.versions import view_versions
from adaptd.records import Image
from adaptd.store import Transaction

DOMAINS, EVENTS, PICTURES = 20, 100, 300
"""How much goes in at most: the newest domains told at length, events, pictures in all."""


class ReportLinks:
    """Links inside one document; pictures as data, until there are enough of them."""

    def __init__(self, site: Site, told: dict[str, int]) -> None:
        self._site, self._told, self._left = site, told, PICTURES

    def domain(self, name: str) -> str | None:
        """Its chapter, where it has one."""
        return f"#domain-{self._told[name]}" if name in self._told else None

    def version(self, number: int) -> None:  # noqa: ARG002
        """Versions stand in one table."""
        return

    def image(self, domain: str, image: Image) -> str | None:  # noqa: ARG002
        """The picture itself."""
        png = self._site.pictures.find_png(image) if self._left > 0 else None
        if png is None:
            return None
        self._left -= 1
        return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def make_report(tx: Transaction, site: Site) -> str:
    """One HTML document that needs nothing else."""
    newest = sorted(tx.domains.list_all(), key=lambda domain: domain.updated_at)[-DOMAINS:][::-1]
    told = {domain.name: domain.id for domain in newest}
    links = ReportLinks(site, told)
    parts: list[tuple[str, str, str, dict[str, Any]]] = [
        ("overview", "Overview", "overview", view_overview(tx, site)),
        ("matrix", "Matrix", "matrix", view_matrix(site.matrices.read(tx))),
        ("domains", "Domains", "domains", view_domains(tx)),
        *((f"domain-{told[name]}", f"Domain {name}", "domain", view_domain(tx, site, name)) for name in told),
        ("versions", "Versions", "versions", view_versions(tx, site)),
        ("events", "Events", "events", {"events": view_events(tx, EVENTS), "older": None}),
    ]
    sections = [
        (key, title, Markup(render(f"parts/{part}.html", values | {"level": 3, "standalone": True}, links)))  # noqa: S704
        for key, title, part, values in parts
    ]
    styles = Markup(read_styles())  # noqa: S704 (ours, like the parts, which are escaped already)
    return render("report.html", {"model": site.model, "made_at": datetime.now(UTC), "styles": styles, "sections": sections})
