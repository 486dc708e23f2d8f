"""One call of a graph function in the virtual machine: values of variables, what is still to run.

lv = call_tir(f, x)      rule by rule, or with what follows as one native call (`stretches`)
if c: …                  the branch that is taken, in the same frame
return loop(i + 1, lv)   the last thing that a function does: its frame ends first, so that a
                         function that calls itself there is a loop, however often it turns
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlcnb.core import registry
from mlcnb.core.errors import ExecutionError, RuntimeInputError
from mlcnb.core.text import kind_of
from mlcnb.ir.expr import GlobalVar
from mlcnb.relax import expr as rx
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo
from mlcnb.runtime import kernel_call
from mlcnb.runtime.shapes import (
    Dims,
    check_sizes,
    evaluate,
    is_size_check,
    literal,
    match,
    match_all,
)
from mlcnb.runtime.tensor import as_array, from_numbers, on_the_gpu
from mlcnb.runtime.vm_calls import OPS, as_said, by_meaning, contiguous, naming, null, packed
from mlcnb.tir.function import PrimFunc

if TYPE_CHECKING:
    from mlcnb.runtime.open_steps import Step as Prepared
    from mlcnb.runtime.stretches import Stretch
    from mlcnb.runtime.vm import VirtualMachine


class Step(NamedTuple):
    """One binding that has run: its name, value, seconds, and kernel, if any."""

    name: str
    value: Any
    seconds: float
    kernel: str | None


@dataclass
class Closure:
    """A function value: the function, and what it sees beside its arguments.

    frame: of the function around a local one, whose variables and sizes it sees; last: arguments
    that `make_closure` has bound, which follow those of the call.
    """

    function: Any
    frame: Frame | None = None
    last: tuple[Any, ...] = ()


def bind_arguments(
    function: rx.Function,
    name: str,
    args: tuple[Any, ...],
    known: Dims | None = None,
    on_gpu: bool = False,
) -> tuple[list[Any], Dims]:
    """The arguments as arrays, and the symbolic sizes that they fix (beside those `known`).

    on_gpu: arrays in the memory of a GPU stay there.

    Raises:
        RuntimeInputError: wrong number, dtype or shape, naming the parameter.
    """
    if len(args) != len(function.params):
        count = len(function.params)
        wanted = ", ".join(p.name_hint for p in function.params) or "none"
        raise RuntimeInputError(
            f"{name} takes {count} input{'' if count == 1 else 's'} ({wanted}), got {len(args)}",
            hint="; ".join(f"{p.name_hint}: {p.struct_info}" for p in function.params) or None,
        )
    dims: Dims = dict(known or {})
    pairs = list(zip(function.params, args, strict=True))
    values = [_argument(arg, param.struct_info, param.name_hint, on_gpu) for param, arg in pairs]
    infos = [(p.struct_info, f"input {p.name_hint!r}") for p in function.params]
    match_all(((v, *info) for v, info in zip(values, infos, strict=True)), dims)
    return values, dims


def _argument(arg: Any, info: Any, name: str, on_gpu: bool) -> Any:
    """An argument as the program takes it: arrays for tensors, tuples for tuples."""
    if isinstance(info, TensorStructInfo):
        if on_gpu and kernel_call.is_on_gpu(arg):
            return on_the_gpu(arg, name)
        if isinstance(arg, list | tuple | int | float | complex):
            return from_numbers(arg, info.dtype.numpy if info.dtype else None, name)
        return as_array(arg, name)
    if isinstance(info, TupleStructInfo) and isinstance(arg, list | tuple):
        if len(arg) == len(info.fields):
            fields = zip(arg, info.fields, strict=True)
            return tuple(_argument(a, f, f"{name}[{i}]", on_gpu) for i, (a, f) in enumerate(fields))
    return arg


class Frame:
    """One call of one function: values of variables, sizes, and the bindings still to run."""

    def __init__(
        self, vm: VirtualMachine, function: rx.Function, values: list[Any], dims: Dims
    ) -> None:
        self.vm = vm
        self.function = function
        self.dims = dims
        self.env: dict[rx.Var, Any] = dict(zip(function.params, values, strict=True))
        self.kernel: str | None = None
        self.result: Any = None

    def run(self) -> Any:
        """Run all bindings and give the result, which may lie in an input or a constant."""
        if self.vm.native:
            return finished(self.vm, self.ended(self.function.body))
        for _ in self.steps():
            pass
        return self.result

    def steps(self) -> Iterator[Step]:
        """Run the bindings in order: a Step after each; in the end `result` has the result."""
        for binding in self.function.body.bindings:
            start = time.perf_counter()
            self.kernel = None
            self.bind(binding)
            value, seconds = self.env[binding.var], time.perf_counter() - start
            yield Step(binding.var.name_hint, value, seconds, self.kernel)
        self.result = self.value(self.function.body.body)

    def ended(self, seq: rx.SeqExpr) -> Any:
        """The result of a sequence that is the last thing that the function does: a value, or the
        call that gives it.
        """
        parts = self.vm.pieces(seq, self)
        last = parts[-1] if parts else None
        value = last.value if isinstance(last, rx.VarBinding) and last.var is seq.body else None
        if not isinstance(value, rx.If | rx.Call):
            self.pieces(parts)
            return self.value(seq.body)
        self.pieces(parts[:-1])
        if isinstance(value, rx.If):
            return self.tail(self.taken(value))
        return _tail_call(self, value)

    def tail(self, x: Any) -> Any:
        """As `ended`, of a SeqExpr or a plain expression."""
        return self.ended(x) if isinstance(x, rx.SeqExpr) else self.value(x)

    def pieces(self, parts: Sequence[rx.Binding | Stretch | Prepared]) -> None:
        """Run bindings, such that were prepared, and stretches of them."""
        for part in parts:
            if isinstance(part, rx.Binding):
                self.bind(part)
            else:
                part(self)

    def bind(self, binding: rx.Binding) -> None:
        """Run one binding."""
        value = self.value(binding.value)
        if isinstance(binding, rx.MatchCast):
            self.cast(value, binding)
        self.env[binding.var] = value

    def cast(self, value: Any, binding: rx.MatchCast) -> None:
        """Check a value against what a match_cast says of it, binding the sizes that it names."""
        if is_size_check(binding, self.dims):
            check_sizes(binding, self.dims)
            return
        try:
            match(value, binding.struct_info, self.dims, binding.var.name_hint)
        except RuntimeInputError as error:
            raise ExecutionError(f"match_cast of {error.message}") from None

    def value(self, x: Any) -> Any:
        """The value of an expression."""
        rule = _VALUES.get(type(x))
        if rule is None:
            raise ExecutionError(f"the virtual machine has no rule for {type(x).__name__}")
        return rule(self, x)

    def taken(self, x: rx.If) -> Any:
        """The branch that the condition says."""
        is_true = bool(np.asarray(self.value(x.cond)))
        return x.true_branch if is_true else x.false_branch

    def branch(self, x: Any) -> Any:
        """The value of a SeqExpr or a plain expression."""
        if not isinstance(x, rx.SeqExpr):
            return self.value(x)
        self.pieces(self.vm.pieces(x, self))
        return self.value(x.body)


def _variable(frame: Frame, x: rx.Var) -> Any:
    return frame.env[x]


def _constant(frame: Frame, x: rx.Constant) -> Any:
    """The constant's array, seen so that nobody can write to it; kernels want it in one piece."""
    whole = x.data.flags.c_contiguous
    data = x.data.view() if whole else np.ascontiguousarray(x.data)
    data.flags.writeable = False
    return data


def _tuple(frame: Frame, x: rx.Tuple) -> Any:
    return tuple(frame.value(field) for field in x.fields)


def _item(frame: Frame, x: rx.TupleGetItem) -> Any:
    return frame.value(x.tuple_value)[x.index]


def _shape(frame: Frame, x: rx.ShapeExpr) -> Any:
    return tuple(evaluate(d, frame.dims) for d in x.values)


def _literal(frame: Frame, x: Any) -> Any:
    return literal(x, frame.dims)


def _function_value(frame: Frame, x: Any) -> Any:
    return Closure(x, frame) if isinstance(x, rx.Function) else x


def _global(frame: Frame, x: GlobalVar) -> Any:
    return frame.vm.executable.mod[x]


def _if(frame: Frame, x: rx.If) -> Any:
    return frame.branch(frame.taken(x))


def _call(frame: Frame, x: rx.Call) -> Any:
    if isinstance(x.op, rx.Op):
        rule = _OPS.get(x.op.name)
        return rule(frame, x) if rule is not None else by_meaning(frame, x)
    if isinstance(x.op, GlobalVar):
        return _call_function(frame, frame.vm.executable.mod[x.op], x)
    if isinstance(x.op, rx.ExternFunc):
        return packed(frame, x.op.global_symbol, x.args, x.sinfo_args)
    if isinstance(x.op, rx.Var):
        return _call_function(frame, frame.env[x.op], x)
    raise ExecutionError(f"cannot call {x.op!r}")


def _call_function(frame: Frame, function: Any, x: rx.Call) -> Any:
    if isinstance(function, rx.ExternFunc):
        return packed(frame, function.global_symbol, x.args, x.sinfo_args)
    args = tuple(frame.value(a) for a in x.args)
    if isinstance(function, PrimFunc) and isinstance(x.op, GlobalVar):
        with naming(x.span):
            result = kernel_call.run(frame.vm.executable.kernels[x.op.name_hint], list(args))
        frame.kernel = x.op.name_hint
        return () if result is None else result
    result = apply(frame.vm, function, args)
    frame.kernel = f"function: {getattr(x.op, 'name_hint', 'a closure')}"
    return result


class TailCall(NamedTuple):
    """A call that is all that is left to do of a frame."""

    function: Any
    args: tuple[Any, ...]


def _tail_call(frame: Frame, x: rx.Call) -> Any:
    """A call whose value is the function's result: of a graph function it is left to the caller."""
    function: Any = None
    if isinstance(x.op, GlobalVar):
        function = frame.vm.executable.mod[x.op]
    elif isinstance(x.op, rx.Var):
        function = frame.env[x.op]
    if isinstance(function, rx.Function) or (isinstance(function, Closure) and function.frame):
        return TailCall(function, tuple(frame.value(a) for a in x.args))
    return frame.value(x)


def finished(vm: VirtualMachine, result: Any) -> Any:
    """The value of what a frame ended with: calls that are left to do are done in turn."""
    while isinstance(result, TailCall):
        frame = _called(vm, *result)
        result = frame.ended(frame.function.body)
    return result


def apply(vm: VirtualMachine, function: Any, args: tuple[Any, ...]) -> Any:
    """The result of a function value on these arguments.

    Raises:
        ExecutionError: it is no function of graphs.
    """
    while isinstance(function, Closure) and function.frame is None:
        function, args = function.function, (*args, *function.last)
    if isinstance(function, rx.Function | Closure):
        return finished(vm, TailCall(function, args))
    if isinstance(function, PrimFunc):
        raise ExecutionError("a PrimFunc is called through call_tir")
    if callable(function):
        return contiguous(function(*args))
    raise ExecutionError(f"{kind_of(function)} is called, which is no function")


def _called(vm: VirtualMachine, function: Any, args: tuple[Any, ...]) -> Frame:
    """The frame of a call of a graph function or a closure, which has not begun."""
    around = function.frame if isinstance(function, Closure) else None
    if around is None:
        return vm.frame(function, "a called function", args)
    local = function.function
    values, dims = bind_arguments(local, "a local function", args, around.dims)
    frame = Frame(vm, local, values, dims)
    for var in vm.captured(local):
        frame.env[var] = around.env[var]
    return frame


def _make_closure(frame: Frame, x: rx.Call) -> Any:
    function, last = (frame.value(a) for a in x.args)
    return Closure(function, None, last if isinstance(last, tuple) else (last,))


def _invoke_closure(frame: Frame, x: rx.Call) -> Any:
    function, args = (frame.value(a) for a in x.args)
    result = apply(frame.vm, function, args if isinstance(args, tuple) else (args,))
    return as_said(frame, result, x.sinfo_args, "the result of a closure")


def _call_builtin(frame: Frame, x: rx.Call) -> Any:
    """A builtin that is handed the machine it runs in: one of `_WITH_FRAME`, or a registered
    function, which gets the virtual machine first.
    """
    name = x.args[0].global_symbol  # type: ignore[attr-defined]
    args = frame.value(x.args[1])
    rule = _WITH_FRAME.get(name)
    if rule is not None:
        result = rule(frame.vm, *args)
    else:
        function: Any = registry.get_global_func(name)
        result = contiguous(function(frame.vm, *args))
    frame.kernel = f"builtin: {name}"
    return as_said(frame, result, x.sinfo_args, f"the result of {name}")


def _run_or_capture(vm: VirtualMachine, function: Any, args: Any, *_: Any) -> Any:
    """A stretch of kernels: run, as there is no graph that could be replayed."""
    return apply(vm, function, args)


def _cached_alloc(vm: VirtualMachine, function: Any, *_: Any) -> Any:
    """Storage that a captured graph keeps: new, as nothing is captured."""
    return apply(vm, function, ())


#: builtins that call functions of the module
_WITH_FRAME: dict[str, Callable[..., Any]] = {
    "vm.builtin.cuda_graph.run_or_capture": _run_or_capture,
    "vm.builtin.cuda_graph.get_cached_alloc": _cached_alloc,
}
#: calls of closures and of the machine, beside those of `vm_calls`
_CLOSURES: dict[str, Callable[[Frame, rx.Call], Any]] = {
    "relax.make_closure": _make_closure,
    "relax.invoke_closure": _invoke_closure,
    "relax.invoke_pure_closure": _invoke_closure,
    "relax.call_builtin_with_ctx": _call_builtin,
}
_OPS = {**OPS, **_CLOSURES}
_VALUES: dict[type, Callable[[Frame, Any], Any]] = {
    rx.Var: _variable,
    rx.DataflowVar: _variable,
    rx.Constant: _constant,
    rx.Tuple: _tuple,
    rx.TupleGetItem: _item,
    rx.ShapeExpr: _shape,
    rx.PrimValue: _literal,
    rx.StringImm: _literal,
    rx.DataTypeImm: _literal,
    rx.Function: _function_value,
    rx.ExternFunc: _function_value,
    GlobalVar: _global,
    rx.Op: null,
    rx.If: _if,
    rx.Call: _call,
    rx.SeqExpr: Frame.branch,
}
