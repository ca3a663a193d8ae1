"""The whole story in one file to send to someone: the pages' parts one after another; styles, pictures and charts inside it."""

import base64
import hashlib
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from adaptd.observe.dashboard.domain import view_domain
from adaptd.observe.dashboard.domains import view_domains
from adaptd.observe.dashboard.matrix import view_matrix
from adaptd.observe.dashboard.overview import view_events, view_overview
from adaptd.observe.dashboard.rendering import read_static, render
from adaptd.observe.dashboard.site import Site
from adaptd.observe.dashboard.versions import view_version, view_versions
from adaptd.records import Image
from adaptd.store import Transaction

DOMAINS, VERSIONS, EVENTS, PICTURES = 20, 10, 100, 300
"""How much goes in at most: the newest domains and versions told at length, events, pictures in all."""
STYLES, SCRIPTS = ("uplot.css", "style.css"), ("uplot.js", "charts.js")


class ReportLinks:
    """Links inside one document; pictures as data, until there are enough of them."""

    def __init__(self, site: Site, domains: dict[str, int], versions: list[int]) -> None:
        self._site, self._domains, self._versions = site, domains, versions
        self._left, self.left_out = PICTURES, 0

    def domain(self, name: str) -> str | None:
        """Its chapter, where it has one."""
        return f"#domain-{self._domains[name]}" if name in self._domains else None

    def version(self, number: int) -> str | None:
        """Its chapter, where it has one."""
        return f"#version-{number}" if number in self._versions else None

    def act(self, action: str, domain: str | None = None, version: int | None = None) -> None:  # noqa: ARG002
        """Nothing is done in a report; it tells the command."""
        return

    def image(self, domain: str, image: Image) -> str | None:  # noqa: ARG002
        """The picture itself."""
        png = self._site.pictures.find_png(image)
        if png is None or not self._left:
            self.left_out += png is not None
            return None
        self._left -= 1
        return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def make_report(tx: Transaction, site: Site) -> str:
    """One HTML document that needs nothing else."""
    newest = sorted(tx.domains.list_all(), key=lambda domain: domain.updated_at)[-DOMAINS:][::-1]
    told = {domain.name: domain.id for domain in newest}
    listed = view_versions(tx, site)
    versions = [item["version"] for item in listed["versions"]][:VERSIONS]
    links = ReportLinks(site, told, versions)
    parts: list[tuple[str, str, str, dict[str, Any]]] = [
        ("overview", "Overview", "overview", view_overview(tx, site)),
        ("matrix", "Matrix", "matrix", view_matrix(site.matrices.read(tx))),
        ("domains", "Domains", "domains", view_domains(tx, site)),
        *((f"domain-{told[name]}", f"Domain {name}", "domain", view_domain(tx, site, name)) for name in told),
        ("versions", "Versions", "versions", listed),
        *((f"version-{number}", f"Version {number}", "version", view_version(tx, site, number)) for number in versions),
        ("events", "Events", "events", {"events": view_events(tx, EVENTS), "older": None}),
    ]
    shared = {"level": 3, "standalone": True, "actions_offered": False}
    sections = [
        (key, title, Markup(render(f"parts/{part}.html", values | shared, links)))  # noqa: S704
        for key, title, part, values in parts
    ]
    about = {"model": site.model, "made_at": datetime.now(UTC), "sections": sections, "left_out": links.left_out}
    return render("report.html", about | _inside())


def _inside() -> dict[str, Any]:
    """Styles and scripts, and the hashes by which a browser lets these scripts run and no others."""
    scripts = [read_static(name) for name in SCRIPTS]
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts]
    # Ours, like the parts, which are escaped already.
    ready = {"styles": Markup("\n".join(map(read_static, STYLES))), "scripts": list(map(Markup, scripts))}  # noqa: S704
    return ready | {"allowed": Markup(" ".join(hashes))}  # noqa: S704
