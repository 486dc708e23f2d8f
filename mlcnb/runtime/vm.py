"""The virtual machine: a graph function run binding by binding, in Python, over compiled kernels.

    vm = VirtualMachine(ex, cpu())
    vm["main"](x)                        the result, as fast as `ex["main"](x)`
    for step in vm.steps("main", x):     step.name, step.value, step.seconds, step.kernel
        ...

Its steps are for looking and for graphs whose sizes are only known as they run; a straight graph is
called as one native function (`runtime.graph_call`), with the same kernels and the same results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mlcnb.core import registry
from mlcnb.core.errors import ExecutionError, RuntimeInputError
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.external import external_function
from mlcnb.relax import expr as rx
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo
from mlcnb.runtime import builtin, kernel_call
from mlcnb.runtime.evaluator import BenchmarkResult, evaluator
from mlcnb.runtime.shapes import (
    Dims,
    check_sizes,
    evaluate,
    is_size_check,
    match,
    match_all,
)
from mlcnb.runtime.tensor import (
    as_array,
    flatten,
    fresh,
    from_numbers,
    like_input,
)
from mlcnb.runtime.vm_calls import OPS, as_said, by_meaning, contiguous, naming, null, packed
from mlcnb.tir.function import PrimFunc

builtin.register()


class Step(NamedTuple):
    """One binding that has run: its name, value, seconds, and kernel, if any."""

    name: str
    value: Any
    seconds: float
    kernel: str | None


class VirtualMachine:
    """Runs the functions of an executable. TVM's name and calling convention.

    native: False, and straight functions run step by step too.
    """

    def __init__(self, executable: Any, device: Any = None, *, native: bool = True) -> None:
        self.executable = executable
        self.device = device
        self.native = native
        self._saved: dict[str, Callable[[], Any]] = {}
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._results: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name in self._saved:
            return self._saved[name]
        function = self._function(name)

        def run(*args: Any) -> Any:
            if self.native:
                return self.executable.run(name, args, {})
            return self.invoke(function, name, args)

        run.__name__ = name
        return run

    @property
    def module(self) -> Any:
        """The executable that it runs, by TVM's name."""
        return self.executable

    def get_function(self, name: str) -> Callable[..., Any]:
        """`vm[name]`"""
        return self[name]

    def time_evaluator(
        self, func_name: str, dev: Any = None, number: int = 10, repeat: int = 1, **options: Any
    ) -> Callable[..., BenchmarkResult]:
        """A function that times a graph function (`mlcnb.runtime.evaluator`)."""
        return evaluator(self[func_name], number, repeat, **options)

    def save_function(
        self, func_name: str, saved_name: str, *args: Any, include_return: bool = True
    ) -> None:
        """Name a call with its arguments: `vm[saved_name]()` runs it again.

        include_return: False, where nobody wants its result.
        """
        function = self[func_name]
        kept = args

        def run() -> Any:
            result = function(*kept)
            return result if include_return else None

        self._saved[saved_name] = run

    def set_input(self, func_name: str, *args: Any, **named: Any) -> None:
        """Keep the arguments of the next `invoke_stateful`."""
        names = [p.name_hint for p in self._function(func_name).params]
        unknown = [n for n in named if n not in names]
        if unknown:
            raise RuntimeInputError(
                f"{func_name} has no input {unknown[0]!r}",
                hint=f"its inputs are {', '.join(names)}",
            )
        rest = [named[n] for n in names[len(args) :] if n in named]
        self._inputs[func_name] = (*args, *rest)

    def invoke_stateful(self, func_name: str) -> None:
        """Run a function on what `set_input` kept; `get_outputs` has the result.

        Raises:
            RuntimeInputError: `set_input` was not called.
        """
        if func_name not in self._inputs:
            raise RuntimeInputError(
                f"{func_name}: no inputs are set", hint=f"vm.set_input({func_name!r}, …) first"
            )
        self._results[func_name] = self[func_name](*self._inputs[func_name])

    def get_outputs(self, func_name: str) -> Any:
        """The result of the last `invoke_stateful`.

        Raises:
            RuntimeInputError: there was none.
        """
        if func_name not in self._results:
            raise RuntimeInputError(
                f"{func_name}: there are no outputs",
                hint=f"vm.invoke_stateful({func_name!r}) first",
            )
        return self._results[func_name]

    def _function(self, name: str) -> rx.Function:
        function = self.executable.mod[name]
        if not isinstance(function, rx.Function):
            raise RuntimeInputError(
                f"{name!r} is no graph function", hint="call ex[...] for kernels"
            )
        return function

    def packed(self, name: str) -> Callable[..., Any]:
        """The function that a call_dps_packed names: of the module's libraries, else registered.

        Raises:
            MLCError: there is none.
        """
        found = external_function(self.executable.mod, name)
        return found or registry.get_global_func(name)  # type: ignore[return-value]

    def invoke(self, function: rx.Function, name: str, args: tuple[Any, ...]) -> Any:
        """Run a function to its end and give its result, in memory of its own."""
        frame = self.frame(function, name, args)
        inputs = flatten(frame.env.values())
        result = fresh(frame.run(), inputs)
        return like_input(result, args)

    def steps(self, name: str, *args: Any) -> Iterator[Step]:
        """Run a function binding by binding: a Step after each."""
        return self.frame(self._function(name), name, args).steps()

    def frame(self, function: rx.Function, name: str, args: tuple[Any, ...]) -> Frame:
        """A call of a function that has not begun: arguments checked, sizes bound."""
        values, dims = bind_arguments(function, name, args)
        return Frame(self, function, values, dims)


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
    function: rx.Function, name: str, args: tuple[Any, ...], known: Dims | None = None
) -> tuple[list[Any], Dims]:
    """The arguments as arrays, and the symbolic sizes that they fix (beside those `known`).

    Raises:
        RuntimeInputError: wrong number, dtype or shape, naming the parameter.
    """
    if len(args) != len(function.params):
        wanted = ", ".join(p.name_hint for p in function.params) or "none"
        raise RuntimeInputError(
            f"{name} takes {len(function.params)} inputs ({wanted}), got {len(args)}"
        )
    dims: Dims = dict(known or {})
    pairs = list(zip(function.params, args, strict=True))
    values = [_argument(arg, param.struct_info, param.name_hint) for param, arg in pairs]
    infos = [(p.struct_info, f"input {p.name_hint!r}") for p in function.params]
    match_all(((v, *info) for v, info in zip(values, infos, strict=True)), dims)
    return values, dims


def _argument(arg: Any, info: Any, name: str) -> Any:
    """An argument as the program takes it: arrays for tensors, tuples for tuples."""
    if isinstance(info, TensorStructInfo):
        if isinstance(arg, list | tuple | int | float | complex):
            return from_numbers(arg, info.dtype.numpy if info.dtype else None, name)
        return as_array(arg, name)
    if isinstance(info, TupleStructInfo) and isinstance(arg, list | tuple):
        if len(arg) == len(info.fields):
            fields = zip(arg, info.fields, strict=True)
            return tuple(_argument(a, f, f"{name}[{i}]") for i, (a, f) in enumerate(fields))
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
        for _ in self.steps():
            pass
        return self.result

    def steps(self) -> Iterator[Step]:
        """Run the bindings in order; the result stands in `result` at the end."""
        yield from self.sequence(self.function.body)
        self.result = self.value(self.function.body.body)

    def sequence(self, body: rx.SeqExpr) -> Iterator[Step]:
        """Run the bindings of a SeqExpr: a Step after each."""
        for binding in body.bindings:
            start = time.perf_counter()
            self.kernel = None
            value = self.value(binding.value)
            if isinstance(binding, rx.MatchCast):
                self.cast(value, binding)
            self.env[binding.var] = value
            yield Step(binding.var.name_hint, value, time.perf_counter() - start, self.kernel)

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

    def branch(self, x: Any) -> Any:
        """The value of a SeqExpr or a plain expression."""
        if isinstance(x, rx.SeqExpr):
            for _ in self.sequence(x):
                pass
            return self.value(x.body)
        return self.value(x)


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


def _scalar(frame: Frame, x: rx.PrimValue) -> Any:
    if x.value.dtype.is_float:
        return float(x.value)  # type: ignore[arg-type]
    return evaluate(x.value, frame.dims)


def _literal(frame: Frame, x: Any) -> Any:
    return x.value


def _function_value(frame: Frame, x: Any) -> Any:
    return Closure(x, frame) if isinstance(x, rx.Function) else x


def _global(frame: Frame, x: GlobalVar) -> Any:
    return frame.vm.executable.mod[x]


def _if(frame: Frame, x: rx.If) -> Any:
    condition = frame.value(x.cond)
    return frame.branch(x.true_branch if bool(np.asarray(condition)) else x.false_branch)


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
            kernel_call.run(frame.vm.executable.kernels[x.op.name_hint], list(args))
        frame.kernel = x.op.name_hint
        return ()
    return apply(frame.vm, function, args)


def apply(vm: VirtualMachine, function: Any, args: tuple[Any, ...]) -> Any:
    """The result of a function value on these arguments.

    Raises:
        ExecutionError: it is no function of graphs.
    """
    if isinstance(function, Closure):
        around, args = function.frame, (*args, *function.last)
        if around is None:
            return apply(vm, function.function, args)
        values, dims = bind_arguments(function.function, "a local function", args, around.dims)
        inner = Frame(vm, function.function, values, dims)
        inner.env = {**around.env, **inner.env}
        return inner.run()
    if isinstance(function, PrimFunc):
        raise ExecutionError("a PrimFunc is called through call_tir")
    if callable(function):
        return contiguous(function(*args))
    if not isinstance(function, rx.Function):
        raise ExecutionError(f"a {type(function).__name__} is called, which is no function")
    return vm.frame(function, "a called function", args).run()


def _make_closure(frame: Frame, x: rx.Call) -> Any:
    function, last = (frame.value(a) for a in x.args)
    return Closure(function, None, last if isinstance(last, tuple) else (last,))


def _invoke_closure(frame: Frame, x: rx.Call) -> Any:
    function, args = (frame.value(a) for a in x.args)
    result = apply(frame.vm, function, args if isinstance(args, tuple) else (args,))
    return as_said(frame, result, x.sinfo_args, "the result of a closure")


#: calls of closures, beside those of `vm_calls`
_CLOSURES: dict[str, Callable[[Frame, rx.Call], Any]] = {
    "relax.make_closure": _make_closure,
    "relax.invoke_closure": _invoke_closure,
    "relax.invoke_pure_closure": _invoke_closure,
}
_OPS = {**OPS, **_CLOSURES}
_VALUES: dict[type, Callable[[Frame, Any], Any]] = {
    rx.Var: _variable,
    rx.DataflowVar: _variable,
    rx.Constant: _constant,
    rx.Tuple: _tuple,
    rx.TupleGetItem: _item,
    rx.ShapeExpr: _shape,
    rx.PrimValue: _scalar,
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
