"""In which dtype sums are formed: half precision is added up in float32 and rounded once.

float16, bfloat16, 8-bit floats -> float32        everything else -> itself
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.prim_ops import cast


def accumulator(kind: DType | str) -> DType:
    """The dtype in which values of `kind` are summed."""
    made = dtype(str(kind))
    return dtype("float32") if made.is_float and made.bits < 32 else made


def rounded(x: Any, kind: DType | str, name: str) -> Any:
    """te tensor `x` in dtype `kind`: itself where that is what it is."""
    if x.dtype == kind:
        return x
    return te.compute(x.shape, lambda *i: cast(str(kind), x(*i)), name=name)


def wide(x: Any) -> np.ndarray:
    """An array in its accumulation dtype."""
    return np.asarray(x).astype(accumulator(np.asarray(x).dtype.name).numpy, copy=False)


def in_wide(fn: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """`fn(self, x, …)` computed in the accumulation dtype, its result rounded to x's dtype."""

    @wraps(fn)
    def run(self: Any, x: np.ndarray, *rest: Any) -> np.ndarray:
        result = fn(self, wide(x), *(wide(r) if isinstance(r, np.ndarray) else r for r in rest))
        return np.asarray(result).astype(x.dtype, copy=False)

    return run
