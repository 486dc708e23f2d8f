"""The reference meaning of graph programs: bindings in order, in NumPy.

    evaluate(mod, x, y)     an operator       by its declaration's `numpy`
                            call_tir          by the interpreter, element by element
                            If, functions     as Python would

Slow and simple: what every graph pass and backend is checked against.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import ExecutionError, RuntimeInputError
from mlcnb.core.registry import get_global_func
from mlcnb.ir.expr import GlobalVar, IntImm
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.module import IRModule
from mlcnb.relax import expr as rx
from mlcnb.relax.numpy_call import call_numpy, scalar_of, value_of
from mlcnb.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
    parts_of,
)
from mlcnb.runtime import builtin
from mlcnb.tir.function import PrimFunc

Watch = Callable[[rx.Var, Any], None]


def evaluate(
    program: IRModule | rx.Function, *args: Any, name: str = "main", watch: Watch | None = None
) -> Any:
    """Run a graph function on NumPy arrays.

    Args:
        program: a module, or a function that needs none.
        args: one value for each parameter: arrays, numbers, tuples.
        name: which function of the module.
        watch: called with each variable that is bound and its value.

    Returns:
        An array, a tuple of results, or a tuple of ints for a shape.

    Raises:
        RuntimeInputError: the arguments do not fit the parameters.
        ExecutionError: a match_cast fails, or a value cannot be computed.
    """
    mod = program if isinstance(program, IRModule) else IRModule.make({name: program})
    return _Frame(mod, watch).run(mod[name], args)


class _Frame:
    """One call of a function: values of its variables and of its symbolic dimensions."""

    def __init__(self, mod: IRModule, watch: Watch | None) -> None:
        self.mod, self.watch = mod, watch
        self.values: dict[rx.Var, Any] = {}
        self.dims: dict[PrimVar, int] = {}

    def run(self, func: rx.Function, args: Any) -> Any:
        if len(args) != len(func.params):
            raise RuntimeInputError(
                f"{len(args)} arguments for {len(func.params)} parameters: "
                f"{', '.join(p.name_hint for p in func.params)}"
            )
        pairs = list(zip(func.params, args, strict=True))
        for param, arg in pairs:
            self.bind(param.struct_info, arg)
        for param, arg in pairs:
            self.check(param.struct_info, arg, param.name_hint)
            self.values[param] = arg
        return self.sequence(func.body)

    def sequence(self, seq: rx.SeqExpr) -> Any:
        for binding in seq.bindings:
            value = self.value(binding.value)
            if isinstance(binding, rx.MatchCast):
                self.bind(binding.struct_info, value)
                self.check(binding.struct_info, value, binding.var.name_hint)
            self.values[binding.var] = value
            if self.watch is not None:
                self.watch(binding.var, value)
        return self.leaf(seq.body)

    def leaf(self, expr: Any) -> Any:
        if isinstance(expr, rx.Var):
            return self.values[expr]
        if isinstance(expr, rx.Tuple):
            return tuple(map(self.leaf, expr.fields))
        if isinstance(expr, GlobalVar | rx.ExternFunc | rx.Function | rx.Op):
            return expr
        return value_of(expr, self.leaf, self.dims)

    def value(self, expr: Any) -> Any:
        if isinstance(expr, rx.Call):
            return self.call(expr)
        if isinstance(expr, rx.If):
            taken = bool(np.asarray(self.leaf(expr.cond)))
            return self.sequence(expr.true_branch if taken else expr.false_branch)  # type: ignore[arg-type]
        if isinstance(expr, rx.TupleGetItem):
            return self.leaf(expr.tuple_value)[expr.index]
        if isinstance(expr, rx.Function):
            return lambda *args: self.closure(expr, args)
        return self.leaf(expr)

    def closure(self, func: rx.Function, args: Any) -> Any:
        """A local function sees what is bound around it."""
        inner = _Frame(self.mod, self.watch)
        inner.values.update(self.values)
        inner.dims.update(self.dims)
        return inner.run(func, args)

    def call(self, call: rx.Call) -> Any:
        op = call.op
        if isinstance(op, rx.Op):
            special = _CONVENTIONS.get(op.name)
            return (
                call_numpy(call, self.leaf, self.dims) if special is None else special(self, call)
            )
        args = [self.leaf(a) for a in call.args]
        return self.apply(op, args)

    def apply(self, op: Any, args: list[Any]) -> Any:
        """Call a function of the module, a packed function or a closure."""
        if isinstance(op, rx.ExternFunc):
            return _packed(op)(*args)
        if isinstance(op, GlobalVar):
            callee = self.mod[op]
            if isinstance(callee, PrimFunc):
                result = run_prim_func(callee, args)
                return () if result is None else result
            return (
                _packed(callee)(*args)
                if isinstance(callee, rx.ExternFunc)
                else self.enter(callee, args)
            )
        found = self.leaf(op) if isinstance(op, rx.Var) else op
        return found(*args) if callable(found) else self.enter(found, args)

    def enter(self, func: rx.Function, args: list[Any]) -> Any:
        return _Frame(self.mod, self.watch).run(func, args)

    def call_tir(self, call: rx.Call) -> Any:
        """Allocate the results, then run the loops or the packed function."""
        infos = parts_of(call.sinfo_args[0])
        given: Any = call.args[1]
        inputs = [
            self.leaf(a) if isinstance(a.struct_info, PrimStructInfo) else np.asarray(self.leaf(a))
            for a in given.fields
        ]
        places = [-1] * len(infos)
        if call.op.name == "relax.call_tir_inplace":  # type: ignore[union-attr]
            places = list(call.attrs["inplace_indices"])
            inputs = [a.copy() if i in places else a for i, a in enumerate(inputs)]
        outputs = [
            self.empty(info) if place < 0 else inputs[place]
            for info, place in zip(infos, places, strict=True)
        ]
        scalars = self.leaf(call.args[2]) if len(call.args) > 2 else ()
        written = [o for o, place in zip(outputs, places, strict=True) if place < 0]
        self.apply(call.args[0], [*inputs, *written, *scalars])
        several = isinstance(call.sinfo_args[0], TupleStructInfo)
        return tuple(outputs) if several else outputs[0]

    def call_pure_packed(self, call: rx.Call) -> Any:
        """A packed function, declared free of effects."""
        return self.apply(call.args[0], [self.leaf(a) for a in call.args[1:]])

    def call_inplace_packed(self, call: rx.Call) -> Any:
        """A packed function that writes into copies of arguments, which are its results."""
        args = [self.leaf(a) for a in call.args[1:]]
        places = [i for i in call.attrs["inplace_indices"] if i >= 0]
        for i in places:
            args[i] = np.array(args[i]) if isinstance(args[i], np.ndarray) else args[i]
        found = self.apply(call.args[0], args)
        if found is not None:
            return found
        written = tuple(args[i] for i in places)
        return written[0] if len(written) == 1 else written

    def make_closure(self, call: rx.Call) -> Any:
        """A function of the module that holds its last arguments."""
        held = self.leaf(call.args[1])
        return lambda *args: self.apply(call.args[0], [*args, *held])

    def invoke_closure(self, call: rx.Call) -> Any:
        """A closure and a tuple of arguments."""
        return self.apply(call.args[0], list(self.leaf(call.args[1])))

    def assert_op(self, call: rx.Call) -> Any:
        """Stops where the condition does not hold."""
        held, text, *values = (self.leaf(a) for a in call.args)
        if not bool(np.asarray(held)):
            raise ExecutionError(f"assert_op: {text.format(*values)}" if text else "assert_op")
        return ()

    def call_builtin(self, call: rx.Call) -> Any:
        """A builtin that runs functions of the module: those of CUDA graphs run them as they are;
        any other is a packed function.
        """
        builtin: Any = call.args[0]
        args = self.leaf(call.args[1])
        if builtin.global_symbol == "vm.builtin.cuda_graph.get_cached_alloc":
            return self.apply(args[0], [])
        if builtin.global_symbol == "vm.builtin.cuda_graph.run_or_capture":
            return self.apply(args[0], list(args[1]))
        return self.apply(builtin, [self.mod, *args])

    def empty(self, info: Any) -> np.ndarray:
        """Memory for a result."""
        shape = [scalar_of(d, self.dims) for d in info.dims]
        return np.zeros(shape, info.dtype.numpy)

    # matching ------------------------------------------------------------------------------------

    def bind(self, info: Any, value: Any) -> None:
        """Symbolic dimensions that `info` defines are those of the value."""
        if isinstance(info, TupleStructInfo):
            for part, each in zip(info.fields, value, strict=True):
                self.bind(part, each)
            return
        for dim, size in zip(*_dims(info, value), strict=False):
            if isinstance(dim, PrimVar):
                self.dims.setdefault(dim, int(size))

    def check(self, info: Any, value: Any, name: str) -> None:
        """The value is of that struct info."""
        if isinstance(info, TupleStructInfo):
            for i, (part, each) in enumerate(zip(info.fields, value, strict=True)):
                self.check(part, each, f"{name}[{i}]")
            return
        if isinstance(info, TensorStructInfo):
            _check_tensor(info, np.asarray(value), name)
        for axis, (dim, size) in enumerate(zip(*_dims(info, value), strict=True)):
            wanted = dim.value if isinstance(dim, IntImm) else scalar_of(dim, self.dims)
            if wanted != size:
                raise RuntimeInputError(f"{name}: dimension {axis} is {size}, expected {wanted}")


def _dims(info: Any, value: Any) -> tuple[Any, Any]:
    """The dimensions that a struct info gives, and those of a value."""
    if isinstance(info, TensorStructInfo) and info.dims is not None:
        return info.dims, np.shape(value)
    if isinstance(info, ShapeStructInfo) and info.values is not None:
        return info.values, tuple(value)
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return (info.value,), (value,)
    return (), ()


def _check_tensor(info: TensorStructInfo, value: np.ndarray, name: str) -> None:
    if info.dtype is not None and value.dtype != info.dtype.numpy:
        raise RuntimeInputError(f"{name}: expected {info.dtype}, got {value.dtype}")
    if info.ndim not in (-1, value.ndim):
        raise RuntimeInputError(f"{name}: expected {info.ndim} dimensions, got {value.shape}")


def _packed(func: rx.ExternFunc) -> Callable[..., Any]:
    builtin.register()
    found = get_global_func(func.global_symbol, allow_missing=True)
    if found is None:
        raise ExecutionError(
            f"no packed function {func.global_symbol!r}", hint="mlcnb.register_func(name, f)"
        )
    return found


_CONVENTIONS: dict[str, Callable[[_Frame, rx.Call], Any]] = {
    "relax.call_tir": _Frame.call_tir,
    "relax.call_tir_inplace": _Frame.call_tir,
    "relax.call_dps_packed": _Frame.call_tir,
    "relax.call_pure_packed": _Frame.call_pure_packed,
    "relax.call_inplace_packed": _Frame.call_inplace_packed,
    "relax.assert_op": _Frame.assert_op,
    "relax.call_builtin_with_ctx": _Frame.call_builtin,
    "relax.null_value": lambda _frame, _call: None,
    "relax.make_closure": _Frame.make_closure,
    "relax.invoke_closure": _Frame.invoke_closure,
    "relax.invoke_pure_closure": _Frame.invoke_closure,
}


def assert_same_results(before: Any, after: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Compare two results of `evaluate`, tuples field by field.

    Raises:
        AssertionError: they differ in shape, dtype or by more than the tolerance.
    """
    if isinstance(before, tuple):
        assert isinstance(after, tuple) and len(before) == len(after), (before, after)
        for a, b in zip(before, after, strict=True):
            assert_same_results(a, b, rtol, atol)
        return
    a, b = np.asarray(before), np.asarray(after)
    assert a.shape == b.shape and a.dtype == b.dtype, f"{a.dtype}{a.shape} != {b.dtype}{b.shape}"
    np.testing.assert_allclose(b, a, rtol=rtol, atol=atol)
