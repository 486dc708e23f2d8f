"""Tables of sines and cosines: Fourier transforms as products with matrices."""

from __future__ import annotations

import numpy as np


def matrix(size: int, bins: int, pairs: int, sign: int) -> np.ndarray:
    """(size, pairs, bins, 2), float64: what each number adds to both parts of each bin."""
    angle = sign * 2 * np.pi * (np.outer(np.arange(size), np.arange(bins)) % size) / size
    cos, sin = np.cos(angle), np.sin(angle)
    both = [np.stack([cos, sin], -1), np.stack([-sin, cos], -1)]
    return np.stack(both[:pairs], 1)


def folded(size: int, bins: int) -> np.ndarray:
    """(bins, 2, size, 1): the inverse of a spectrum of which one half is given."""
    whole = matrix(size, size, 2, 1)[:, :, :, :1]
    half = whole[:bins].copy()
    for k in range(1, bins):
        if size - k >= bins:  # its conjugate stands for the bin that is not given
            half[k] += whole[size - k] * np.array([1, -1])[:, None, None]
    return half
