"""The int8 twin of a version: quantised, judged and put into the staging folder under its own model name."""

from pathlib import Path
from typing import Any

from adaptd.errors import ExportFailed, RepositoryConflict
from adaptd.files import hash_file, write_file
from adaptd.project.layers import Project
from adaptd.publishing.card import CARD_FILE, Card, Facts, software_versions
from adaptd.publishing.quantize import quantize
from adaptd.publishing.triton import MODEL_FILE
from adaptd.releases.materials import Materials
from adaptd.releases.repositories import twin_repository_of


def stage_twin(project: Project, materials: Materials, facts: Facts, model: Path) -> dict[str, Any]:
    """Quantise an exported model; what came of it, with a hash where the twin may be published."""
    repository = twin_repository_of(project)
    folder = repository.prepare(facts.version)
    facts = facts.model_copy(update={"model": repository.name})
    test = materials.open_test(materials.source)
    assert test is not None
    calibration = [materials.open_unlabelled(materials.source), *map(materials.open_memory, materials.list_remembered())]
    allowed = project.settings.export.quantized_max_loss
    try:
        twin = quantize(model, folder / MODEL_FILE, calibration, test, facts, allowed)
        digest = hash_file(folder / MODEL_FILE)
        known = facts.model_dump() | {"gate": twin.gate, "parity": twin.parity, "quantization": twin.quantization}
        card = Card(**known, model_sha256=digest, versions=software_versions())
        repository.check_place(card)
    except (ExportFailed, RepositoryConflict) as problem:
        repository.discard(facts.version)
        return {"passed": False, "reasons": [str(problem)], "sha256": None}
    if not twin.gate.passed:
        repository.discard(facts.version)
        return {"passed": False, "reasons": list(twin.gate.reasons), "sha256": None}
    write_file(folder / CARD_FILE, card.to_text().encode())
    repository.seal(facts.version)
    return {"passed": True, "reasons": list(twin.gate.reasons), "sha256": digest}
