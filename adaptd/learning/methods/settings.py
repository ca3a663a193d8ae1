"""[method]: which one, and a section for the options of each. What the chosen one would ignore of [training] is found here."""

from typing import TYPE_CHECKING, Any

from pydantic import Field, create_model, field_validator

from adaptd.learning.methods.options import NoOptions
from adaptd.learning.methods.registry import METHODS, RuleName, describe_unknown, get_entry, list_methods, section_name
from adaptd.learning.settings import TrainingSettings
from adaptd.sections import Section


class _Chosen(Section):
    """How an episode adapts. Each method has its options in a section of its own; those of other methods may stand there too."""

    name: str = Field("guarded", description=f"the adaptation method: {', '.join(list_methods())}; docs/method.md")

    @field_validator("name")
    @classmethod
    def _registered(cls, name: str) -> str:
        if name not in list_methods():
            raise ValueError(describe_unknown(name, list_methods()))
        return name

    def options_of(self, method: str) -> Section:
        """The method's options; its defaults where it has no section."""
        found: Section | None = getattr(self, section_name(method), None)
        return get_entry(method).options() if found is None else found


_SECTIONS: Any = {
    section_name(name): (entry.options, entry.options()) for name, entry in METHODS.items() if entry.options is not NoOptions
}

if TYPE_CHECKING:
    MethodSettings = _Chosen
else:
    MethodSettings = create_model("MethodSettings", __base__=_Chosen, __doc__=_Chosen.__doc__, **_SECTIONS)
    """[method], with a section for every method of the registry that has options."""


def choose_rule(training: TrainingSettings, method: str) -> RuleName:
    """The update rule of an episode: what [training] names, else the method's own."""
    return get_entry(method).rule if training.optimizer == "auto" else training.optimizer


def find_ignored(training: TrainingSettings, method: str) -> dict[str, str]:
    """Keys of [training] that the method's update rule would ignore, each with what to do about it."""
    rule = choose_rule(training, method)
    by = f"{rule}, the update rule of {method}" if training.optimizer == "auto" else rule
    found = {}
    if training.momentum and rule != "sgd":
        found["momentum"] = f"does nothing with {by}: set it to 0, or optimizer to sgd"
    if training.weight_decay and rule == "rmsprop":
        found["weight_decay"] = f"does nothing with {by}: set it to 0, or optimizer to sgd or adamw"
    return found
