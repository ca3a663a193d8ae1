"""Predictions without a server: a version from the folder, image files by path. `adaptd predict` prints them."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from adaptd.errors import ImageRejected, ServingError
from adaptd.library.decode import decode_file
from adaptd.library.preprocessing import Limits
from adaptd.machine import cpu_count
from adaptd.serving.catalogue import Catalogue
from adaptd.serving.models import read_version
from adaptd.serving.predictions import describe_prediction
from adaptd.serving.session import Images, Model, load_model


def open_version(folder: Path, version: int | None, device: str = "cpu") -> Model:
    """A version by number, or the largest good one."""
    if version is not None:
        if not (folder / str(version)).is_dir():
            raise ServingError(f"{folder.name} has no version {version} in {folder}: leave --version out for the newest")
        return load_model(read_version(folder, version), cpu_count(), device)
    catalogue = Catalogue(folder, cpu_count(), device=device)
    catalogue.refresh()
    return catalogue.get_current()


def predict_files(paths: Sequence[Path], model: Model, limits: Limits, batch_size: int) -> Iterator[dict[str, Any]]:
    """A row for each path, in order: its label and the classes that came next, or the error that kept it from having one."""
    with ThreadPoolExecutor(cpu_count()) as decoders:
        waiting = iter(paths)
        while chunk := list(islice(waiting, batch_size)):
            decoded = list(decoders.map(partial(_decode, model=model, limits=limits), chunk))
            images = [image for image in decoded if not isinstance(image, ImageRejected)]
            answers = iter(model.run(np.stack(images))[1] if images else ())
            for path, image in zip(chunk, decoded, strict=True):
                if isinstance(image, ImageRejected):
                    yield {"image": str(path), "error": str(image)}
                else:
                    yield {"image": str(path), **describe_prediction(next(answers), model.classes)}


def _decode(path: Path, model: Model, limits: Limits) -> Images | ImageRejected:
    try:
        # Whoever names a link on the command line means the file behind it.
        return decode_file(path.resolve(), model.preprocessing, limits).pixels
    except ImageRejected as rejection:
        return rejection
