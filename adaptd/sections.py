"""What every `[section]` of the settings is made of. The sections themselves belong to the rooms that they speak about."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
DEVICE_PATTERN = r"^(auto|cpu|mps|cuda(:[0-9]{1,2})?)$"
VISIBLE_PATTERN = r"^[!-~]*$"
PATH_PATTERN = r"^[^\x00]+$"
CLOCK = r"([01]\d|2[0-3]):[0-5]\d"
WINDOW_PATTERN = rf"^$|^{CLOCK}-{CLOCK}$"
IN_WORDS = {
    NAME_PATTERN: "small letters, digits, dots, dashes and underscores, 63 at most, a letter or digit first",
    DEVICE_PATTERN: "auto, cpu, mps, cuda, cuda:N for GPU number N",
    VISIBLE_PATTERN: "letters, digits and signs of ASCII, no spaces",
    PATH_PATTERN: "a path",
    WINDOW_PATTERN: "two times of day such as 22:00-06:00, or nothing",
}
"""What each pattern allows, for people."""

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Momentum = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    """One `[section]` of adaptd.toml."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
