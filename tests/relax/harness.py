"""What the tests of graph passes share: whole programs before and after, and the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.ir import assert_structural_equal
from mlcnb.ir.expr import IntImm
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import as_int
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.relax.analysis.struct_info import substitute, symbolic_vars
from mlcnb.relax.expr import const
from mlcnb.relax.struct_info import PrimStructInfo, ShapeStructInfo, TupleStructInfo
from mlcnb.testing import assert_same_results, evaluate


def as_module(program: Any) -> IRModule:
    """A module, or the module of one function named main."""
    if isinstance(program, IRModule):
        return program
    return IRModule.make({"main": program.with_attr("global_symbol", "main")})


def inputs_of(func: Any, seed: int = 0, size: int = 3) -> list[Any]:
    """Random arguments; symbolic dimensions are `size`, size + 1, … in order of appearance."""
    rng = np.random.default_rng(seed)
    dims: dict[Any, int] = {}
    return [value_of(p.struct_info, rng, dims, size) for p in func.params]


def value_of(info: Any, rng: Any, dims: dict[Any, int], size: int) -> Any:
    if isinstance(info, TupleStructInfo):
        return tuple(value_of(f, rng, dims, size) for f in info.fields)
    if isinstance(info, ShapeStructInfo):
        return tuple(number_of(d, dims, size) for d in info.values)
    if isinstance(info, PrimStructInfo) and info.value is None:
        return float(rng.standard_normal()) if info.dtype.is_float else int(rng.integers(0, 5))
    if isinstance(info, PrimStructInfo):
        return number_of(info.value, dims, size)
    shape = [number_of(d, dims, size) for d in info.dims]
    if info.dtype.is_float:
        return rng.standard_normal(shape).astype(info.dtype.numpy)
    if info.dtype.is_bool:
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(0, 5, shape).astype(info.dtype.numpy)


def number_of(dim: Any, dims: dict[Any, int], size: int) -> int:
    for var in symbolic_vars(dim):
        dims.setdefault(var, size + len(dims))
    found = as_int(substitute(dim, {v: IntImm(v.dtype, n) for v, n in dims.items()}))
    assert found is not None
    return found


def same_numbers(before: Any, after: Any, args: Any = None, tolerance: float = 1e-5) -> None:
    """Both programs give the same results for the same random inputs."""
    one, two = as_module(before), as_module(after)
    given = inputs_of(one["main"]) if args is None else args
    assert_same_results(evaluate(one, *given), evaluate(two, *given), tolerance, tolerance)


def check_pass(
    pass_: Any,
    before: Any,
    after: Any = None,
    args: Any = None,
    tolerance: float = 1e-5,
    again: bool = True,
) -> IRModule:
    """Run a pass: the result is `after`, is well formed, means the same, and stays as it is.

    args: arguments of main (random if None); False: do not run the programs.
    again: running the pass on its result gives that very module.
    """
    one = as_module(before)
    assert_well_formed(one)
    got = pass_(one)
    assert_well_formed(got)
    if after is not None:
        assert_structural_equal(got, as_module(after))
    if args is not False:
        same_numbers(one, got, args, tolerance)
    if again:
        assert pass_(got) is got, "the pass changes its own result"
    return got


def constant(*shape: int, seed: int = 1, dtype: str = "float32") -> Any:
    """A random constant."""
    values = np.random.default_rng(seed).standard_normal(shape)
    return const(values.astype(dtype))
