"""Settings that had another name once. An old name is an error that tells the new one; stored settings are rewritten by it."""

import copy
from typing import Any

_CONTRASTIVE = ("grcl", "contrastive_sdc", "contrastive_source", "contrastive_source_memory")
_GUARDED = ("guarded", "self_training")


def _options(key: str, *methods: str) -> tuple[str, ...]:
    return tuple(f"method.{method}.{key}" for method in methods)


RENAMED: dict[str, tuple[str, ...]] = {
    "gate.max_source_drop": ("gate.max_source_loss",),
    "gate.max_domain_drop": ("gate.max_domain_loss",),
    "export.quantized_max_drop": ("export.quantized_max_loss",),
    "method.constraints": _options("constraints", "grcl"),
    "method.temperature": _options("temperature", *_CONTRASTIVE),
    "method.negatives": _options("negatives", *_CONTRASTIVE),
    "method.bank_momentum": _options("bank_momentum", *_CONTRASTIVE),
    "method.source_weight": _options("source_weight", "contrastive_source", "contrastive_source_memory", *_GUARDED),
    "method.memory_weight": _options("memory_weight", "contrastive_source_memory", *_GUARDED),
    "method.min_agreement": _options("min_agreement", *_GUARDED),
    "method.patience": _options("patience", *_GUARDED),
    "method.curriculum": _options("curriculum", *_GUARDED),
    "method.warp": _options("warp", *_GUARDED),
    "method.blend": _options("mixup", *_GUARDED),
    "method.propagate": _options("propagate", *_GUARDED),
    "method.views": _options("views", *_GUARDED),
}
"""Old `section.key` → its new names; several where each method has the option in a section of its own."""


def rename_settings(document: dict[str, Any]) -> dict[str, Any]:
    """Settings as an older version stored them, with today's names; what is new already stays. A copy is changed.

    What that version ignored (momentum and weight decay under another update rule) is an error today and becomes 0.
    """
    renamed = copy.deepcopy(document)
    is_old = False
    for old, names in RENAMED.items():
        section, key = old.split(".")
        if not isinstance(renamed.get(section), dict) or key not in renamed[section]:
            continue
        is_old = True
        value = renamed[section].pop(key)
        for name in names:
            *path, last = name.split(".")
            place = renamed
            for part in path:
                place = place.setdefault(part, {})
            place[last] = value
    if is_old:
        _forget_ignored(renamed)
    return renamed


def _forget_ignored(document: dict[str, Any]) -> None:
    training, method = document.get("training", {}), document.get("method", {}).get("name")
    rule = training.get("optimizer", "auto")
    if rule == "auto":
        rule = "rmsprop" if method in {None, "guarded", "self-training"} else "sgd"
    if rule != "sgd" and "momentum" in training:
        training["momentum"] = 0.0
    if rule == "rmsprop" and "weight_decay" in training:
        training["weight_decay"] = 0.0
