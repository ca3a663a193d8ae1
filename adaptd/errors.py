"""Every error adaptd raises on purpose. What happens after one (quarantine, retry, stop) is decided by its catcher.

AdaptdError
├── ConfigError        exit 5   a setting, or the project folder itself, is wrong
│   └── ProjectNotFound
├── IntakeError                 something about incoming images
│   ├── ImageRejected           one image; goes to quarantine with its reason
│   ├── FolderUnusable          a whole folder: nothing in it can be used
│   ├── InboxUnavailable        gone, unmounted or unreadable: an alarm, never "empty"
│   ├── DropChanged             a drop is not what the scan saw any more; the next scan looks again
│   ├── ClaimRefused            a drop cannot be taken out of the inbox
│   └── CacheUnusable           decoded images on disk are missing, damaged or of another kind
├── EpisodeError                an episode cannot start or go on
│   ├── NothingToLearn          no source model, or too few images
│   ├── DomainNotRecognised     the model's own labels for a domain cannot be trusted
│   ├── PredictionsCollapsed    an episode unlearns classes on the domain that it adapts to
│   ├── NonFiniteSteps          too many steps in a row with NaN or infinity
│   ├── WeightsMismatch         a weights file does not fit the backbone
│   └── WeightsUnavailable      weights cannot be read or downloaded
├── CheckpointError             a checkpoint is damaged or belongs to something else
├── StoreError                  the database
│   ├── StoreMissing
│   ├── StoreNotADatabase
│   ├── StoreTooOld
│   ├── StoreTooNew
│   ├── StoreBusy
│   ├── StoreConflict           a row that must be unique, or must exist, is not
│   └── StoreUnreachable        cannot be opened or written: permission, disk, network
├── DomainKnown                 a drop is no new domain, and nothing is to be learned from such ones
├── DrainIncomplete             `run --drain` ended, and something failed or is left
├── ProjectBusy                 another process works on the project
├── DomainUnknown               there is no domain of that name
├── LabelsRefused               labels that people gave cannot be taken, none of them
├── BenchFailed                 a process of a comparison ended early
├── NotConfirmed                nobody agreed to what cannot be undone
├── Interrupted        exit 128 + signal: 130 after Ctrl-C, 143 after SIGTERM
├── PublishError                a version cannot be exported, proven or published
│   ├── ExportFailed            no exporter can write the model
│   ├── ParityFailed            the ONNX file does not answer as the model does
│   ├── StagingIncomplete       what should be published is not whole
│   ├── RepositoryConflict      something else stands where a version or config.pbtxt should
│   └── VersionDamaged          a published version is missing or not what was published
└── ServingError                a request or the server
    ├── RequestRefused          a client's request cannot be answered; carries the HTTP status
    ├── ClientLeft              nobody is left to answer
    ├── VersionUnusable         a published version is damaged, or not what its card says
    └── NothingPublished        there is no version to serve yet

A message states the fact and the remedy.
"""

from enum import IntEnum
from signal import Signals


class ExitCode(IntEnum):
    """What the process says when it ends."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_RUNNING = 3
    DEGRADED = 4
    CONFIGURATION = 5


class AdaptdError(Exception):
    """Base of all expected errors: shown to the user as one message, without a traceback."""

    exit_code: int = ExitCode.FAILURE


class ConfigError(AdaptdError):
    """A setting or the project folder is wrong."""

    exit_code = ExitCode.CONFIGURATION


class ProjectNotFound(ConfigError):
    """There is no adaptd.toml where one was looked for."""


class IntakeError(AdaptdError):
    """Something about incoming images."""


class ImageRejected(IntakeError):
    """One image cannot be used.

    Args:
        reason: a short word from a fixed set, usable as a metric label.
        detail: the fact for a person.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class FolderUnusable(IntakeError):
    """A folder holds nothing that can be used."""


class InboxUnavailable(IntakeError):
    """The inbox is gone, unmounted or unreadable. What was in it is not known to be deleted."""


class DropChanged(IntakeError):
    """A drop changed or went away between the scan and the claim."""


class ClaimRefused(IntakeError):
    """A drop cannot be taken out of the inbox."""


class CacheUnusable(IntakeError):
    """Decoded images on disk are missing, damaged, or were made another way."""


class EpisodeError(AdaptdError):
    """An episode cannot start or go on."""


class NothingToLearn(EpisodeError):
    """There is no source model yet, or there are too few images."""


class DomainNotRecognised(EpisodeError):
    """The model's own labels for a domain cannot be trusted."""


class PredictionsCollapsed(EpisodeError):
    """On the domain that it adapts to, a model hardly names some classes any more that it named before."""


class NonFiniteSteps(EpisodeError):
    """Too many steps in a row produced NaN or infinity."""


class WeightsMismatch(EpisodeError):
    """A weights file does not fit the backbone."""


class WeightsUnavailable(EpisodeError):
    """Weights cannot be read or downloaded."""


class CheckpointError(AdaptdError):
    """A checkpoint is damaged or belongs to another episode or configuration."""


class StoreError(AdaptdError):
    """The database cannot be used."""


class StoreMissing(StoreError):
    """There is no database yet."""


class StoreNotADatabase(StoreError):
    """The file is something else, or damaged."""


class StoreTooOld(StoreError):
    """The database was written by an older adaptd."""


class StoreTooNew(StoreError):
    """The database was written by a newer adaptd."""


class StoreBusy(StoreError):
    """Another process held the database for longer than we wait."""


class StoreConflict(StoreError):
    """A row that must be unique is there already, or one that must exist is not."""


class StoreUnreachable(StoreError):
    """The database cannot be opened or written."""


class DomainKnown(AdaptdError):
    """A drop is no new domain, and the settings say that nothing is learned from such drops."""


class DrainIncomplete(AdaptdError):
    """Nothing is left to do that could be done, but something failed, or waits for a person."""


class ProjectBusy(AdaptdError):
    """Another process is working on the project."""


class DomainUnknown(AdaptdError):
    """There is no domain of that name."""


class LabelsRefused(AdaptdError):
    """Labels that people gave cannot be taken, none of them.

    Args:
        message: the fact and the remedy.
        problems: a sentence for each, as many as a person reads.
    """

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class BenchFailed(AdaptdError):
    """A process of a comparison ended early; what is finished is kept."""


class NotConfirmed(AdaptdError):
    """Nobody agreed to something that cannot be undone."""


class Interrupted(AdaptdError):
    """A signal asked to stop, and the work did so in order."""

    def __init__(self, by: Signals) -> None:
        super().__init__(f"stopped by {by.name}: the same command goes on from here")
        self.exit_code = 128 + by


class PublishError(AdaptdError):
    """A version cannot be exported, proven or published."""


class ExportFailed(PublishError):
    """No exporter can write the model as ONNX."""


class ParityFailed(PublishError):
    """The ONNX file does not answer as the model does."""


class StagingIncomplete(PublishError):
    """What should be published is gone, not whole, or not what was proven."""


class RepositoryConflict(PublishError):
    """Something else stands where a version or config.pbtxt should."""


class VersionDamaged(PublishError):
    """A published version is missing, or is not what was published."""


class ServingError(AdaptdError):
    """A request cannot be answered, or the server cannot run."""


class RequestRefused(ServingError):
    """A client's request cannot be answered.

    Args:
        status: of the HTTP response.
        message: the fact, for the client.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ClientLeft(ServingError):
    """The client closed its connection before it was answered."""


class VersionUnusable(ServingError):
    """A published version is damaged, or not what its card says."""


class NothingPublished(ServingError):
    """There is no version to serve yet."""
