"""Conversion between dtypes as kernels do it, where NumPy leaves it open.

float -> integer   towards zero; beyond the range its end; NaN is 0
integer -> integer the low bits
anything -> bool   is it not 0
wide -> narrow float   the nearest, halves to even; beyond the range infinity, or NaN without one
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.ir.dtype import DType, dtype


def convert(x: Any, to: str | DType) -> np.ndarray:
    """An array in dtype `to`."""
    array = np.asarray(x)
    source, kind = dtype(array.dtype.name), dtype(str(to))
    if source == kind:
        return array
    with np.errstate(all="ignore"):
        if source.is_float and kind.is_integer:
            return _whole(array, kind)
        if kind.is_bool:
            return np.asarray(array != 0)
        if source.is_integer and source.bits < 8:  # ml_dtypes goes through a byte
            array = array.astype(np.int8 if source.is_int else np.uint8)
        if kind.is_integer and kind.bits < 8:
            array = _low_bits(array, kind)
        return np.asarray(array.astype(kind.numpy))


def _whole(x: np.ndarray, kind: DType) -> np.ndarray:
    """Floats towards zero, kept inside the range."""
    value = np.trunc(x.astype(np.float64))
    low, high = float(kind.min_value), float(kind.max_value)
    inside = np.where((value > low) & (value < high), value, 0.0)
    found = inside.astype(np.int64 if kind.is_int else np.uint64)
    found = np.where(value <= low, kind.min_value, np.where(value >= high, kind.max_value, found))
    return np.asarray(found).astype(kind.numpy)


def _low_bits(x: np.ndarray, kind: DType) -> np.ndarray:
    """Integers reduced to the range of a dtype of less than 8 bits."""
    low = x.astype(np.int64) & ((1 << kind.bits) - 1)
    top = 1 << (kind.bits - 1)
    return np.where(low >= top, low - 2 * top, low) if kind.is_int else low
