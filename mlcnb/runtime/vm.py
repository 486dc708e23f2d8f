"""The virtual machine: a graph function run binding by binding, in Python, over compiled kernels.

    vm = VirtualMachine(ex, cpu())
    vm["main"](x)                        the result, as fast as `ex["main"](x)`
    for step in vm.steps("main", x):     step.name, step.value, step.seconds, step.kernel
        ...

Its steps are for looking, and for graphs whose sizes are only known as they run; another one is
called as one native function (`runtime.graph_call`), with its branches and loops, and so is each
stretch between such sizes, with the same kernels and the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

from mlcnb.core import registry
from mlcnb.core.errors import RuntimeInputError
from mlcnb.ir.external import external_function
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.variables import free_vars
from mlcnb.runtime import builtin, stretches
from mlcnb.runtime.evaluator import BenchmarkResult, evaluator
from mlcnb.runtime.exec_builder import RegisterProgram
from mlcnb.runtime.frame import Frame, Step, bind_arguments
from mlcnb.runtime.graph_call import KEPT, Kinds, kinds_of
from mlcnb.runtime.shapes import Dims
from mlcnb.runtime.tensor import (
    as_tensors,
    flatten,
    fresh,
    has_tensor,
    like_input,
    like_input_of_machine,
)

__all__ = ["Frame", "Step", "VirtualMachine", "bind_arguments"]

builtin.register()


class VirtualMachine:
    """Runs the functions of an executable. TVM's name and calling convention.

    native: False, and what is straight runs step by step too. memory_cfg and profile are TVM's, and
    change nothing: memory is planned before, and every machine can `profile`.
    """

    def __init__(
        self,
        executable: Any,
        device: Any = None,
        memory_cfg: Any = None,
        profile: bool = False,
        *,
        native: bool = True,
    ) -> None:
        self.executable = executable
        self.device = device
        self.native = native
        self._saved: dict[str, Callable[[], Any]] = {}
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._results: dict[str, Any] = {}
        self._pieces: dict[rx.SeqExpr, stretches.Pieces] = {}
        self._captured: dict[rx.Function, list[rx.Var]] = {}
        #: function -> kinds of plain arrays that it was run on -> the sizes that they fix
        self._met: dict[rx.Function, dict[Kinds, Dims]] = {}
        #: whether Python functions that a program calls are handed Tensors, as its caller did
        self.tensors = False
        #: what is called before and after every kernel; None: nobody looks on
        self.instrument: Callable[..., Any] | None = None

    def set_instrument(self, instrument: Callable[..., Any] | None) -> None:
        """Look on: `instrument(kernel, name, before_run, None, *args)` is called before and after
        every kernel of a graph function, with its inputs and then its outputs, Tensors that lie
        where the kernel works. What it gives before (`relax.VMInstrumentReturnKind`) may skip the
        kernel, whose outputs are then what their memory held. None: nobody looks on.

        The program runs step by step from then on. Any shapes and dtypes; nothing is refused.
        """
        self.instrument = instrument
        self.native = instrument is None

    def handing(self, args: tuple[Any, ...]) -> VirtualMachine:
        """The machine that hands on the caller's kind of array: this one, or one with Tensors."""
        if self.tensors or not has_tensor(args):
            return self
        made = copy(self)
        made.tensors = True
        return made

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name in self._saved:
            return self._saved[name]
        if isinstance(self.executable, RegisterProgram):
            return lambda *args: self.executable.run(name, args, self)
        function = self._function(name)

        def run(*args: Any) -> Any:
            if self.native:
                return like_input_of_machine(self.executable.run(name, args, {}), args)
            return like_input_of_machine(self.invoke(function, name, args), args)

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

    def profile(self, func_name: str, *args: Any, **options: Any) -> Any:
        """The time of each kernel of a graph function on inputs: as `mlcnb.profile`, by name.

        Raises:
            RuntimeInputError: there is no such graph function, or inputs do not fit.
        """
        from mlcnb.runtime.profile import profile

        self._function(func_name)
        entered = copy(self.executable)
        entered.entry = func_name
        return profile(entered, *args, **options)

    def invoke_closure(self, closure: Any, *args: Any) -> Any:
        """Call a closure that a graph function gave."""
        return like_input(closure(*args), args)

    def save_function(
        self,
        func_name: str,
        saved_name: str,
        *args: Any,
        include_return: bool = True,
        **named: Any,
    ) -> None:
        """Name a call with its arguments: `vm[saved_name]()` runs it again.

        include_return: False, where nobody wants its result.
        """
        function = self[func_name]
        kept = self._in_order(func_name, args, named)

        def run() -> Any:
            result = function(*kept)
            return result if include_return else None

        self._saved[saved_name] = run

    def set_input(self, func_name: str, *args: Any, **named: Any) -> None:
        """Keep the arguments of the next `invoke_stateful`."""
        self._inputs[func_name] = self._in_order(func_name, args, named)

    def _in_order(
        self, func_name: str, args: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """The arguments of a call as its parameters stand; those by name come after the others."""
        if not named:
            return tuple(args)
        names = [p.name_hint for p in self._function(func_name).params]
        unknown = [n for n in named if n not in names[len(args) :]]
        if unknown:
            raise RuntimeInputError(
                f"{func_name} has no input {unknown[0]!r}"
                + (" that is left" if unknown[0] in names else ""),
                hint=f"its inputs are {', '.join(names)}",
            )
        missing = [n for n in names[len(args) :] if n not in named]
        if missing:
            raise RuntimeInputError(
                f"{func_name} wants an input {missing[0]!r}", hint="give all of its inputs"
            )
        return (*args, *(named[n] for n in names[len(args) :]))

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
        """The result of the last `invoke_stateful`, as Tensors: TVM's way, whatever came in.

        Raises:
            RuntimeInputError: there was none.
        """
        if func_name not in self._results:
            raise RuntimeInputError(
                f"{func_name}: there are no outputs",
                hint=f"vm.invoke_stateful({func_name!r}) first",
            )
        return as_tensors(self._results[func_name])

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
        machine = self.handing(args)
        return like_input(machine.result(machine.frame(function, name, args)), args)

    def result(self, frame: Frame) -> Any:
        """Run a call to its end and give its result, in memory of its own."""
        inputs = flatten(frame.env.values())
        return fresh(frame.run(), inputs)

    def first(
        self, function: rx.Function, args: tuple[Any, ...], values: list[Any], dims: Dims
    ) -> Any:
        """`result` on arguments that were checked: of such plain arrays `again` knows.

        values, dims: what `bind_arguments` made of them.
        """
        kinds = kinds_of(args)
        if kinds and all(v is a for v, a in zip(values, args, strict=True)):
            met = self._met.setdefault(function, {})
            if len(met) >= KEPT:
                met.clear()
            met[kinds] = dict(dims)
        machine = self.handing(args)
        return machine.result(Frame(machine, function, values, dims))

    def again(self, function: rx.Function) -> Callable[..., Any]:
        """A function on plain arrays of kinds that were checked before; NotImplemented for others:
        `result` without what is known of them.
        """
        met = self._met.setdefault(function, {})

        def run(*args: Any) -> Any:
            kinds = kinds_of(args)
            dims = met.get(kinds) if kinds else None
            if dims is None:
                return NotImplemented
            return self.result(Frame(self, function, list(args), dict(dims)))

        return run

    def steps(self, name: str, *args: Any) -> Iterator[Step]:
        """Run a function binding by binding: a Step after each."""
        return self.frame(self._function(name), name, args).steps()

    def frame(self, function: rx.Function, name: str, args: tuple[Any, ...]) -> Frame:
        """A call of a function that has not begun: arguments checked, sizes bound."""
        values, dims = bind_arguments(function, name, args)
        return Frame(self, function, values, dims)

    def pieces(self, seq: rx.SeqExpr, frame: Frame) -> stretches.Pieces:
        """What a sequence is run as: its bindings, straight stretches of them as one."""
        if not self.native:
            return list(seq.bindings)
        found = self._pieces.get(seq)
        if found is None:
            ex = self.executable
            found = stretches.pieces(seq, frame.dims, ex.kernels, ex.mod.functions)
            self._pieces[seq] = found
        return found

    def captured(self, function: rx.Function) -> list[rx.Var]:
        """What a local function sees of the one around it, itself included."""
        if function not in self._captured:
            self._captured[function] = free_vars(function)
        return self._captured[function]
