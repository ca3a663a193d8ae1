"""The int8 model of a version: quantised, judged and put into the staging folder under its own model name."""

from pathlib import Path

from adaptd.errors import ExportFailed, RepositoryConflict
from adaptd.files import hash_file, write_file
from adaptd.project.layers import Project
from adaptd.publishing.card import CARD_FILE, Card, Facts, software_versions
from adaptd.publishing.quantize import quantize
from adaptd.publishing.triton import MODEL_FILE
from adaptd.records import Int8Model
from adaptd.releases.images import ImageSets
from adaptd.releases.repositories import int8_repository_of


def stage_int8(project: Project, images: ImageSets, facts: Facts, model: Path) -> Int8Model:
    """Quantise an exported model; what came of it, with a hash where it may be published."""
    repository = int8_repository_of(project)
    folder = repository.prepare(facts.version)
    facts = facts.model_copy(update={"model": repository.name})
    test = images.open_test(images.source)
    assert test is not None
    memories = [memory for domain in images.domains if (memory := images.open_memory(domain)) is not None]
    calibration = [images.open_unlabelled(images.source), *memories]
    allowed = project.settings.export.quantized_max_loss
    try:
        quantized = quantize(model, folder / MODEL_FILE, calibration, test, facts, allowed)
        digest = hash_file(folder / MODEL_FILE)
        known = facts.model_dump() | {"gate": quantized.gate, "parity": quantized.parity, "quantization": quantized.quantization}
        card = Card(**known, model_sha256=digest, versions=software_versions())
        repository.check_place(card)
    except (ExportFailed, RepositoryConflict) as problem:
        repository.discard(facts.version)
        return Int8Model(passed=False, reasons=(str(problem),), sha256=None)
    if not quantized.gate.passed:
        repository.discard(facts.version)
        return Int8Model(passed=False, reasons=quantized.gate.reasons, sha256=None)
    write_file(folder / CARD_FILE, card.to_text().encode())
    repository.seal(facts.version)
    return Int8Model(passed=True, reasons=quantized.gate.reasons, sha256=digest)
