"""Every kind of event there is, and what it means: the same words in the store, on pages and in the documentation."""

from typing import Literal

from adaptd.records import EventKind

Tone = Literal["good", "bad", "plain"]

EVENTS: dict[EventKind, tuple[Tone, str]] = {
    EventKind.DOMAIN_SEEN: ("plain", "A folder of a new name stands in the inbox."),
    EventKind.DROP_CLAIMED: ("plain", "A folder was complete and was taken out of the inbox."),
    EventKind.DROP_WAITS: ("plain", "A drop brought too little to learn from and waits for more."),
    EventKind.DROP_NOTHING_NEW: ("plain", "Every image of a drop was there before."),
    EventKind.DROP_REFUSED: ("bad", "A drop cannot be taken out of the inbox; it is tried again now and then."),
    EventKind.DROP_STUCK: ("bad", "Something of a drop cannot be moved; it is tried again now and then."),
    EventKind.DOMAIN_QUEUED: ("plain", "A drop's images were accepted, and an episode waits for its turn."),
    EventKind.CLASS_FOLDERS: ("plain", "A drop's folders are named like classes; that was not used, and how to use it is told."),
    EventKind.DROP_COMPARED: ("plain", "A drop was compared with the source and every known domain: whether it is new."),
    EventKind.DROP_MERGED: ("plain", "A drop that is no new domain joined the one it is known as, as a further delivery."),
    EventKind.IMPORT_FAILED: ("bad", "A drop could not be read at all."),
    EventKind.EPISODE_DONE: ("good", "An episode was committed: a row of R and a version."),
    EventKind.EPISODE_FAILED: ("bad", "An episode cannot go on; its reason is told."),
    EventKind.CHECKPOINT_REFUSED: ("bad", "A checkpoint is damaged; the episode went on from an older one."),
    EventKind.WORKER_DIED: ("bad", "A worker process crashed or was killed; it is tried again."),
    EventKind.GIVEN_UP: ("bad", "A worker died too often at the same place; nothing more is tried by itself."),
    EventKind.LABELS_GIVEN: ("plain", "A person labelled images of a domain."),
    EventKind.LABELS_REMOVED: ("plain", "A person took labels back; what was measured on them is forgotten with them."),
    EventKind.DOMAIN_MEASURED: ("good", "Versions were measured on images that people labelled."),
    EventKind.VERSION_REJECTED: ("bad", "The gate refused a version; what is served did not change."),
    EventKind.VERSION_PROMOTED: ("good", "A person made a version the served one."),
    EventKind.VERSION_FORCED: ("bad", "A person overruled the gate."),
    EventKind.VERSION_EXPORTED_AGAIN: ("plain", "A promoted version's files were lost, and were made again from its weights."),
    EventKind.VERSION_RETIRED: ("plain", "A version was taken out of the models folder, as export.keep_versions says."),
    EventKind.SOURCE_REPLACED: (
        "plain",
        "A new source took the old one's place: a lineage of versions begins, domains are forgotten.",
    ),
    EventKind.PAUSED: ("plain", "A person paused a domain, or everything."),
    EventKind.RESUMED: ("plain", "A person let it go on."),
    EventKind.RETRIED: ("plain", "A person queued a domain again, maybe with other settings."),
    EventKind.FORGOTTEN: ("plain", "A person had a domain forgotten: its memory, labels and place in later episodes."),
    EventKind.CANCELLED: ("plain", "A person gave a domain's episode up."),
    EventKind.FILES_DELETED: ("plain", "`adaptd gc` deleted files to keep within its budget."),
}
"""Kind → how it bodes, and what happened."""

LOG_FIELDS: dict[str, str] = {
    "domain": "the domain's name",
    "episode": "the number that the episode has, or gets when it is committed",
    "version": "the number of the version that is exported again",
    "drop": "the number of the domain's drop",
    "pid": "the worker's process",
    "outcome": "how a worker ended",
    "address": "where pages and metrics are",
    "not_before_the_next_start": "sections of the settings that a reload does not change",
}
"""What a log line may carry beside its message."""


def tone_of(kind: str) -> Tone:
    """How an event bodes; one of a newer adaptd is plain."""
    return next((tone for known, (tone, _) in EVENTS.items() if known == kind), "plain")
