"""One test for every operator: its loops and its type inference against its meaning in NumPy.

    Case(Add(), [x, y])                      arguments in the order of the declaration:
    Case(Clip(), [x, -1.0, 1.0])             arrays, tuples of arrays, shapes, numbers, None
    Case(Exp(), [x16], rtol=1e-2)

A family lists its cases in `tests/op/cases_<family>.py` as `CASES`, and as `MODULES` the modules
whose operators they have to cover; `test_declarations.py` runs them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.codegen.interp import run_prim_func
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.relax.expr import shape_expr, tensor_info
from mlcnb.relax.operator import OpDecl
from mlcnb.relax.struct_info import PrimStructInfo, ShapeStructInfo, TupleStructInfo

#: what results of a dtype may differ by, relative to 1 and to their size
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-6, "float64": 1e-12}
_numbers = itertools.count()


@dataclass
class Case:
    """One call of an operator: its attributes, its arguments, how close the results must be."""

    op: OpDecl
    args: list[Any]
    rtol: float | None = None
    loops: bool = True
    note: str = ""
    number: int = field(default_factory=lambda: next(_numbers))

    def __str__(self) -> str:
        kinds = [f"{a.dtype.name}{list(a.shape)}" for a in self.args if isinstance(a, np.ndarray)]
        return "-".join([self.op.sugar or self.op.op_name, *kinds, self.note, str(self.number)])

    @property
    def kinds(self) -> list[str]:
        """The kinds of the arguments, as declared."""
        return list(self.op.arguments.values())

    def expected(self) -> tuple[np.ndarray, ...]:
        """The meaning: arrays."""
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in self.args]
        found = self.op.numpy(*given)
        return found if isinstance(found, tuple) else (found,)

    def infos(self) -> list[Any]:
        """The struct infos of the arguments."""
        return [info_of(a, k) for a, k in zip(self.args, self.kinds, strict=True)]

    def inferred(self) -> list[Any]:
        """The struct infos of the results."""
        found = self.op.infer(*self.infos())
        return list(found.fields) if isinstance(found, TupleStructInfo) else [found]

    def prim_func(self) -> Any:
        """The loops as a function of all tensors."""
        inputs: list[te.Tensor] = []
        args = [_placeholder(a, k, inputs) for a, k in zip(self.args, self.kinds, strict=True)]
        made = self.op.compute(*args)
        outputs = list(made) if isinstance(made, tuple | list) else [made]
        outputs = [
            te.compute(o.shape, lambda *i, o=o: o[i], name="copy") if o in inputs else o
            for o in outputs
        ]
        return te.create_prim_func([*inputs, *outputs])

    def arrays(self) -> list[np.ndarray]:
        """The tensor arguments, in order."""
        found: list[np.ndarray] = []
        for a in self.args:
            if isinstance(a, tuple | list) and a and isinstance(a[0], np.ndarray):
                found.extend(a)
            elif isinstance(a, np.ndarray):
                found.append(a)
        return [np.ascontiguousarray(a).reshape(a.shape) for a in found]

    def run_loops(self) -> tuple[np.ndarray, ...]:
        """What the loops compute, in the reference interpreter."""
        outputs = self.outputs()
        run_prim_func(self.prim_func(), [*self.arrays(), *outputs])
        return tuple(outputs)

    def outputs(self) -> list[np.ndarray]:
        """Arrays for the results, as inference says, full of what no result leaves there."""
        found = []
        for info in self.inferred():
            out = np.empty([int(d) for d in info.dims], info.dtype.numpy)
            out.view(np.uint8 if out.dtype != np.bool_ else np.bool_).fill(1) if out.ndim else None
            found.append(out)
        return found

    def check(self, found: tuple[np.ndarray, ...]) -> None:
        """Compare results with the meaning."""
        expected = self.expected()
        assert len(found) == len(expected)
        for one, two in zip(found, expected, strict=True):
            assert one.dtype == two.dtype
            assert one.shape == two.shape
            if not dtype(two.dtype.name).is_float:
                np.testing.assert_array_equal(one, two)
                continue
            rtol = self.rtol or TOLERANCE.get(two.dtype.name, 0.2)
            one, two = one.astype(np.float64), two.astype(np.float64)
            np.testing.assert_allclose(one, two, rtol=rtol, atol=rtol)


def info_of(value: Any, kind: str) -> Any:
    """The struct info of one argument."""
    if value is None:
        return None
    if kind == "Tensors":
        return tuple(info_of(v, "Tensor") for v in value)
    if kind.endswith("Shape"):
        return ShapeStructInfo(shape_expr(value).values, len(value))
    if kind == "Scalar":
        scalar = p.as_expr(value)
        return PrimStructInfo(scalar.dtype, scalar)
    if kind in ("String", "Dtype"):
        return value
    return tensor_info(value.shape, value.dtype.name)


def _placeholder(value: Any, kind: str, inputs: list[te.Tensor]) -> Any:
    if value is None:
        return None
    if kind == "Tensors":
        return tuple(_placeholder(v, "Tensor", inputs) for v in value)
    if kind.endswith("Shape"):
        return tuple(p.as_expr(v) for v in value)
    if kind == "Scalar":
        return p.as_expr(value)
    if kind in ("String", "Dtype"):
        return value
    made = te.placeholder(value.shape, value.dtype.name, f"x{len(inputs)}")
    inputs.append(made)
    return made


def numbers(
    shape: Any, kind: str = "float32", seed: int = 0, low: float = -4, high: float = 4
) -> Any:
    """Random numbers of a dtype, the same in every run."""
    rng = np.random.default_rng(seed)
    made = dtype(kind)
    if made.is_bool:
        return rng.integers(0, 2, shape).astype(bool)
    if made.is_uint:
        low, high = max(low, 0), max(high, 1)
    if not made.is_float:
        return np.asarray(rng.integers(int(low), int(high) + 1, shape)).astype(made.numpy)
    return np.asarray(rng.uniform(low, high, shape)).astype(made.numpy)


#: floats at which functions behave in their own way
SPECIAL = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 1e-8, 30.0, -30.0, 1e4, -1e4)
SPECIAL += (float("inf"), float("-inf"), float("nan"))


def special(kind: str = "float32") -> np.ndarray:
    """SPECIAL as an array of a float dtype."""
    with np.errstate(all="ignore"):
        return np.array(SPECIAL).astype(dtype(kind).numpy)
