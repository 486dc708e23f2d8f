"""Tensors at run time: shape, dtype, figures, how the values are spread, the values of a small one.

Tensor float32 [1, 1000] on cpu(0), 4 kB
  range   -8.12 .. 11.3, mean 0.0021, standard deviation 1.9
  spread  ▁▁▂▄▇█▇▄▂▁▁▁
heat map of [0, 0], 7 x 7 values a cell
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.view.highlight import code
from mlcnb.view.parts import Facts, Part, Picture, Title
from mlcnb.view.registry import shows
from mlcnb.view.svg import FAINT, Cell, Drawing
from mlcnb.view.words import dims, size

#: values of a tensor of at most so many elements are shown
SMALL = 64
#: figures are taken of at most so many elements, evenly spread
SAMPLE = 1_000_000
#: rows and columns of a heat map
CELLS = (16, 40)
_SHADES = ((253, 246, 200), (127, 205, 187), (44, 127, 184), (8, 29, 88))
_LEVELS = "▁▂▃▄▅▆▇█"


@shows("mlcnb.runtime.tensor:Tensor")
def tensor(t: Any) -> list[Part]:
    """Shape, figures, values."""
    data = t.numpy()
    title = f"Tensor {data.dtype.name} {dims(data.shape)} on {t.device}, {size(data.nbytes)}"
    parts: list[Part] = [Title(title), Facts(figures(data))]
    if data.size > 1 and data.dtype.kind != "b":
        parts.append(heat_map(data))
    if data.size <= SMALL:
        parts.append(code(np.array2string(data, precision=5, suppress_small=True)))
    return parts


def heat_map(data: np.ndarray) -> Picture:
    """The last two axes (of the first matrix) as a grid of colours; large ones cell by mean."""
    matrix = data[(0,) * (data.ndim - 2)] if data.ndim > 2 else np.atleast_2d(data)
    blocks = [-(-n // most) for n, most in zip(matrix.shape, CELLS, strict=True)]
    means = block_means(matrix.astype(np.float64), blocks)
    what = f"[{', '.join('0' * (data.ndim - 2))}]" if data.ndim > 2 else "all values"
    told = f"heat map of {what}, {dims(matrix.shape)}"
    if max(blocks) > 1:
        told += f"; a cell is the mean of {blocks[0]} x {blocks[1]} values"
    return Picture(lambda: _drawn(means, told), told, told)


def block_means(matrix: np.ndarray, blocks: list[int]) -> np.ndarray:
    """The mean of each block; NaN where one of its values is none."""
    down = np.add.reduceat(matrix, range(0, matrix.shape[0], blocks[0]), axis=0)
    both = np.add.reduceat(down, range(0, matrix.shape[1], blocks[1]), axis=1)
    sizes = [np.diff([*range(0, n, b), n]) for n, b in zip(matrix.shape, blocks, strict=True)]
    return both / np.outer(*sizes)


def _drawn(means: np.ndarray, told: str) -> str:
    """A grid; the palest is the smallest, the darkest the largest, a cross is no number."""
    d = Drawing()
    finite = means[np.isfinite(means)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    side = max(6.0, min(18.0, 360 / max(means.shape)))
    boxes: list[Cell] = []
    for (row, column), value in np.ndenumerate(means):
        known = bool(np.isfinite(value))
        fill = _shade((value - low) / (high - low) if high > low else 0.5) if known else "#ffffff"
        boxes.append((column * side, row * side, side, side, fill, "" if known else "×"))
    d.cells(boxes, min(9.5, side))
    y = means.shape[0] * side + 8
    for step in range(9):
        d.rect(step * 14, y, 14, 10, _shade(step / 8), _shade(step / 8))
    d.text(9 * 14 + 8, y + 9, f"{low:.4g} .. {high:.4g}", FAINT, 10)
    return d.svg(told)


def _shade(share: float) -> str:
    """From pale yellow over green to dark blue: told apart by lightness alone too."""
    at = share * (len(_SHADES) - 1)
    i = min(int(at), len(_SHADES) - 2)
    pairs = zip(_SHADES[i], _SHADES[i + 1], strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (at - i)):02x}" for a, b in pairs)


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
