"""Every kind of event there is, and what it means: the same words in the store, on pages and in the documentation."""

from typing import Literal

Tone = Literal["good", "bad", "plain"]

EVENTS: dict[str, tuple[Tone, str]] = {
    "domain-seen": ("plain", "A folder of a new name stands in the inbox."),
    "drop-claimed": ("plain", "A folder was complete and was taken out of the inbox."),
    "drop-waits": ("plain", "A drop brought too little to learn from and waits for more."),
    "drop-nothing-new": ("plain", "Every image of a drop was there before."),
    "domain-queued": ("plain", "A drop's images were accepted, and an episode waits for its turn."),
    "import-failed": ("bad", "A drop could not be read at all."),
    "episode-done": ("good", "An episode was committed: a row of R and a version."),
    "episode-failed": ("bad", "An episode cannot go on; its reason is told."),
    "checkpoint-refused": ("bad", "A checkpoint is damaged; the episode went on from an older one."),
    "worker-died": ("bad", "A worker process crashed or was killed; it is tried again."),
    "set-aside": ("bad", "A worker died too often at the same place; nothing more is tried by itself."),
    "version-rejected": ("bad", "The gate refused a version; what is served did not change."),
    "version-promoted": ("good", "A person made a version the served one."),
    "version-forced": ("bad", "A person overruled the gate."),
    "version-exported-again": ("plain", "A promoted version's files were lost, and were made again from its weights."),
    "version-retired": ("plain", "A version was taken out of the models folder, as export.keep_versions says."),
    "paused": ("plain", "A person paused a domain, or everything."),
    "resumed": ("plain", "A person let it go on."),
    "retried": ("plain", "A person queued a failed domain again."),
    "cancelled": ("plain", "A person gave a domain's episode up."),
    "files-deleted": ("plain", "`adaptd gc` deleted files to keep within its budget."),
}
"""Kind → how it bodes, and what happened."""

LOG_FIELDS: dict[str, str] = {
    "domain": "the domain's name",
    "episode": "the number that the episode has, or gets when it is committed",
    "publish": "the number of the version that is exported again",
    "drop": "the number of the domain's drop",
    "pid": "the worker's process",
    "outcome": "how a worker ended",
    "address": "where pages and metrics are",
    "not_before_the_next_start": "sections of the settings that a reload does not change",
}
"""What a log line may carry beside its message."""


def tone_of(kind: str) -> Tone:
    """How an event bodes; one of a newer adaptd is plain."""
    return EVENTS.get(kind, ("plain", ""))[0]
