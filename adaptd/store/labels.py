"""Labels that people gave to images which came without, and what each is for: to measure on or to teach, never both."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import delete, func, insert, select

from adaptd.records import Label, Purpose, Split
from adaptd.store.repository import Repository, fields, in_chunks
from adaptd.store.tables import images, labels


class Labels(Repository):
    """One label an image at most, for one purpose: giving another replaces it."""

    def give(self, domain_id: int, given: Mapping[int, str], wanted: Purpose = Purpose.MEASURE) -> dict[Purpose, int]:
        """Classes by image id, of one domain; how many there are for which purpose.

        A held-out image is measured on and never taught. In a domain that has held-out images, or a test set, all others teach.
        In one that has neither they are for what is wanted.
        """
        others = select(images.c.id).where(images.c.domain_id == domain_id, images.c.split != Split.TRAIN).limit(1)
        has_ground = self._connection.execute(others).first() is not None
        held_out = self._list_held_out(given)
        otherwise = Purpose.TEACH if has_ground else wanted
        purposes = {key: Purpose.MEASURE if key in held_out else otherwise for key in given}
        self.remove(given)
        now = self._clock()
        rows = [{"image_id": k, "label": name, "purpose": purposes[k], "labelled_at": now} for k, name in given.items()]
        for chunk in in_chunks(rows):
            self._connection.execute(insert(labels), list(chunk))
        return dict(Counter(purposes.values()))

    def _list_held_out(self, image_ids: Iterable[int]) -> set[int]:
        found: set[int] = set()
        for chunk in in_chunks(list(image_ids)):
            mine = (images.c.id.in_(chunk), images.c.split == Split.HELD_OUT)
            found |= set(self._connection.execute(select(images.c.id).where(*mine)).scalars())
        return found

    def remove(self, image_ids: Iterable[int]) -> int:
        """Take labels back; how many there were."""
        removed = 0
        for chunk in in_chunks(list(image_ids)):
            removed += self._connection.execute(delete(labels).where(labels.c.image_id.in_(chunk))).rowcount
        return removed

    def list_for(self, domain_id: int, purpose: Purpose | None = None) -> tuple[Label, ...]:
        """A domain's labels, or those for one purpose, oldest first."""
        statement = select(labels).join(images, images.c.id == labels.c.image_id).where(images.c.domain_id == domain_id)
        if purpose is not None:
            statement = statement.where(labels.c.purpose == purpose)
        rows = self._connection.execute(statement.order_by(labels.c.labelled_at, labels.c.image_id))
        return tuple(Label(**fields(row) | {"purpose": Purpose(row.purpose)}) for row in rows)

    def list_by_content(self, domain_id: int, delivery: int) -> dict[str, Label]:
        """The labels of a delivery, by the hash of their image: they outlive its rows, which an import may write anew."""
        columns = (images.c.sha256, *labels.c)
        mine = (images.c.domain_id == domain_id, images.c.delivery == delivery)
        rows = self._connection.execute(select(*columns).join(images, images.c.id == labels.c.image_id).where(*mine))
        return {row.sha256: Label(row.image_id, row.label, Purpose(row.purpose), row.labelled_at) for row in rows}

    def counts(self) -> dict[tuple[int, Purpose], int]:
        """How many there are, by domain id and purpose."""
        keys = (images.c.domain_id, labels.c.purpose)
        statement = select(*keys, func.count()).join(images, images.c.id == labels.c.image_id).group_by(*keys)
        return {(domain_id, Purpose(purpose)): count for domain_id, purpose, count in self._connection.execute(statement)}

    def stamp(self) -> tuple[int, datetime | None]:
        """Changes whenever labels are given, and nearly always when some are taken back."""
        count, newest = self._connection.execute(select(func.count(), func.max(labels.c.labelled_at))).one()
        return count, newest
