"""check="numeric": the program before and after a step is run on random numbers, and must agree.

The reference interpreter runs both; loops that are parallel, vectorized or bound to threads run
from
the end in the second run, so that a dependence which they carry shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.arith.atoms import variables_of
from mlcnb.core import above, display
from mlcnb.core.errors import ScheduleError
from mlcnb.core.node import Node, replace, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import substitute
from mlcnb.tir.stmt import BlockRealize, For, ForKind, IterType

#: the value that symbolic dimensions take
DIMENSION = 5
#: buffers with more elements are too slow for an interpreter
LARGEST = 1 << 16
_CONCURRENT = (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD_BINDING)


def check_numeric(before: PrimFunc, after: PrimFunc, label: str) -> str:
    """How far two functions differ on random inputs: `numeric 0.0 on (4, 4), (4, 4)`.

    Raises:
        ScheduleError: an output differs (says which element), or the function is too large.
    """
    if [_shape(b) for b in before.buffers] != [_shape(b) for b in after.buffers]:
        return "not run: the shape of a parameter changes"
    expected, found = run(before), run(backwards(after))
    furthest = 0.0
    for buffer, x, y in zip(before.buffers, expected, found, strict=True):
        if not np.allclose(x, y, rtol=1e-4, atol=1e-4, equal_nan=True):
            at = np.unravel_index(np.argmax(~np.isclose(x, y, 1e-4, 1e-4, True)), x.shape)
            place = ", ".join(str(int(i)) for i in at)
            raise ScheduleError(
                f"{label} changes what is computed: {buffer.name}[{place}] was {x[at]} and would "
                f"be {y[at]}",
                root=after,
            )
        gaps = np.abs(x.astype("float64") - y.astype("float64"))
        furthest = max(furthest, float(np.nanmax(gaps, initial=0.0)))
    return f"numeric {furthest:.2g} on shape {', '.join(str(x.shape) for x in expected)}"


def _shape(buffer: Any) -> list[str]:
    return [display.text(n) for n in buffer.shape]


def run(func: PrimFunc, seed: int = 0, small: bool = False) -> list[np.ndarray]:
    """All buffers of a function after it ran on random inputs; `small`: whole numbers from 1 to
    9.
    """
    random = np.random.default_rng(seed)
    sizes: dict[Any, Any] = {}
    args: list[Any] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        args.append(DIMENSION if buffer is None else _random(func, buffer, random, sizes, small))
    above.ask("run_prim_func")(func, args)
    return [x for x in args if isinstance(x, np.ndarray)]


def _random(
    func: PrimFunc, buffer: Any, random: np.random.Generator, sizes: dict[Any, Any], small: bool
) -> np.ndarray:
    shape = []
    for extent in buffer.shape:
        for n in [extent] if isinstance(extent, e.Var) else []:
            sizes.setdefault(n, p.const(DIMENSION, n.dtype))
        size = p.as_int(substitute(extent, sizes))
        shape.append(DIMENSION if size is None else size)
    if int(np.prod(shape)) > LARGEST:
        raise ScheduleError(
            f"{buffer.name} of shape {tuple(shape)} is too large to be run by the interpreter",
            root=func,
            hint='use check="default", or a smaller program',
        )
    if small and not buffer.dtype.is_bool:
        return random.integers(1, 10, shape).astype(buffer.dtype.numpy)
    if buffer.dtype.is_float:
        return random.standard_normal(shape).astype(buffer.dtype.numpy)
    return random.integers(0, 2, shape).astype(buffer.dtype.numpy)


def backwards(func: PrimFunc) -> PrimFunc:
    """The function with parallel, vectorized and thread-bound loops run from the end."""
    return func.with_body(rewrite(func.body, _mirrored))


def _is_reduced(loop: For) -> bool:
    """True if threads share a reduction with an init: the first of them starts it."""
    for n in walk(loop.body):
        if isinstance(n, BlockRealize) and n.block.init is not None:
            for axis, value in zip(n.block.iter_vars, n.iter_values, strict=True):
                if axis.iter_type is IterType.REDUCE and loop.loop_var in variables_of(value):
                    return True
    return False


def _mirrored(n: Node) -> Node | None:
    if not isinstance(n, For) or n.kind not in _CONCURRENT:
        return None
    if n.kind is ForKind.THREAD_BINDING and _is_reduced(n):
        return replace(n, kind=ForKind.SERIAL, thread_binding=None)
    last = p.subtract(p.add(n.min, n.extent), 1)
    value = p.subtract(p.add(last, n.min), n.loop_var)
    body = substitute(n.body, {n.loop_var: value})
    return replace(n, kind=ForKind.SERIAL, thread_binding=None, body=body)
