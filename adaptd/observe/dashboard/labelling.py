"""The page on which a person labels images, one by one or from a grid, and what a keystroke there changes in the store."""

from typing import Any
from urllib.parse import quote, urlencode

from adaptd.errors import RequestRefused
from adaptd.labels.choosing import Gallery, choose_to_measure, choose_to_teach, read_gallery
from adaptd.labels.giving import give_labels, take_back
from adaptd.labels.summary import describe_labels, half_width, tell_shortage
from adaptd.observe.dashboard.site import Site
from adaptd.observe.dashboard.wording import make_visible
from adaptd.records import Domain, Image, Purpose, Split
from adaptd.store import Transaction

COUNT, MOST = 100, 1000
KEYS = "123456789abcdefghijklmnopqrstuvwxyz"


def view_labels(tx: Transaction, site: Site, name: str, count: int | None, image: int | None, *, teach: bool) -> dict[str, Any]:
    """The images to label, one of them in front, and what is known so far; DomainUnknown, LabelsRefused."""
    gallery = read_gallery(tx, name)
    images = _choose(gallery, count, teach=teach)
    place = next((i for i, each in enumerate(images) if each.id == image), None)
    if place is None:
        place = next((i for i, each in enumerate(images) if each.id not in gallery.labels), 0)
    settings = site.project.settings
    address = f"/domains/{quote(name, safe='')}/labels"
    about = describe_labels(tx, name, settings.evaluation.confidence)
    return {
        "domain": gallery.domain,
        "address": address,
        "this_list": f"{address}?{urlencode({'count': count or COUNT} | ({'teach': 1} if teach else {}))}",
        "teach": teach,
        "teaches": settings.labels.train,
        "items": [(each, gallery.labels.get(each.id)) for each in images],
        "place": place,
        "keys": list(zip(gallery.classes, assign_keys(gallery.classes), strict=True)),
        "held_out": bool(gallery.held_out),
        "shortage": tell_shortage(len(gallery.held_out)),
        "has_test": gallery.has_test,
        "done": sum(each.id in gallery.labels for each in images),
        "points_known": _points(about["to_measure"], site),
        "about": about,
    }


def assign_keys(classes: tuple[str, ...]) -> list[str | None]:
    """A key for each class: its own name where every name is one letter or digit, else 1 to 9, then letters; then none."""
    if all(len(name) == 1 and name.lower() in KEYS + "0" for name in classes) and len({c.lower() for c in classes}) == len(
        classes
    ):
        return [name.lower() for name in classes]
    return [KEYS[place] if place < len(KEYS) else None for place in range(len(classes))]


def change_labels(tx: Transaction, site: Site, name: str, form: dict[str, str], *, teach: bool) -> dict[str, Any]:
    """Take one label, or take one back; what the page shows of it. A form with neither only asks whether its token is right."""
    domain, undone = tx.domains.get_named(name), None
    if "undo" in form:
        undone = _find_newest(tx, domain, form.get("image", ""), teach=teach)
        take_back(tx, domain.id, [undone] if undone is not None else [])
    elif "label" in form:
        base, image = tx.versions.find_base(), _find_image(tx, domain, form.get("image", ""), teach=teach)
        classes = {make_visible(each): each for each in base.classes} if base is not None else {}
        if image is None or form["label"] not in classes:
            raise RequestRefused(400, f"{name} has no such image to label, or the model no such class")
        give_labels(tx, domain.id, {image.id: classes[form["label"]]}, teach=teach)
    count = tx.labels.counts().get((domain.id, Purpose.MEASURE), 0)
    return {"undone": undone, "measured_on": count, "points": _points(count, site)}


def _find_image(tx: Transaction, domain: Domain, number: str, *, teach: bool) -> Image | None:
    """An image of the domain that may be labelled for this purpose."""
    image = tx.images.find(int(number)) if number.isascii() and number.isdigit() and len(number) < 19 else None
    if image is None or image.domain_id != domain.id or image.split is Split.TEST:
        return None
    labels = {label.image_id: label.purpose for label in tx.labels.list_for(domain.id)}
    if image.split is Split.HELD_OUT:
        return None if teach else image
    has_ground = any(tx.images.has_any(domain.id, split) for split in (Split.HELD_OUT, Split.TEST))
    if has_ground and not teach:
        return None
    wanted = Purpose.TEACH if teach else Purpose.MEASURE
    return image if labels.get(image.id, wanted) is wanted else None


def _choose(gallery: Gallery, count: int | None, *, teach: bool) -> tuple[Image, ...]:
    wanted = min(max(count or COUNT, 1), MOST)
    return choose_to_teach(gallery, wanted) if teach else choose_to_measure(gallery, wanted)


def _find_newest(tx: Transaction, domain: Domain, image: str, *, teach: bool) -> int | None:
    """The image whose label is taken back: the one named where it has one, else the one labelled last."""
    mine = tx.labels.list_for(domain.id, Purpose.TEACH if teach else Purpose.MEASURE)
    named = [label.image_id for label in mine if str(label.image_id) == image]
    return next(iter(named), mine[-1].image_id if mine else None)


def _points(count: int, site: Site) -> float | None:
    width = half_width(count, site.project.settings.evaluation.confidence)
    return None if width is None else round(100 * width, 1)
