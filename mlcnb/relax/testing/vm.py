"""Packed functions that tests of the virtual machine call, `test.vm.add` and others.

They are known once this module is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb.core.registry import get_global_func, register_func
from mlcnb.runtime.tensor import as_array


def move(src: Any) -> Any:
    """What it is given."""
    return src


def add(a: Any, b: Any) -> np.ndarray:
    """a + b of tensors."""
    return _array(a) + _array(b)


def mul(a: Any, b: Any) -> np.ndarray:
    """a * b of tensors."""
    return _array(a) * _array(b)


def equal_zero(a: Any) -> np.ndarray:
    """Whether all of a tensor is 0."""
    return np.asarray(np.all(_array(a) == 0))


def subtract_one(a: Any) -> np.ndarray:
    """a - 1"""
    return np.subtract(_array(a), np.ones((), _array(a).dtype))


def identity_packed(a: Any, b: Any) -> None:
    """Copies a into b."""
    _array(b)[...] = _array(a)


def tile_packed(a: Any, b: Any) -> None:
    """Writes a into b, twice side by side."""
    _array(b)[...] = np.tile(_array(a), (1, 2))


def add_scalar(a: Any, b: Any) -> Any:
    """a + b of numbers."""
    return a + b


def get_device_id(device: Any) -> int:
    """Which of its kind a device is."""
    return int(device.index)


def check_if_defined(value: Any) -> bool:
    """Whether there is a value."""
    return value is not None


def _array(x: Any) -> np.ndarray:
    return as_array(x, "an argument")


_BY_NAME = (move, add, mul, equal_zero, subtract_one, add_scalar, get_device_id, check_if_defined)
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{function.__name__: function for function in _BY_NAME},
    "identity": identity_packed,
    "tile": tile_packed,
}


def _register() -> None:
    for name, function in _FUNCTIONS.items():
        if get_global_func(f"test.vm.{name}", allow_missing=True) is None:
            register_func(f"test.vm.{name}", function)


_register()


def check_saved_func(vm: Any, func_name: str, *inputs: Any) -> Any:
    """The result of a function, which its saved closure gives too.

    Raises:
        AssertionError: the two differ.
    """
    saved = f"{func_name}_saved"
    vm.save_function(func_name, saved, *inputs)
    result, again = vm[func_name](*inputs), vm[saved]()
    np.testing.assert_allclose(_array(result), _array(again), 1e-7, 1e-7)
    return result
