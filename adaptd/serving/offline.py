"""Predictions without a server: a version from the folder, pictures by path or in memory. `adaptd predict` prints them."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TypedDict, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from adaptd.errors import ImageRejected, ServingError
from adaptd.library.decode import convert_picture, decode_file
from adaptd.library.preprocessing import Limits
from adaptd.machine import cpu_count
from adaptd.serving.catalogue import Catalogue
from adaptd.serving.models import list_versions, read_version
from adaptd.serving.predictions import describe_prediction
from adaptd.serving.session import Images, Model, load_model

Picture = str | os.PathLike[str] | Image.Image | NDArray[np.uint8]
"""A file's path, a Pillow image, or an RGB or grey array of uint8, [height, width, 3] or [height, width]."""


class Label(TypedDict):
    """One class of an answer."""

    label: str
    probability: float


class Prediction(TypedDict, total=False):
    """What a version says to one picture: its label and the classes that came next, or the error that kept it from having one.

    `image` is the path as it was given, or the place of a picture in memory among all of them.
    """

    image: str | int
    label: str
    probability: float
    top: list[Label]
    error: str


def open_version(folder: Path, version: int | None, device: str = "cpu") -> Model:
    """A version by number, or the largest good one."""
    if version is not None:
        if not (folder / str(version)).is_dir():
            found = ", ".join(map(str, list_versions(folder))) if folder.is_dir() else ""
            raise ServingError(
                f"{folder.name} has no version {version} in {folder}, only {found or 'none'}: the newest is the default"
            )
        return load_model(read_version(folder, version), cpu_count(), device)
    catalogue = Catalogue(folder, cpu_count(), device=device)
    catalogue.refresh()
    return catalogue.get_current()


class Predictor:
    """A version that labels pictures, on this machine and without a server."""

    def __init__(self, model: Model, limits: Limits, batch_size: int) -> None:
        self._model, self._limits, self._batch_size = model, limits, batch_size

    def __repr__(self) -> str:
        return f"<version {self.version} of {self.name}: {len(self.classes)} classes>"

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    @property
    def version(self) -> int:
        """The version's number."""
        return self._model.version

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes, in the order of the model's outputs."""
        return self._model.classes

    def predict(self, images: Picture | Iterable[Picture]) -> list[Prediction]:
        """A prediction for each picture, in order. One that cannot be used has an `error`, and does not spoil the others."""
        alone = isinstance(images, str | os.PathLike | Image.Image) or (isinstance(images, np.ndarray) and images.ndim < 4)
        return list(self.predict_each([images] if alone else images))  # type: ignore[list-item, arg-type]

    def predict_each(self, images: Iterable[Picture]) -> Iterator[Prediction]:
        """The same one by one, however many there are: only a batch of them is in memory."""
        waiting = enumerate(images)
        with ThreadPoolExecutor(cpu_count()) as decoders:
            while chunk := list(islice(waiting, self._batch_size)):
                decoded = list(decoders.map(self._decode, (image for _, image in chunk)))
                yield from self._answer([_name(*pair) for pair in chunk], decoded)

    def _answer(self, names: list[str | int], decoded: list[Images | ImageRejected]) -> Iterator[Prediction]:
        images = [image for image in decoded if not isinstance(image, ImageRejected)]
        answers = iter(self._model.run(np.stack(images))[1] if images else ())
        for name, image in zip(names, decoded, strict=True):
            if isinstance(image, ImageRejected):
                yield Prediction(image=name, error=str(image))
            else:
                yield cast("Prediction", {"image": name, **describe_prediction(next(answers), self.classes)})

    def _decode(self, image: Picture) -> Images | ImageRejected:
        preprocessing = self._model.preprocessing
        try:
            if isinstance(image, str | os.PathLike):
                # Whoever names a link means the file behind it.
                return decode_file(Path(image).resolve(), preprocessing, self._limits).pixels
            return convert_picture(_to_image(image), preprocessing, self._limits)
        except ImageRejected as rejection:
            return rejection


def _name(place: int, image: Picture) -> str | int:
    return os.fspath(image) if isinstance(image, str | os.PathLike) else place


def _to_image(image: Image.Image | NDArray[np.uint8]) -> Image.Image:
    if isinstance(image, Image.Image):
        return image
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.shape[2:] not in {(), (3,), (4,)} or image.ndim < 2:
        told = f"{image.dtype} {list(image.shape)}" if isinstance(image, np.ndarray) else type(image).__name__
        raise TypeError(f"a picture is a path, a Pillow image, or uint8 [height, width, 3] in RGB, not {told}")
    return Image.fromarray(image)
