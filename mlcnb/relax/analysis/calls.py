"""Does a call_tir give its PrimFunc what that takes? dtypes, ranks and sizes, one by one.

R.call_tir(cls.f, (x,), out_sinfo=R.Tensor((8,), "float32"))        x: R.Tensor((4,), "float32")
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"))

    f takes A: Tensor((8,), float32), but argument x is Tensor((4,), float32): dimension 0 is 4

Symbolic sizes of the PrimFunc take their values from the call; what has to be equal then, and is
not known to be, is `open`: it is checked when the sizes are known (`runtime.graph_plan`, and
`runtime.kernel_call` where the program runs step by step).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import WellFormedError
from mlcnb.core.node import rewrite
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import GlobalVar, PrimExpr
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.module import IRModule
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.expr import Call, Function, Op
from mlcnb.relax.infer import Functions
from mlcnb.relax.inplace import inplace_problem
from mlcnb.relax.struct_info import PrimStructInfo, StructInfo, TensorStructInfo, describe, parts_of
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc

INPLACE = ("relax.call_tir_inplace", "relax.call_inplace_packed")
#: operators that call a loop function with tensors, the results and scalars after them
LOOPS = ("relax.call_tir", "relax.call_tir_inplace")
CALLS = (*LOOPS, "relax.call_tir_with_grad")


def check_calls(mod: IRModule) -> None:
    """Check all call_tirs of a module's graph functions.

    Raises:
        WellFormedError: one gives its PrimFunc what that does not take.
    """
    for name, func in mod.items():
        for binding in bindings_of(func) if isinstance(func, Function) else ():
            call = binding.value
            if not (isinstance(call, Call) and is_call_tir(call)):
                continue
            callee = mod.functions.get(call.args[0])  # type: ignore[call-overload]
            found = Misfit.of(call, callee) if isinstance(callee, PrimFunc) else None
            if found is not None:
                message = f"{name.name_hint}: {found}"
                raise WellFormedError(message, where=call, root=mod, hint=HINT)


HINT = "give what the PrimFunc takes, or change its buffers"


def is_call_tir(call: Call) -> bool:
    """True for call_tir and what is like it."""
    return isinstance(call.op, Op) and call.op.name in CALLS


def callee_of(call: Any, functions: Functions) -> PrimFunc | None:
    """The loop function that a plain call_tir calls; None of any other value."""
    if not isinstance(call, Call) or not isinstance(call.op, Op) or call.op.name != CALLS[0]:
        return None
    func = functions.get(call.args[0])  # type: ignore[call-overload]
    return func if isinstance(func, PrimFunc) else None


def wrong_places(call: Call) -> str | None:
    """What is wrong with the arguments that a call writes over, if it writes over some."""
    return inplace_problem(call) if call.op.name in INPLACE else None  # type: ignore[attr-defined]


class Misfit:
    """Compares a call with its PrimFunc: `of` gives the first thing that is wrong, in words.

    `is_open`: some sizes have to be equal, and are not known to be.
    """

    def __init__(self, call: Call, func: PrimFunc) -> None:
        self.call, self.func = call, func
        key: Any = call.args[0]
        self.name = key.name_hint if isinstance(key, GlobalVar) else "the PrimFunc"
        self.values: dict[PrimVar, PrimExpr] = {}
        self.is_open = False

    @staticmethod
    def of(call: Call, func: PrimFunc) -> str | None:
        """What is wrong; None where nothing is, or nothing is known to be."""
        return next(Misfit(call, func).problems(), None)

    def problems(self) -> Iterator[str]:
        """All that is wrong, kinds and ranks before sizes."""
        problem = wrong_places(self.call)
        if problem is not None:
            yield problem
            return
        pairs = list(self.given())
        scalars: Any = self.call.args[2] if len(self.call.args) > 2 else None
        values = tuple(getattr(scalars, "values", None) or ())
        if len(pairs) + len(values) != len(self.func.params):
            inputs = len(self.call.args[1].fields)  # type: ignore[attr-defined]
            yield (
                f"{self.name} takes {len(self.func.params)} parameters, this call_tir gives "
                f"{inputs} inputs and {len(pairs) - inputs} outputs"
            )
            return
        sized: list[tuple[Buffer, TensorStructInfo, str]] = []
        for param, (info, what) in zip(self.func.params, pairs, strict=False):
            buffer: Buffer | None = self.func.buffer_map.get(param)
            problem = self.kind(param, buffer, info, what)
            if problem:
                yield problem
                return
            if buffer is None:
                continue
            if isinstance(info, TensorStructInfo) and info.dims is not None:
                sized.append((buffer, info, what))
            self.is_open = self.is_open or not _is_known(info)
        yield from self.scalars(self.func.params[len(pairs) :], values)
        yield from self.in_place(pairs)
        for buffer, info, _ in sized:
            for dim, value in zip(buffer.shape, info.dims or (), strict=True):
                if isinstance(dim, PrimVar):
                    self.values.setdefault(dim, value)
        for buffer, info, what in sized:
            yield from self.sizes(buffer, info, what)

    def given(self) -> Iterator[tuple[StructInfo | None, str]]:
        """The struct info of each argument and output, and its name."""
        inputs: Any = self.call.args[1]
        for number, x in enumerate(inputs.fields):
            yield getattr(x, "struct_info", None), getattr(x, "name_hint", f"number {number}")
        for number, info in enumerate(self.outputs()):
            if not self.is_in_place(number):
                yield info, f"output {number}"

    def outputs(self) -> tuple[StructInfo, ...]:
        """The struct infos of the results."""
        info = self.call.sinfo_args[0]
        return parts_of(info)

    def is_in_place(self, output: int) -> bool:
        """True for an output that is written to an argument."""
        if self.call.op.name != "relax.call_tir_inplace":  # type: ignore[attr-defined]
            return False
        return bool(self.call.attrs["inplace_indices"][output] >= 0)

    def kind(self, param: Any, buffer: Any, info: Any, what: str) -> str | None:
        """A tensor for a buffer, of its dtype and rank."""
        if info is None:
            return None
        if buffer is None and isinstance(info, PrimStructInfo) and info.dtype == param.dtype:
            return None
        if buffer is None:
            return f"{self.name} takes the scalar {param.name}, but {what} is {describe(info)}"
        if not isinstance(info, TensorStructInfo):
            return self.wrong(buffer, info, what)
        if info.dtype is not None and info.dtype != buffer.dtype:
            return f"{self.wrong(buffer, info, what)}: the dtype is {info.dtype}"
        if info.ndim >= 0 and info.ndim != buffer.ndim:
            return f"{self.wrong(buffer, info, what)}: it has {info.ndim} dimensions"
        return None

    def wrong(self, buffer: Buffer, info: Any, what: str) -> str:
        """What is taken, and what is given."""
        shape = ", ".join(_text(d) for d in buffer.shape)
        comma = "," if buffer.ndim == 1 else ""
        return (
            f"{self.name} takes {buffer.name}: Tensor(({shape}{comma}), {buffer.dtype}), "
            f"but {what} is {describe(info)}"
        )

    def scalars(self, params: tuple[PrimVar, ...], values: tuple[PrimExpr, ...]) -> Iterator[str]:
        """The tir_vars: numbers for the last parameters."""
        for param, value in zip(params, values, strict=True):
            if param in self.func.buffer_map:
                yield f"{self.name} takes a buffer for {param.name}, the call gives it a number"
                return
            self.values[param] = value

    def in_place(self, pairs: list[tuple[StructInfo | None, str]]) -> Iterator[str]:
        """A result that is written to an argument is of its dtype and size."""
        for number, info in enumerate(self.outputs()):
            if not self.is_in_place(number):
                continue
            at = self.call.attrs["inplace_indices"][number]
            other, what = pairs[at]
            both = isinstance(info, TensorStructInfo) and isinstance(other, TensorStructInfo)
            if both and not _may_be_same(info, other):
                yield f"output {number} is {describe(info)}, written to {what}: {describe(other)}"

    def value_of(self, n: Any) -> Any:
        """What stands for a size of the PrimFunc in the call."""
        return self.values.get(n) if isinstance(n, PrimVar) else None

    def sizes(self, buffer: Buffer, info: TensorStructInfo, what: str) -> Iterator[str]:
        """Each dimension is what the buffer has, with the sizes that the call gives."""
        for axis, (dim, value) in enumerate(zip(buffer.shape, info.dims or (), strict=True)):
            wanted: Any = rewrite(dim, lambda _: None, enter=self.value_of)
            same = _are_equal(wanted, value)
            if same is None:
                self.is_open = True
            elif not same:
                told = f"dimension {axis} is {_text(value)}"
                if p.as_int(dim) is None:
                    told += f", and {_text(dim)} is {_text(wanted)} here"
                yield f"{self.wrong(buffer, info, what)}: {told}"


def is_open(call: Call, func: PrimFunc) -> bool:
    """True if only a run can tell whether the sizes of a call are those of the PrimFunc."""
    compared = Misfit(call, func)
    return any(True for _ in compared.problems()) or compared.is_open


def _is_known(info: StructInfo | None) -> bool:
    """True for a tensor whose dtype and dimensions, be they variables, are told."""
    return isinstance(info, TensorStructInfo) and None not in (info.dims, info.dtype)


def _text(value: Any) -> str:
    return re.sub(r"T\.int64\((-?\d+)\)", r"\1", display.text(value))


def _may_be_same(a: Any, b: Any) -> bool:
    """False for tensors of different dtypes, ranks or sizes."""
    if a.dtype != b.dtype and None not in (a.dtype, b.dtype):
        return False
    if a.dims is None or b.dims is None:
        return True
    same = len(a.dims) == len(b.dims)
    return same and all(_are_equal(x, y) is not False for x, y in zip(a.dims, b.dims, strict=True))


def _are_equal(a: PrimExpr, b: PrimExpr) -> bool | None:
    """Whether two sizes are equal; None where it depends."""
    if a is b:
        return True
    one, two = p.as_int(a), p.as_int(b)
    if one is not None and two is not None:
        return one == two
    from mlcnb.arith import simplify

    difference = p.as_int(simplify(p.cast("int64", a) - p.cast("int64", b)))
    return None if difference is None else difference == 0
