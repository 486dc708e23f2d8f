"""cumsum and cumprod along an axis with others inside of it: lines, of open sizes too."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import SizeVar
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.expr import Var, tensor_info


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("exclusive", [False, True])
def test_lines_of_open_sizes(exclusive: bool, target: str) -> None:
    """Lines are added whole, as of fixed sizes; an axis may be empty."""
    builder = BlockBuilder()
    x = Var("x", tensor_info([SizeVar(n, dtype("int64")) for n in "bnm"], "float32"))
    with builder.function("main", [x]):
        sums = builder.emit(op.cumsum(x, axis=1, exclusive=exclusive))
        products = builder.emit(op.cumprod(x, axis=0, exclusive=exclusive))
        builder.emit_func_output(mlc.relax.Tuple([sums, products]))
    loops = mlc.relax.transform.LegalizeOps()(builder.get()).script()
    assert "cumsum_lines" in loops and "cumprod_lines" in loops
    ex = mlc.compile(builder.get(), target=target)
    for shape in ((2, 5, 7), (3, 40, 33), (1, 1, 1), (2, 0, 3), (0, 2, 3), (2, 3, 0)):
        a = np.random.default_rng(1).integers(-3, 4, shape).astype("float32")
        wanted = [np.cumsum(a, 1), np.cumprod(a, 0)]
        if exclusive:
            for axis, start, of in ((1, 0, wanted[0]), (0, 1, wanted[1])):
                of[:] = np.roll(of, 1, axis)
                np.moveaxis(of, axis, 0)[:1] = start
        for found, expected in zip(ex(a), wanted, strict=True):
            np.testing.assert_array_equal(found, expected)
