"""Arrays as grids of cells: an element each, or, of a large array, a line of a cache or several.

A: 96 x 96 float32           96 rows of 96 cells
W: 4,096 x 4,096 float32     a cell is 16 lines of 64 bytes
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlcnb.machine.addresses import Array
from mlcnb.view.words import plural

#: cells of a grid, and of a row
MOST, WIDEST = 16_384, 128


@dataclass(frozen=True)
class Grid:
    """How an array is drawn: bytes of a cell, cells of a row, cells in all."""

    array: Array
    unit: int
    columns: int
    cells: int
    line: int

    @property
    def rows(self) -> int:
        """Rows, the last of which may be shorter."""
        return -(-self.cells // self.columns)

    @property
    def says(self) -> str:
        """What a cell is, where it is not an element; '' where it is."""
        if self.unit == self.array.itemsize:
            return ""
        if self.unit == self.line:
            return f"a cell is a line of {self.line} bytes"
        return f"a cell is {plural(self.unit // self.line, 'line')} of {self.line} bytes"

    def spread(self, per_line: np.ndarray) -> np.ndarray:
        """A number for each line of memory as the number of each cell (sums, where it has more)."""
        first = self.array.base
        at = (first + np.arange(self.cells) * self.unit) // self.line
        if self.unit <= self.line:
            return per_line[at]
        ends = np.minimum(
            at + self.unit // self.line, (first + self.array.nbytes - 1) // self.line + 1
        )
        total = np.concatenate([[0], np.cumsum(per_line)])
        return total[ends] - total[at]


def grid_of(array: Array, line: int, most: int = MOST) -> Grid:
    """The grid of an array, of `most` cells at most."""
    elements = max(array.nbytes // array.itemsize, 1)
    unit = array.itemsize
    row = array.shape[-1] if array.shape else 1
    if elements > most or row > WIDEST:
        unit = max(line, array.itemsize)
        while -(-array.nbytes // unit) > most:
            unit *= 2
    cells = max(-(-array.nbytes // unit), 1)
    return Grid(array, unit, _columns(array, unit, cells), cells, line)


def _columns(array: Array, unit: int, cells: int) -> int:
    """As many cells in a row as the last dimensions have: not many more rows than columns."""
    nbytes, found = array.itemsize, 0
    for extent in reversed(array.shape):
        nbytes *= extent
        whole = nbytes // unit if nbytes % unit == 0 else 0
        is_line = bool(found) and whole * whole > 64 * cells  # rows put end to end
        if whole > WIDEST or is_line or 4 * found * found >= cells:
            break
        found = whole or found
    if not found or cells > 8 * found * found:
        # rows of the array are no rows here: a picture about as high as wide
        found = 1 << max((cells - 1).bit_length() // 2, 0)
    return min(max(found, 1), WIDEST)
