"""Tensors at run time: NumPy arrays, and what can be seen as one without a copy.

`tensor(x)` wraps data under TVM's name; programs take and give NumPy arrays all the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.core.errors import RuntimeInputError
from mlcnb.runtime.device import Device, cpu


class Tensor:
    """An n-dimensional array on a device (here: the CPU), with TVM's methods."""

    __slots__ = ("_data", "device")

    def __init__(self, data: np.ndarray, device: Device) -> None:
        self._data = data
        self.device = device

    def numpy(self) -> np.ndarray:
        """The data as a NumPy array, shared."""
        return self._data

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each dimension, in elements."""
        return self._data.shape

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        return self._data.dtype.name

    def copyto(self, target: Tensor) -> Tensor:
        """Copy the data into `target`, of the same shape."""
        np.copyto(target.numpy(), self._data)
        return target

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy:
            return self._data.astype(dtype or self._data.dtype, copy=True)
        return self._data if dtype is None else self._data.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    def __repr__(self) -> str:
        return f"Tensor(shape={self.shape}, dtype={self.dtype}, device={self.device})\n{self._data}"


def tensor(data: Any, device: Device | None = None) -> Tensor:
    """A tensor that holds a copy of `data` (an array, a list, a number).

    Raises:
        RuntimeInputError: a device other than the CPU.
    """
    where = device or cpu()
    if where.kind != "cpu":
        raise RuntimeInputError(f"no tensors on {where} yet", hint="use cpu()")
    return Tensor(np.array(data, order="C"), where)


#: TVM's older name
array = tensor


def empty(shape: tuple[int, ...], dtype: str = "float32", device: Device | None = None) -> Tensor:
    """A tensor of undefined content."""
    return Tensor(aligned_empty(shape, np.dtype(dtype)), device or cpu())


def from_dlpack(data: Any) -> Tensor:
    """A tensor that shares the memory of a DLPack object."""
    return Tensor(np.from_dlpack(data), cpu())


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype, align: int = 64) -> np.ndarray:
    """An uninitialised C-contiguous array whose data begin at a multiple of `align` bytes."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.empty(size + align, np.uint8)
    start = -raw.ctypes.data % align
    return raw[start : start + size].view(dtype).reshape(shape)


def as_array(value: Any, name: str) -> np.ndarray:
    """A C-contiguous NumPy array of an argument: shared where possible, copied where strided.

    Raises:
        RuntimeInputError: it is no array of numbers.
    """
    if isinstance(value, Tensor):
        value = value.numpy()
    elif not isinstance(value, np.ndarray):
        value = _foreign(value, name)
    if value.dtype.hasobject or value.dtype.kind in "USMm":
        raise RuntimeInputError(f"input {name!r} holds {value.dtype}, not numbers")
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    return value if value.flags.c_contiguous else np.ascontiguousarray(value)


def _foreign(value: Any, name: str) -> np.ndarray:
    if hasattr(value, "__dlpack__"):
        if hasattr(value, "detach"):
            value = value.detach()
        try:
            return np.from_dlpack(value)
        except (RuntimeError, BufferError, TypeError) as error:
            raise RuntimeInputError(
                f"input {name!r}: {type(value).__name__} cannot be shared through DLPack: {error}",
                hint="pass a NumPy array on the CPU",
            ) from error
    if isinstance(value, list | tuple | int | float | bool | np.generic):
        return np.asarray(value)
    raise RuntimeInputError(
        f"input {name!r} is a {type(value).__name__}", hint="pass a NumPy array or a DLPack object"
    )


def is_torch(value: Any) -> bool:
    """True for a torch.Tensor, without importing torch."""
    return type(value).__module__.split(".")[0] == "torch" and hasattr(value, "detach")


def like_input(result: Any, wants_torch: bool) -> Any:
    """A result in the caller's kind of array: torch where torch came in, NumPy otherwise."""
    if not wants_torch:
        return result
    if isinstance(result, tuple):
        return tuple(like_input(item, wants_torch) for item in result)
    import torch

    return torch.from_numpy(result) if isinstance(result, np.ndarray) else result
