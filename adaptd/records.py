"""The vocabulary: what the store remembers and the rooms hand to each other. No behaviour lives here."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

SOURCE = "source"
"""The name of domain 0."""

NEW_SOURCE = ".source"
"""The name of a domain that is about to become domain 0; no folder in the inbox can have it."""

SOURCES = frozenset({SOURCE, NEW_SOURCE})

SUPERVISED = "supervised"
"""The method of episode 0, and of each that begins a lineage."""

REFUSED = "refused"
"""Under this name the report of an episode that failed tells that its domain was refused."""

EVERYTHING = "*"
"""The scope of a pause that is for all domains."""


class DomainState(StrEnum):
    """Where a domain stands on its way through the daemon."""

    ARRIVING = "arriving"
    SETTLED = "settled"
    QUEUED = "queued"
    TRAINING = "training"
    DONE = "done"
    REFUSED = "refused"
    """The model's own labels for it cannot be trusted: nothing was learned."""
    REJECTED = "rejected"
    """Its newest episode is done, and the gate rejected the version. Stored as `done`: the version says the rest."""
    FAILED = "failed"
    SKIPPED = "skipped"


class Split(StrEnum):
    """What an image is for."""

    TRAIN = "train"
    TEST = "test"
    HELD_OUT = "held-out"


class Purpose(StrEnum):
    """What a label that a person gave is for: to measure on, or to learn from. Never both."""

    MEASURE = "measure"
    TEACH = "teach"


class ImageState(StrEnum):
    """Whether an image's bytes are still kept."""

    ACCEPTED = "accepted"
    REMOVED = "removed"


class Reason(StrEnum):
    """Why a file was refused; each is a metric label."""

    EMPTY = "empty"
    TRUNCATED = "truncated"
    DAMAGED = "damaged"
    NOT_AN_IMAGE = "not-an-image"
    FORMAT = "format"
    TOO_LARGE = "too-large"
    TOO_MANY_PIXELS = "too-many-pixels"
    TOO_COSTLY = "too-costly"
    CRASHED = "crashed"
    NOT_A_FILE = "not-a-file"
    UNREADABLE = "unreadable"
    NO_CLASS = "no-class"
    UNKNOWN_CLASS = "unknown-class"
    TEMPORARY = "temporary"


class EpisodeState(StrEnum):
    """Where an episode stands. `done` is the commit: row t of R is complete exactly then."""

    QUEUED = "queued"
    TRAINING = "training"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class VersionState(StrEnum):
    """A version before, after passing, after failing the gate, and after it was replaced for good."""

    CANDIDATE = "candidate"
    PROMOTED = "promoted"
    REJECTED = "rejected"
    RETIRED = "retired"


class EventKind(StrEnum):
    """What happened; `observe.vocabulary` says what each means. A database may hold kinds of a newer adaptd."""

    DOMAIN_SEEN = "domain-seen"
    DROP_CLAIMED = "drop-claimed"
    DROP_WAITS = "drop-waits"
    DROP_NOTHING_NEW = "drop-nothing-new"
    DROP_REFUSED = "drop-refused"
    DROP_STUCK = "drop-stuck"
    DOMAIN_QUEUED = "domain-queued"
    CLASS_FOLDERS = "class-folders"
    DROP_COMPARED = "drop-compared"
    DROP_MERGED = "drop-merged"
    IMPORT_FAILED = "import-failed"
    EPISODE_DONE = "episode-done"
    EPISODE_FAILED = "episode-failed"
    CHECKPOINT_REFUSED = "checkpoint-refused"
    WORKER_DIED = "worker-died"
    GIVEN_UP = "given-up"
    LABELS_GIVEN = "labels-given"
    LABELS_REMOVED = "labels-removed"
    DOMAIN_MEASURED = "domain-measured"
    VERSION_REJECTED = "version-rejected"
    VERSION_PROMOTED = "version-promoted"
    VERSION_FORCED = "version-forced"
    VERSION_EXPORTED_AGAIN = "version-exported-again"
    VERSION_RETIRED = "version-retired"
    SOURCE_REPLACED = "source-replaced"
    PAUSED = "paused"
    RESUMED = "resumed"
    RETRIED = "retried"
    FORGOTTEN = "forgotten"
    CANCELLED = "cancelled"
    FILES_DELETED = "files-deleted"


class AccuracyKind(StrEnum):
    """How an accuracy is known: from labels, or without them. Never mixed."""

    MEASURED = "measured"
    ESTIMATED = "estimated"


class Estimator(StrEnum):
    """How an accuracy is estimated; docs/estimates.md tells what each is worth."""

    ATC = "atc"
    """Average thresholded confidence: the optimistic end."""
    CHECK = "check"
    """By check models, which have not learned from the model's pseudo-labels: the pessimistic end."""
    RANGE = "range"
    """Both together: the one that people are shown."""


@dataclass(frozen=True, slots=True)
class Domain:
    """One incoming image distribution. The source is the domain at position 0.

    `name` is its folder's, unless `old_spelling` says that it was made in another way. Its episodes up to the one with the id
    `forgotten` are: nothing of them is replayed, taught or measured on. `retry` has the settings that a person wants for its next
    episode, and the id of the newest one before it.
    """

    id: int
    name: str
    position: int | None
    state: DomainState
    reason: str | None
    images: int
    quarantined: int
    created_at: datetime
    updated_at: datetime
    old_spelling: bool = False
    forgotten: int | None = None
    retry: dict[str, Any] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class NewImage:
    """An image about to be accepted into a domain; its id may be one that was reserved."""

    sha256: str
    size_bytes: int
    name: str
    split: Split = Split.TRAIN
    label: str | None = None
    delivery: int = 1
    width: int | None = None
    height: int | None = None
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """An accepted image of a domain. `name` is its path inside the drop, `label` its class where known."""

    id: int
    domain_id: int
    sha256: str
    size_bytes: int
    name: str
    split: Split
    state: ImageState
    label: str | None
    delivery: int
    width: int | None
    height: int | None


@dataclass(frozen=True, slots=True)
class DropRecord:
    """A folder that came through the inbox as `origin`.

    `path` is where it lies: relative to the state folder, or absolute where it is read in place.
    `delivery` is where its images went: None while it waits, 0 where it brought nothing new. `taken` is a fingerprint of the
    files that the newest import saw and did not quarantine, at `taken_at`. `unsynced`: these may not be on the disk.
    """

    id: int
    domain_id: int
    number: int
    path: str
    origin: str
    fingerprint: str
    files: int
    size_bytes: int
    delivery: int | None
    accepted: int
    duplicates: int
    crashes: int
    claimed_at: datetime
    taken: str | None = None
    taken_at: datetime | None = None
    unsynced: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing is trained for a domain, or at all where `scope` is *, until somebody resumes it."""

    scope: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class NewQuarantined:
    """A file that is about to be quarantined: with its drop, or with a path where it stays where it is."""

    name: str
    reason: str
    detail: str
    path: str | None
    drop_id: int | None
    size_bytes: int | None = None
    mtime_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A file that cannot be used, and why. `path` is where it lies: relative to the state folder if it was moved there.

    `size_bytes` and `mtime_ns` are those of the file that was refused, where they are known.
    """

    id: int
    domain_id: int
    drop_id: int | None
    name: str
    reason: str
    detail: str
    path: str | None
    created_at: datetime
    size_bytes: int | None = None
    mtime_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """Who may work on an episode, and until when on this boot's monotonic clock.

    `fence` grows with every grant: a write that carries an older one is refused.
    """

    owner: str
    fence: int
    boot_id: str
    expires_monotonic: float


SECONDS_LEFT, IMAGES_SEEN, IMAGES_TO_SEE = "seconds_left", "images_seen", "images_to_see"
"""What `Progress.live` calls them."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running episode is.

    `live` has, for people, the newest step's losses, multipliers and health, the time left, and how many images it has looked at.
    At `since`, and with `since_step` done, the worker that runs it began.
    """

    phase: str
    step: int
    steps: int
    live: dict[str, Any] = field(default_factory=dict)
    updated_at: datetime | None = None
    since: datetime | None = None
    since_step: int = 0


NOVELTY, MERGED_INTO = "novelty", "merged_into"
"""Under these names an episode's report tells whether its drop is new; and in that, which domain the drop joined."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One adaptation run on one domain. `number` is t, its row of R, given when it is committed."""

    id: int
    number: int | None
    domain_id: int
    delivery: int
    method: str
    seed: int
    state: EpisodeState
    config: dict[str, Any]
    config_hash: str
    base: int | None
    lease: Lease | None
    progress: Progress
    attempts: int
    crashes: int
    crash_step: int | None
    reason: str | None
    report: dict[str, Any]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A resumable state of a running episode; the row with its hash is the commit point."""

    id: int
    episode_id: int
    step: int
    path: str
    sha256: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """One pseudo-labelled image kept from a past domain."""

    image_id: int
    domain_id: int
    pseudo_label: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Label:
    """The class that a person gave to an image that came without one."""

    image_id: int
    label: str
    purpose: Purpose
    labelled_at: datetime


@dataclass(frozen=True, slots=True)
class GateDecision:
    """What the gate said of a version: sentences for people, and the figures behind them."""

    passed: bool
    reasons: tuple[str, ...]
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Int8Model:
    """What came of a version's int8 model. It is published where it has a hash."""

    passed: bool
    reasons: tuple[str, ...]
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Version:
    """A published or publishable model, an integer. `forced_because` is why a person overruled the gate."""

    version: int
    parent: int | None
    restores: int | None
    episode_id: int
    state: VersionState
    classes: tuple[str, ...]
    weights_path: str
    weights_sha256: str
    model_path: str | None
    model_sha256: str | None
    gate: GateDecision | None
    forced_because: str | None
    int8: Int8Model | None
    created_at: datetime
    promoted_at: datetime | None


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How good a version is on a domain, and how that is known.

    `estimator` is empty for what was measured. `held_out`: it was estimated on images that no episode learned from.
    """

    version: int
    domain_id: int
    kind: AccuracyKind
    value: float
    n: int
    correct: int | None = None
    estimator: str = ""
    low: float | None = None
    high: float | None = None
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, for people: one line of a domain's story."""

    id: int
    at: datetime
    kind: str
    message: str
    domain_id: int | None = None
    episode_id: int | None = None
    version: int | None = None
    details: dict[str, Any] = field(default_factory=dict)
