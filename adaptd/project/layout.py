"""Where things lie in the state folder. Paths kept in the store are relative to it, so that a project can be moved."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from adaptd.records import Split

LONGEST_NAME = 255
"""Bytes that the name of a file or folder may have."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The state folder of a project."""

    state: Path

    @property
    def drops(self) -> Path:
        """Folders that came through the inbox."""
        return self.state / "domains"

    def drop(self, domain_id: int, number: int) -> Path:
        """One of them, as it came."""
        return self.drops / str(domain_id) / str(number)

    @property
    def quarantined(self) -> Path:
        """Files that cannot be used."""
        return self.state / "quarantine"

    def quarantine(self, domain: str, number: int) -> Path:
        """The quarantined files of one drop, by the domain's name, so that a person finds them.

        A name grows when odd characters are spelled out, and may then be too long for a folder.
        """
        if len(os.fsencode(domain)) > LONGEST_NAME:
            domain = f"{domain[:40]}-{hashlib.sha256(os.fsencode(domain)).hexdigest()}"
        return self.quarantined / domain / str(number)

    @property
    def staging(self) -> Path:
        """Versions on their way into the models folder."""
        return self.state / "staging"

    @property
    def caches(self) -> Path:
        """Decoded images."""
        return self.state / "cache"

    def cache(self, domain_id: int, delivery: int, split: Split) -> Path:
        """The decoded images of one delivery of a domain."""
        return self.caches / f"{domain_id}-{delivery}-{split}"

    @property
    def memories(self) -> Path:
        """Pixels of memories."""
        return self.state / "memory"

    def memory(self, domain_id: int, episode_id: int) -> Path:
        """The pixels of a domain's memory as an episode left it."""
        return self.memories / f"{domain_id}-{episode_id}"

    def weights(self, episode_id: int) -> Path:
        """The weights after an episode."""
        return self.state / "weights" / f"episode-{episode_id}.safetensors"

    def unfinished_weights(self, episode_id: int) -> Path:
        """The same while they are being written."""
        return self.state / "weights" / f".episode-{episode_id}.safetensors"

    def checkpoints(self, episode_id: int) -> Path:
        """The folder of an episode's checkpoints."""
        return self.state / "checkpoints" / str(episode_id)

    def activations(self, episode_id: int) -> Path:
        """What an episode keeps of images below what it trains, while it runs."""
        return self.state / "activations" / str(episode_id)

    @property
    def checks(self) -> Path:
        """Trained check models; made anew where they are gone."""
        return self.state / "checks"

    def insight(self, episode_id: int) -> Path:
        """What an episode changed, image by image; for pages only."""
        return self.state / "insights" / f"{episode_id}.json"

    def relative(self, path: Path) -> str:
        """As it is kept in the store."""
        return str(path.relative_to(self.state))
