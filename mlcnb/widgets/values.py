"""Tensors of one run as a page shows them: figures, and a small heat map as letters.

    figures(array)    {"shape": "float32 [1, 8]", "range": [0.0, 1.5], "mean": 0.7, "nan": 0,
                       "heat": {"of": "[0, 0]", "rows": ["09z", …], "low": 0.0, "high": 1.5}}

Letters go from 0 (the smallest) to z (the largest); `.` is no number. Values are taken as each
binding has run, by the virtual machine, step by step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from mlcnb.ir.module import IRModule
from mlcnb.relax import expr as rx
from mlcnb.runtime.tensor import as_array
from mlcnb.runtime.vm import VirtualMachine, bind_arguments
from mlcnb.tir.function import PrimFunc
from mlcnb.view.tensor import block_means
from mlcnb.view.words import dims

#: rows and columns of a heat map
CELLS = (12, 24)
_LEVELS = "0123456789abcdefghijklmnopqrstuvwxyz"


def inputs_in_order(function: rx.Function, given: Any) -> tuple[Any, ...]:
    """One array, several, or several by name, in the order of the parameters."""
    if isinstance(given, Mapping):
        return tuple(given[p.name_hint] for p in function.params if p.name_hint in given)
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def machine_of(mod: IRModule) -> VirtualMachine:
    """A machine that runs a module as it is: operators by their NumPy meaning, which needs no
    compiling; loop functions, where there are some, compiled.
    """
    if any(isinstance(f, PrimFunc) for f in mod.functions.values()):
        from mlcnb.driver import compile

        return compile(mod, target="llvm", relax_pipeline=None).vm
    return VirtualMachine(SimpleNamespace(mod=mod, kernels={}))


def values_of(vm: VirtualMachine, name: str, given: Any) -> dict[str, dict[str, Any]]:
    """The figures of every tensor of one run, by the name of its variable.

    Raises:
        RuntimeInputError: inputs that do not fit.
    """
    function = vm.executable.mod[name]
    args = inputs_in_order(function, given)
    values, _ = bind_arguments(function, name, args)
    pairs = zip(function.params, values, strict=True)
    found = {p.name_hint: told for p, v in pairs for told in _of(v)}
    for step in vm.steps(name, *args):
        found.update((step.name, told) for told in _of(step.value))
    return found


def _of(value: Any) -> Iterator[dict[str, Any]]:
    """The figures of a value, if it is a tensor."""
    if isinstance(value, np.ndarray) or hasattr(value, "numpy"):
        yield figures(as_array(value, "value"))


def figures(data: np.ndarray) -> dict[str, Any]:
    """What a page tells of one tensor."""
    told: dict[str, Any] = {"shape": f"{data.dtype.name} {dims(data.shape)}"}
    if not data.size or data.dtype.kind not in "fiub":
        return told
    wide = data.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    told["nan"], told["inf"] = int(np.isnan(wide).sum()), int(np.isinf(wide).sum())
    told["zeros"] = int((wide == 0).sum())
    if finite.size:
        told["range"] = [_short(finite.min()), _short(finite.max())]
        told["mean"], told["std"] = _short(finite.mean()), _short(finite.std())
    if data.size > 1:
        told["heat"] = heat(wide)
    return told


def _short(value: Any) -> float:
    """Four digits of a number."""
    return float(f"{float(value):.4g}")


def heat(data: np.ndarray) -> dict[str, Any]:
    """The last two axes of the first matrix; cells of a large one are means."""
    matrix = data[(0,) * (data.ndim - 2)] if data.ndim > 2 else np.atleast_2d(data)
    blocks = [-(-n // most) for n, most in zip(matrix.shape, CELLS, strict=True)]
    means = block_means(matrix, blocks)
    finite = means[np.isfinite(means)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    told = {"rows": _letters(means, low, high), "low": _short(low), "high": _short(high)}
    at = ", ".join("0" * (data.ndim - 2))
    of = f"[{at}], {dims(matrix.shape)}" if at else f"all {dims(matrix.shape)}"
    cell = f", a cell is the mean of {blocks[0]} × {blocks[1]}" if max(blocks) > 1 else ""
    return {"of": of + cell, **told}


def _letters(means: np.ndarray, low: float, high: float) -> list[str]:
    span = (high - low) or 1.0
    with np.errstate(invalid="ignore"):
        scaled = np.clip((means - low) / span * len(_LEVELS), 0, len(_LEVELS) - 1)
    known = np.isfinite(means)
    return [
        "".join(_LEVELS[int(v)] if k else "." for v, k in zip(row, ok, strict=True))
        for row, ok in zip(scaled, known, strict=True)
    ]
