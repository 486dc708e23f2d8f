"""Photos in, class names out: what surrounds an image model.

x = image.load("cat.png")                     float32 [1, 3, 224, 224]
image.top(ex(x), labels="classes.txt")        top-1: tiger cat 0.386
"""

from __future__ import annotations

import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlcnb.core import display
from mlcnb.core.errors import MissingDependencyError, MLCError
from mlcnb.core.means import within_means

#: pixels of a picture, read or resized: they take 800 MB
MOST_PIXELS = 1 << 28


def load(
    file: str | Path,
    height: int = 224,
    width: int = 224,
    mean: float = 0.498,
    std: float = 0.502,
    dtype: str = "float32",
) -> np.ndarray:
    """A picture as [1, 3, height, width]: channels first, (value / 255 - mean) / std.

    The short side is resized to 8/7 of what is wanted (256 for 224, bicubic), the centre cut out.

    Raises:
        MissingDependencyError: pillow is not installed.
        MLCError: the file is no picture, or one of more than `MOST_PIXELS`.
    """
    try:
        from PIL import Image
    except ImportError:
        hint = "pip install 'mlcnb[lab]'"
        raise MissingDependencyError("pictures are read by pillow", hint=hint) from None
    if not (0 < height <= MOST_PIXELS and 0 < width <= MOST_PIXELS):
        raise MLCError(f"a picture of {height} x {width} pixels cannot be made", hint="e.g. 224")
    try:
        with within_means(str(file), MLCError), warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(file) as opened:
                _check_pixels(file, *opened.size)
                picture = opened.convert("RGB")
    except Image.DecompressionBombError as error:
        raise MLCError(f"{file}: {error}", hint="make it smaller first") from None
    except (OSError, ValueError, SyntaxError, struct.error) as error:
        raise MLCError(f"{file} cannot be read as a picture: {error}") from None
    scale = max(height / picture.height, width / picture.width) * 8 / 7
    size = round(picture.width * scale), round(picture.height * scale)
    _check_pixels(f"{file}, resized", *size)
    picture = picture.resize(size, Image.Resampling.BICUBIC)
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    pixels = np.asarray(picture.crop((left, top, left + width, top + height)), np.float32)
    return ((pixels / 255 - mean) / std).transpose(2, 0, 1)[None].astype(dtype, order="C")


def _check_pixels(what: Any, width: int, height: int) -> None:
    """Refuse a picture that would fill the memory."""
    if width * height > MOST_PIXELS:
        raise MLCError(
            f"{what}: {width} x {height} pixels are more than {MOST_PIXELS}",
            hint="make it smaller, or cut out what matters",
        )


@dataclass(frozen=True)
class ClassScore:
    """One class: its number, its name (None where not known), and its probability."""

    number: int
    name: str | None
    probability: float

    def __str__(self) -> str:
        return f"{self.name or f'class {self.number}'} {self.probability:.3f}"


class Classes(display.Shown, tuple[ClassScore, ...]):
    """The likeliest classes, best first; prints as `top-1: …` and `top-3: …`."""

    def __repr__(self) -> str:
        lines = [f"top-1: {self[0]}"] if self else []
        if len(self) > 1:
            lines.append(f"top-{len(self)}: {', '.join(map(str, self))}")
        return "\n".join(lines)


def top(scores: Any, labels: Any = None, k: int = 3) -> Classes:
    """The `k` likeliest classes of a row of scores.

    Args:
        scores: [classes] or [1, classes]; logits or probabilities.
        labels: class names in order: a list, or a text file with one a line.
        k: how many.
    """
    names = _lines(Path(labels)) if isinstance(labels, str | Path) else labels
    row = np.asarray(scores, np.float64).reshape(-1)
    if row.min() < 0 or not np.isclose(row.sum(), 1, atol=1e-3):
        row = np.exp(row - row.max())
        row /= row.sum()
    best = np.argsort(-row, kind="stable")[:k]
    known = names or []
    return Classes(
        ClassScore(int(i), known[i] if i < len(known) else None, float(row[i])) for i in best
    )


def _lines(file: Path) -> list[str]:
    """The lines of a text file."""
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise MLCError(f"{file} cannot be read as class names, one a line: {error}") from None
