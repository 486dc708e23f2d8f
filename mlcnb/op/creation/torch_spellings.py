"""PyTorch spellings of tensors that are made: zeros, full, arange, eye and what is like another."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr
from mlcnb.op._spell import call
from mlcnb.op._torch import Formula, rounded
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr, const


def _full(n: TorchNode, value: Any) -> Expr:
    dims, kind = n.result()
    return call("relax.full", list(dims), n.tensor(value, kind), dtype=kind)


@torch_spelling("aten.zeros.default", "aten.zeros_like", "aten.new_zeros", "aten.empty")
@torch_spelling("aten.empty_like", "aten.new_empty", "aten.empty_strided", "aten.empty_permuted")
@torch_spelling("aten.new_empty_strided", "aten.zero", "aten._efficientzerotensor")
@torch_spelling("aten.ones.default", "aten.ones_like", "aten.new_ones")
def torch_zeros(n: TorchNode, *given: Any) -> Expr:
    """All zeros (so is what PyTorch leaves as memory had it), or all ones."""
    return _full(n, int("ones" in n.target))


@torch_spelling("aten.full.default", "aten.full_like", "aten.new_full")
def torch_full(n: TorchNode, like: Any, fill_value: Any, *size: Any) -> Expr:
    """All of one number; new_full has it last."""
    return _full(n, size[0] if n.target.startswith("aten.new_full") else fill_value)


@torch_spelling("aten.scalar_tensor")
def torch_scalar_tensor(n: TorchNode, value: Any) -> Expr:
    """A number as a tensor without dimensions."""
    return n.tensor(value, n.result()[1])


@torch_spelling("aten.arange.default")
def torch_arange(n: TorchNode, end: Any) -> Expr:
    """0, 1, … below end"""
    return torch_arange_start(n, 0, end)


@torch_spelling("aten.arange.start", "aten.arange.start_step")
def torch_arange_start(n: TorchNode, start: Any, end: Any, step: Any = 1) -> Expr:
    """start, start + step, … before end"""
    dims, kind = n.result()
    if all(isinstance(v, int | PrimExpr) for v in (start, end, step)):
        found = n.emit(call("relax.arange", start, end, step, dtype="int64"))
        return n.tensor(found, kind)
    wide = kind if dtype(kind).is_float else "float64"
    f = Formula(n, wide)
    count = n.emit(call("relax.arange", 0, dims[0], 1, dtype="int64"))
    return rounded(n, f.add(f.multiply(n.tensor(count, wide), step), start))


@torch_spelling("aten.linspace.default")
def torch_linspace(n: TorchNode, start: Any, end: Any, steps: int) -> Expr:
    """`steps` numbers from start to end, both of which are among them."""
    f = Formula(n, "float64")
    count = n.tensor(n.emit(call("relax.arange", 0, steps, 1, dtype="int64")), "float64")
    width = f.divide(f.subtract(f.number(end), f.number(start)), f.number(max(steps - 1, 1)))
    return rounded(n, f.add(f.multiply(count, width), start))


@torch_spelling("aten.hamming_window")
def torch_hamming_window(
    n: TorchNode, size: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46
) -> Expr:
    """alpha - beta * cos(2 pi k / size)"""
    turn = 2 * np.pi * _window_places(size, periodic)
    return n.tensor(const(alpha - beta * np.cos(turn)), n.result()[1])


@torch_spelling("aten.blackman_window")
def torch_blackman_window(n: TorchNode, size: int, periodic: bool = True) -> Expr:
    """0.42 - 0.5 * cos(2 pi k / size) + 0.08 * cos(4 pi k / size)"""
    turn = 2 * np.pi * _window_places(size, periodic)
    return n.tensor(const(0.42 - 0.5 * np.cos(turn) + 0.08 * np.cos(2 * turn)), n.result()[1])


@torch_spelling("aten.bartlett_window")
def torch_bartlett_window(n: TorchNode, size: int, periodic: bool = True) -> Expr:
    """A triangle of height 1."""
    found = 1 - np.abs(2 * _window_places(size, periodic) - 1)
    return n.tensor(const(found), n.result()[1])


def _window_places(size: int, periodic: bool) -> np.ndarray:
    """k / size: the end of a periodic window is the beginning of the next one."""
    if size == 1:
        return np.full(1, 0.5)  # PyTorch's window of one place is 1
    return np.arange(size) / (size if periodic else size - 1)


@torch_spelling("aten.tril_indices", "aten.triu_indices")
def torch_triangle_indices(n: TorchNode, row: Any, col: Any, offset: Any = 0) -> Expr:
    """The places of a triangle: rows, then columns."""
    if not all(isinstance(v, int) for v in (row, col, offset)):
        n.refuse("a size that is open", "export with fixed sizes, or use torch.ones(…).tril()")
    found = (np.tril_indices if "tril" in n.target else np.triu_indices)(row, offset, col)
    return n.tensor(const(np.stack(found).astype(np.int64)), n.result()[1])


@torch_spelling("aten.eye.default", "aten.eye.m")
def torch_eye(n: TorchNode, rows: Any, columns: Any = None) -> Expr:
    """Ones on the diagonal."""
    dims, kind = n.result()
    if dtype(kind).is_bool:
        return n.tensor(n.emit(call("relax.eye", *dims, 0, dtype="int8")), "bool")
    return call("relax.eye", *dims, 0, dtype=kind)
