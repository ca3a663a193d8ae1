"""A second device on a machine that has only one: tensors made for `AWAY` are the processor's, but marked as being elsewhere.

Within `second_device()` whatever PyTorch would refuse on a real second device is an error: an operation on tensors of both
devices (single numbers and row numbers aside, as on CUDA), a tensor that is read as a numpy array without being fetched, a
processor's generator for numbers drawn elsewhere. Arithmetic is the processor's, so results can be compared bit for bit.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.weak import WeakIdKeyDictionary

AWAY = "cpu:1"
_INDEXED = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index")
_COPIES = ("aten::copy_", "aten::_to_copy")


class MixedDevices(Exception):
    """What a real second device would not do."""


class _Marks:
    """Which storages are elsewhere."""

    def __init__(self) -> None:
        self._storages = WeakIdKeyDictionary()
        self.calls: list[bool] = []  # for each call from Python that is not over, whether it was given something from elsewhere

    @property
    def is_inner(self) -> bool:
        """Whether what is made is made by an operation elsewhere, inside of PyTorch or on the way back, for itself."""
        return any(self.calls) or torch._C._current_graph_task_id() != -1

    def add(self, tensor: torch.Tensor) -> None:
        self._storages[tensor.untyped_storage()] = True

    def remove(self, tensor: torch.Tensor) -> None:
        self._storages.pop(tensor.untyped_storage(), None)

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return tensor.layout is torch.strided and tensor.untyped_storage() in self._storages


class _Operations(TorchDispatchMode):
    """Below autograd: every operation, with the tensors it takes and gives."""

    def __init__(self, marks: _Marks) -> None:
        super().__init__()
        self._marks = marks

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func.name().partition(".")[0]
        given = [each for each in tree_iter((args, kwargs)) if isinstance(each, torch.Tensor)]
        away = [each in self._marks for each in given]
        device = kwargs.get("device")
        if device is not None:
            is_away = torch.device(device).index == 1 or self._marks.is_inner
            kwargs = {**kwargs, "device": torch.device("cpu")}
        else:
            self._check(func, name, given, away)
            is_away = (away[0] if name in (*_COPIES, *_INDEXED) else any(away)) if away else False
        if is_away and kwargs.get("generator") is not None:
            raise MixedDevices(f"{func} draws elsewhere with the processor's generator")
        result = func(*args, **kwargs)
        if name == "aten::_to_copy" and any(result is each for each in given):
            result = result.clone()
        for each in tree_iter(result):
            if isinstance(each, torch.Tensor) and each.layout is torch.strided and is_away and each not in self._marks:
                self._marks.add(each)
        return result

    def _check(self, func: Any, name: str, given: list[torch.Tensor], away: list[bool]) -> None:
        if name in _COPIES or len(set(away)) < 2:
            return
        if name in _INDEXED and away[0]:
            given, away = given[:1], away[:1]
        counted = {mark for each, mark in zip(given, away, strict=True) if each.dim()}
        if len(counted) > 1:
            shapes = [(tuple(each.shape), "away" if mark else "home") for each, mark in zip(given, away, strict=True)]
            raise MixedDevices(f"{func} on both devices: {shapes}")


class _Calls(TorchFunctionMode):
    """Above autograd: what PyTorch answers before any operation, since both devices are the processor."""

    def __init__(self, marks: _Marks) -> None:
        super().__init__()
        self._marks = marks

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        own = args[0] if args and isinstance(args[0], torch.Tensor) else None
        if own is not None and own in self._marks:
            if getattr(func, "__self__", None) is torch.Tensor.device:
                return torch.device(AWAY)
            if name == "cpu" or (name == "to" and _wants_home((*args[1:], *kwargs.values()))):
                home = own.clone()
                self._marks.remove(home)
                return home if name == "cpu" else func(home, *args[1:], **kwargs)
            if name in {"numpy", "__array__"}:
                raise MixedDevices("a tensor elsewhere is read as an array")
        self._marks.calls.append(
            any(isinstance(each, torch.Tensor) and each in self._marks for each in tree_iter((args, kwargs)))
        )
        try:
            made = func(*args, **kwargs)
        finally:
            self._marks.calls.pop()
        if func is torch.tensor and kwargs.get("device") == torch.device(AWAY):  # made of numbers by no operation
            self._marks.add(made)
        return made


def _wants_home(words: tuple[Any, ...]) -> bool:
    devices = [word for word in words if isinstance(word, torch.device) or word in {"cpu", AWAY}]
    return any(torch.device(device).index is None for device in devices)


@contextmanager
def second_device() -> Iterator[_Marks]:
    """While it lasts there is a device `AWAY`; what is on it can be told by `tensor in` what this gives."""
    marks = _Marks()
    with _Calls(marks), _Operations(marks):
        yield marks
