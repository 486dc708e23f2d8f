"""Expressions as closures: `compile(e)(frame)` is the value of `e`.

A frame is a list with one slot for each variable and each buffer. Scalars are Python numbers,
vectors are lists of them.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np

from mlcnb.codegen.interp import instructions, intrinsics, numerics
from mlcnb.codegen.interp.leaving import raiser
from mlcnb.core.errors import ExecutionError, MLCError, UnsupportedOpError
from mlcnb.core.registry import get_global_func
from mlcnb.ir import expr as e
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.ir.folding import COMPARISONS, DIVISIONS, SUMS, TRUNCATED
from mlcnb.ir.prim_ops import const
from mlcnb.tir import index_check
from mlcnb.tir.analysis.wrapping import too_far
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.index_check import IndexCheckError

Frame = list
Closure = Callable[[Frame], Any]


class Returned(Exception):
    """Ends the program with a value (`tir.ret`)."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


class ExpressionCompiler:
    """Turns expressions into closures over frames."""

    def __init__(self) -> None:
        self.slots: dict[Any, int] = {}
        #: functions of this program that its host part launches, by name
        self.kernels: dict[str, Callable[..., Any]] = {}

    def slot(self, key: Any) -> int:
        """The slot of a variable, or of a buffer's view."""
        return self.slots.setdefault(key, len(self.slots))

    def compile(self, x: PrimExpr) -> Closure:
        """The closure of an expression."""
        handler = _COMPILE.get(type(x))
        if handler is None:
            raise UnsupportedOpError(f"the interpreter cannot evaluate {type(x).__name__}")
        return getattr(self, handler)(x)

    def counted(
        self, var: Var, first: PrimExpr, extent: PrimExpr, where: Any
    ) -> Callable[[Frame], range]:
        """What the variable of a loop, or of a launch, counts.

        The closure raises:
            ExecutionError: the variable cannot hold it.
        """
        begin, many = self.unwrapped(first), self.unwrapped(extent)
        low, high = var.dtype.min_value, var.dtype.max_value

        def run(f: Frame) -> range:
            start, count = begin(f), many(f)
            stop = start + count
            if low <= start <= high and low <= count <= high and stop - 1 <= high:
                return range(start, stop)
            raise ExecutionError(too_far(var, first, extent), where=where)

        return run

    def unwrapped(self, x: PrimExpr) -> Closure:
        """Sums and products of integers of at most 32 bits as they are in mathematics."""
        combine = numerics.ARITHMETIC.get(type(x))
        if combine is None or not x.dtype.is_integer or x.dtype.bits > 32:
            return self.compile(x)
        a, b = self.unwrapped(x.a), self.unwrapped(x.b)  # type: ignore[attr-defined]
        return lambda f: combine(a(f), b(f))

    def _constant(self, x: Any) -> Closure:
        value = bool(x.value) if x.dtype.is_bool else x.value
        return lambda f: value

    def _var(self, x: Var) -> Closure:
        return itemgetter(self.slot(x))

    def _binary(self, x: Any) -> Closure:
        a, b = self.compile(x.a), self.compile(x.b)
        kind: Any = type(x)
        fn = self.located(numerics.binary(kind, x.a.dtype.element), x)
        if x.a.dtype.lanes != 1:
            return lambda f: [fn(p, q) for p, q in zip(a(f), b(f), strict=True)]
        return lambda f: fn(a(f), b(f))

    def located(self, fn: Callable[..., Any], x: PrimExpr) -> Callable[..., Any]:
        """`fn`, whose errors say where in the program they arose."""
        can_fail = isinstance(x, e.Div | e.Mod | e.FloorDiv | e.FloorMod | e.Call)
        if not can_fail or (isinstance(x, e.BinaryOp) and x.dtype.is_float):
            return fn

        def run(*args: Any) -> Any:
            try:
                return fn(*args)
            except ExecutionError as error:
                if error.where is None:
                    error.where = x
                raise

        return run

    def _both(self, x: e.And) -> Closure:
        a, b = self.compile(x.a), self.compile(x.b)
        if x.dtype.lanes != 1:
            return lambda f: [p and q for p, q in zip(a(f), b(f), strict=True)]
        return lambda f: a(f) and b(f)

    def _either(self, x: e.Or) -> Closure:
        a, b = self.compile(x.a), self.compile(x.b)
        if x.dtype.lanes != 1:
            return lambda f: [p or q for p, q in zip(a(f), b(f), strict=True)]
        return lambda f: a(f) or b(f)

    def _negation(self, x: e.Not) -> Closure:
        a = self.compile(x.a)
        if x.dtype.lanes != 1:
            return lambda f: [not p for p in a(f)]
        return lambda f: not a(f)

    def _cast(self, x: e.Cast) -> Closure:
        value = self.compile(x.value)
        fn = numerics.caster(x.value.dtype.element, x.dtype.element)
        if x.dtype.lanes != 1:
            return lambda f: [fn(v) for v in value(f)]
        return lambda f: fn(value(f))

    def select(self, x: e.Select) -> Closure:
        """Both values are evaluated: an access out of bounds on either side is an error."""
        condition = self.compile(x.condition)
        yes, no = self.compile(x.true_value), self.compile(x.false_value)
        if x.condition.dtype.lanes != 1:
            return lambda f: [
                a if c else b for c, a, b in zip(condition(f), yes(f), no(f), strict=True)
            ]

        def run(f: Frame) -> Any:
            a, b = yes(f), no(f)
            return a if condition(f) else b

        return run

    def choice(self, x: e.Call) -> Closure:
        """if_then_else: only the value that is chosen is evaluated."""
        condition, yes, no = (self.compile(arg) for arg in x.args)
        if x.args[0].dtype.lanes == 1:
            return lambda f: yes(f) if condition(f) else no(f)

        def run(f: Frame) -> list:
            chosen = condition(f)
            if all(chosen):
                return yes(f)
            if not any(chosen):
                return no(f)
            return [a if c else b for c, a, b in zip(chosen, yes(f), no(f), strict=True)]

        return run

    def _let(self, x: e.Let) -> Closure:
        slot, value, body = self.slot(x.var), self.compile(x.value), self.compile(x.body)

        def run(f: Frame) -> Any:
            f[slot] = value(f)
            return body(f)

        return run

    def _ramp(self, x: e.Ramp) -> Closure:
        base, stride, lanes = (
            self.compile(x.base),
            self.compile(x.stride),
            range(x.dtype.fixed_lanes),
        )
        fit = numerics.to_dtype(x.dtype.element)

        def run(f: Frame) -> list:
            start, step = base(f), stride(f)
            return [fit(start + step * lane) for lane in lanes]

        return run

    def _broadcast(self, x: e.Broadcast) -> Closure:
        value, lanes = self.compile(x.value), x.lanes
        if not isinstance(lanes, int):
            lanes = x.dtype.fixed_lanes
        if x.value.dtype.lanes != 1:
            return lambda f: value(f) * lanes
        return lambda f: [value(f)] * lanes

    def _shuffle(self, x: e.Shuffle) -> Closure:
        vectors = [(self.compile(v), v.dtype.lanes) for v in x.vectors]
        indices = [self.compile(i) for i in x.indices]
        one = len(indices) == 1

        def run(f: Frame) -> Any:
            lanes: list = []
            for vector, count in vectors:
                lanes.extend(vector(f) if count != 1 else [vector(f)])
            picked = [lanes[i(f)] for i in indices]
            return picked[0] if one else picked

        return run

    # calls

    def _call(self, x: e.Call) -> Closure:
        if not isinstance(x.op, str):
            raise UnsupportedOpError("the interpreter cannot call functions of the module")
        name = x.op.removeprefix("tir.")
        handler = _CALLS.get(name)
        if handler is not None:
            return getattr(self, handler)(x)
        return self.apply(x, name, x.args)

    def apply(self, x: e.Call, name: str, operands: tuple[PrimExpr, ...]) -> Closure:
        """An intrinsic of numbers, lane by lane."""
        kinds = tuple(a.dtype.element for a in operands)
        fn = self.located(intrinsics.intrinsic(name, x.dtype.element, kinds), x)
        args = [self.compile(a) for a in operands]
        if x.dtype.lanes != 1:
            return lambda f: [fn(*lane) for lane in zip(*(a(f) for a in args), strict=True)]
        if len(args) == 1:
            only = args[0]
            return lambda f: fn(only(f))
        return lambda f: fn(*[a(f) for a in args])

    def extern(self, x: e.Call) -> Closure:
        """A function outside: a registered Python function, or one of C or LLVM that is known."""
        name = _text(x.args[0])
        operands = x.args[1:]
        fn = self.kernels.get(name) or get_global_func(name, allow_missing=True)
        fn = fn or instructions.instruction(name, x.dtype, [a.dtype for a in operands])
        if fn is None:
            return self.apply(x, intrinsics.foreign(name), operands)
        args = [self.compile(a) for a in operands]
        return lambda f: fn(*[a(f) for a in args])

    def checked_index(self, x: e.Call) -> Closure:
        """An index that is read from data, which has to be within its extent."""
        text = index_check.message(x)

        def checked(index: int, extent: int) -> int:
            if not 0 <= index < extent:
                raise IndexCheckError(text, (index, extent))
            return index

        fn, index, extent = self.located(checked, x), *map(self.compile, x.args[:2])
        if x.args[1].dtype.lanes != 1:
            return lambda f: list(map(fn, index(f), extent(f)))
        if x.dtype.lanes != 1:
            return lambda f: [fn(lane, extent(f)) for lane in index(f)]
        return lambda f: fn(index(f), extent(f))

    def _reinterpreted(self, x: e.Call) -> Closure:
        """The same bits as another dtype; the number of lanes may differ."""
        value, read = self.compile(x.args[0]), instructions.reinterpreted(x.dtype, x.args[0].dtype)
        return lambda f: read(value(f))

    def _returned(self, x: e.Call) -> Closure:
        value = self.compile(x.args[0])

        def run(f: Frame) -> Any:
            raise Returned(value(f))

        return run

    def _leave(self, x: e.Call) -> Closure:
        return raiser(x)

    def _half(self, x: e.Call) -> Closure:
        lanes = x.args[0].dtype.lanes // 2
        at = range(lanes) if x.op == "tir.vectorlow" else range(lanes, 2 * lanes)
        return self.compile(e.Shuffle(x.args, tuple(map(const, at))))

    def _combined(self, x: e.Call) -> Closure:
        return self.compile(e.Shuffle(x.args, tuple(map(const, range(x.dtype.lanes)))))

    def _lane_mask(self, x: e.Call) -> Closure:
        first, limit = map(self.compile, x.args)
        lanes = range(x.dtype.lanes)
        return lambda f: [first(f) + lane < limit(f) for lane in lanes]

    def _access_pointer(self, x: e.Call) -> Closure:
        data, offset = self.compile(x.args[1]), self.compile(x.args[2])

        def run(f: Frame) -> np.ndarray:
            return data(f)[offset(f) :]

        return run

    def _text_value(self, x: e.StringImm) -> Closure:
        value = x.value
        return lambda f: value

    def barrier(self, x: e.Call) -> Closure:
        """Outside of thread loops a barrier is nothing; inside, the statement handles it."""
        return lambda f: 0


def _text(x: PrimExpr) -> str:
    if not isinstance(x, e.StringImm):
        raise MLCError("a call of a function outside needs its name as a string")
    return x.value


_COMPILE: dict[type, str] = {
    **dict.fromkeys((*SUMS, *DIVISIONS, *TRUNCATED, *COMPARISONS), "_binary"),
    e.IntImm: "_constant",
    e.FloatImm: "_constant",
    e.StringImm: "_text_value",
    e.Var: "_var",
    e.SizeVar: "_var",
    e.And: "_both",
    e.Or: "_either",
    e.Not: "_negation",
    e.Cast: "_cast",
    e.Select: "select",
    e.Let: "_let",
    e.Ramp: "_ramp",
    e.Broadcast: "_broadcast",
    e.Shuffle: "_shuffle",
    e.Call: "_call",
    BufferLoad: "_load",
}

_CALLS: dict[str, str] = {
    "if_then_else": "choice",
    **dict.fromkeys(
        (
            "call_extern call_pure_extern call_llvm_intrin call_llvm_pure_intrin tvm_call_packed "
            "tvm_call_cpacked"
        ).split(),
        "extern",
    ),
    "ptx_mma": "_matrix_product",
    "ptx_ldmatrix": "_loaded_matrices",
    "ptx_wgmma": "_warpgroup_product",
    "reinterpret": "_reinterpreted",
    "ret": "_returned",
    "break_loop": "_leave",
    "continue_loop": "_leave",
    "vectorlow": "_half",
    "vectorhigh": "_half",
    "vectorcombine": "_combined",
    "get_active_lane_mask": "_lane_mask",
    "address_of": "address",
    "atomic_add": "atomic",
    "check_index": "checked_index",
    "tvm_access_ptr": "_access_pointer",
    "tvm_storage_sync": "barrier",
}
