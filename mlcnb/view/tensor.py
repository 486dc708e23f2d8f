"""Tensors at run time: shape, dtype, figures, how the values are spread, the values of a small one.

Tensor float32 [1, 1000] on cpu(0), 4 kB
  range   -8.12 .. 11.3, mean 0.0021, standard deviation 1.9
  spread  ▁▁▂▄▇█▇▄▂▁▁▁
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.view.highlight import code
from mlcnb.view.parts import Facts, Part, Title
from mlcnb.view.registry import shows
from mlcnb.view.words import dims, size

#: values of a tensor of at most so many elements are shown
SMALL = 64
#: figures are taken of at most so many elements, evenly spread
SAMPLE = 1_000_000
_LEVELS = "▁▂▃▄▅▆▇█"


@shows("mlcnb.runtime.tensor:Tensor")
def tensor(t: Any) -> list[Part]:
    """Shape, figures, values."""
    data = t.numpy()
    title = f"Tensor {data.dtype.name} {dims(data.shape)} on {t.device}, {size(data.nbytes)}"
    parts: list[Part] = [Title(title), Facts(figures(data))]
    if data.size <= SMALL:
        parts.append(code(np.array2string(data, precision=5, suppress_small=True)))
    return parts


def figures(data: np.ndarray) -> list[tuple[str, str]]:
    """Smallest, largest, mean, spread, and how many are no numbers."""
    if not data.size:
        return [("values", "none")]
    step = -(-data.size // SAMPLE)
    values = data.reshape(-1)[::step]
    pairs = [("sample", f"one value in {step} of {data.size:,}")] if step > 1 else []
    if values.dtype.kind == "b":
        return [*pairs, ("true", f"{int(values.sum()):,} of {values.size:,}")]
    wide = values.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if finite.size:
        low, high = f"{finite.min():.4g}", f"{finite.max():.4g}"
        told = f"{low} .. {high}, mean {finite.mean():.4g}, standard deviation {finite.std():.4g}"
        pairs.append(("range", told))
        pairs.append(("spread", spread(finite)))
    zeros, nans = int((wide == 0).sum()), int(np.isnan(wide).sum())
    infinite = int(np.isinf(wide).sum())
    pairs.append(("zeros", f"{zeros:,}; NaN {nans:,}; infinite {infinite:,}"))
    return pairs


def spread(values: np.ndarray, bins: int = 24) -> str:
    """How often values occur between the smallest and the largest, as a row of small bars."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        return "all equal"
    counts = np.histogram(values, bins, (low, high))[0]
    top = counts.max()
    return "".join(_LEVELS[int(np.ceil(c / top * len(_LEVELS))) - 1] if c else " " for c in counts)
