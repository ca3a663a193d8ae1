"""Images: what is in a domain, by content."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, Select, delete, func, insert, select, update

from adaptd.records import Image, ImageState, NewImage, Split
from adaptd.store.repository import Repository, in_chunks
from adaptd.store.tables import domains, images, labels


class Images(Repository):
    """The accepted images of all domains.

    An image is its content: (domain, sha256) is unique, and adding it again changes nothing. Rows are added only after the
    bytes are safe on disk; a row that is there means the image is kept.
    """

    def reserve(self, count: int) -> list[int]:
        """Ids for images that are about to be added by the only one who adds any."""
        if self._connection.dialect.name == "postgresql":
            numbers = func.nextval(func.pg_get_serial_sequence(images.name, "id"))
            statement = select(numbers).select_from(func.generate_series(1, count))
            return list(self._connection.execute(statement).scalars())
        last: int | None = self._connection.execute(select(func.max(images.c.id))).scalar()
        return list(range((last or 0) + 1, (last or 0) + 1 + count))

    def add_many(self, domain_id: int, new: Sequence[NewImage]) -> dict[str, int]:
        """Accept images and return every sha256's id, of those that were there before too."""
        # On PostgreSQL two writers of one domain would count wrongly; SQLite has one writer anyway.
        self._connection.execute(select(domains.c.id).where(domains.c.id == domain_id).with_for_update())
        known: dict[str, int] = {}
        added = 0
        for chunk in in_chunks(new):
            known.update(self._ids(domain_id, [image.sha256 for image in chunk]))
            rows: dict[str, dict[str, object]] = {}
            for image in chunk:
                if image.sha256 not in known:
                    rows.setdefault(image.sha256, {"domain_id": domain_id, "state": ImageState.ACCEPTED, **_values(image)})
            if rows:
                self._connection.execute(insert(images), list(rows.values()))
                known.update(self._ids(domain_id, list(rows)))
                added += len(rows)
        self._connection.execute(update(domains).where(domains.c.id == domain_id).values(images=domains.c.images + added))
        return known

    def list_for(self, domain_id: int, split: Split | None = None) -> tuple[Image, ...]:
        """A domain's images, or one split of them, by id."""
        return tuple(_record(row) for row in self._connection.execute(_of(domain_id, split)).all())

    def find(self, image_id: int) -> Image | None:
        """By id."""
        row = self._connection.execute(select(images).where(images.c.id == image_id)).first()
        return None if row is None else _record(row)

    def list_some(self, image_ids: Sequence[int]) -> tuple[Image, ...]:
        """Those of these that are there, by id."""
        found: list[Image] = []
        for chunk in in_chunks(image_ids):
            found += map(_record, self._connection.execute(select(images).where(images.c.id.in_(chunk)).order_by(images.c.id)))
        return tuple(found)

    def sample(self, domain_id: int, count: int) -> tuple[Image, ...]:
        """A few of a domain's images: by hash, so that they are drawn at random and stay the same."""
        statement = select(images).where(images.c.domain_id == domain_id).order_by(images.c.sha256).limit(count)
        return tuple(_record(row) for row in self._connection.execute(statement))

    def list_shared(self, domain_id: int, other_id: int, deliveries: int) -> frozenset[str]:
        """Hashes of a domain's images, test images aside, that another domain has in one of its first `deliveries`."""
        mine, other = images.alias(), images.alias()
        same = (other.c.domain_id == other_id) & (other.c.sha256 == mine.c.sha256) & (other.c.delivery <= deliveries)
        wanted = (mine.c.domain_id == domain_id, mine.c.split != Split.TEST)
        return frozenset(self._connection.execute(select(mine.c.sha256).join(other, same).where(*wanted)).scalars())

    def remove_delivery(self, domain_id: int, delivery: int) -> None:
        """Forget a delivery that no episode needs any more, and the labels of its images."""
        mine = (images.c.domain_id == domain_id, images.c.delivery == delivery)
        self._connection.execute(delete(labels).where(labels.c.image_id.in_(select(images.c.id).where(*mine))))
        removed = self._connection.execute(delete(images).where(*mine))
        count = domains.c.images - removed.rowcount
        self._connection.execute(update(domains).where(domains.c.id == domain_id).values(images=count))

    def remove_all(self, domain_id: int) -> None:
        """Forget a domain's images and their labels; nothing may remember them any more."""
        for delivery in {delivery for delivery, _ in self.list_parts(domain_id)}:
            self.remove_delivery(domain_id, delivery)

    def forget_originals(self, domain_id: int, delivery: int) -> None:
        """The files that a delivery was decoded from are not kept any more."""
        mine = (images.c.domain_id == domain_id, images.c.delivery == delivery)
        self._connection.execute(update(images).where(*mine).values(state=ImageState.REMOVED))

    def forget_originals_of(self, image_ids: Sequence[int]) -> None:
        """The files of these images are not kept any more."""
        for chunk in in_chunks(image_ids):
            self._connection.execute(update(images).where(images.c.id.in_(chunk)).values(state=ImageState.REMOVED))

    def keep_originals_of(self, image_ids: Sequence[int]) -> None:
        """They are kept after all."""
        for chunk in in_chunks(image_ids):
            self._connection.execute(update(images).where(images.c.id.in_(chunk)).values(state=ImageState.ACCEPTED))

    def has_any(self, domain_id: int, split: Split) -> bool:
        """Whether a domain has images of a split."""
        statement = select(images.c.id).where(images.c.domain_id == domain_id, images.c.split == split).limit(1)
        return self._connection.execute(statement).first() is not None

    def count_labels(self, domain_id: int) -> dict[str, int]:
        """How many of a domain's training images came with each label."""
        mine = (images.c.domain_id == domain_id, images.c.split == Split.TRAIN, images.c.label.is_not(None))
        statement = select(images.c.label, func.count()).where(*mine).group_by(images.c.label)
        return dict(self._connection.execute(statement).all())

    def list_parts(self, domain_id: int) -> tuple[tuple[int, Split], ...]:
        """Which splits of which deliveries a domain has images in."""
        statement = select(images.c.delivery, images.c.split).where(images.c.domain_id == domain_id).distinct()
        return tuple(
            (delivery, Split(split)) for delivery, split in self._connection.execute(statement.order_by("delivery", "split"))
        )

    def _ids(self, domain_id: int, hashes: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for chunk in in_chunks(hashes):
            statement = select(images.c.sha256, images.c.id).where(images.c.domain_id == domain_id, images.c.sha256.in_(chunk))
            found |= dict(self._connection.execute(statement).all())
        return found


def _of(domain_id: int, split: Split | None) -> Select[tuple[object, ...]]:
    statement = select(images).where(images.c.domain_id == domain_id).order_by(images.c.id)
    return statement if split is None else statement.where(images.c.split == split)


def _values(image: NewImage) -> dict[str, object]:
    return {name: getattr(image, name) for name in NewImage.__slots__ if name != "id" or image.id is not None}


def _record(row: Row[Any]) -> Image:
    # There may be hundreds of thousands: by position, in the order of the table's columns, this takes a third of the time.
    values: tuple[Any, ...] = tuple(row)
    key, domain_id, sha256, size_bytes, name, split, state, *rest = values
    return Image(key, domain_id, sha256, size_bytes, name, Split(split), ImageState(state), *rest)
