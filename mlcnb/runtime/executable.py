"""Executables: a compiled module, ready to run, with everything it was made of.

ex = mlcnb.compile(mod, target="llvm")
ex(x)  ex(image=x)        main's result: arrays in, arrays out, one native call
ex(a, b, c)               of a PrimFunc: destination-passing style, c is written to
ex.kernels                name -> kernel, with its schedule, LLVM IR, assembly and size
ex.strip("f"), ex.strips()   what its machine code is made of, how near it comes to the roof
ex.mod                    the module after all graph passes
ex.export_library("model.tar")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mlcnb.core import display
from mlcnb.core.errors import MLCError, RuntimeInputError
from mlcnb.ir.module import IRModule
from mlcnb.ir.pass_context import PassContext
from mlcnb.relax.analysis.struct_info import BaseCheckResult, struct_info_base_check
from mlcnb.relax.expr import Function
from mlcnb.runtime import kernel_call
from mlcnb.runtime.device_graph import DevicePlans
from mlcnb.runtime.direct_call import DirectCall, DirectCalls, of_any
from mlcnb.runtime.evaluator import BenchmarkResult, evaluator
from mlcnb.runtime.graph_call import GraphPlans
from mlcnb.runtime.shapes import match
from mlcnb.runtime.tensor import Tensor, arrays_of, as_array, as_tensors, like_input, on_the_gpu
from mlcnb.runtime.vm import Step, VirtualMachine, bind_arguments
from mlcnb.runtime.vm_calls import contiguous
from mlcnb.target import Target
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc


class Kernels(Mapping[str, Any], display.Shown):
    """The kernels of an executable by name; shows itself as a table."""

    def __init__(self, kernels: Mapping[str, Any]) -> None:
        self._kernels = dict(kernels)

    def __getitem__(self, name: str | int) -> Any:
        if isinstance(name, int):
            return list(self._kernels.values())[name]
        if name not in self._kernels:
            raise MLCError(f"no kernel {name!r}", hint=f"there are {', '.join(self._kernels)}")
        return self._kernels[name]

    def __contains__(self, name: object) -> bool:
        return name in self._kernels

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)


class Executable(display.Shown):
    """A compiled module. See the module's text.

    Attributes:
        mod: the module as compiled: graph functions that call kernels, and the kernels' PrimFuncs.
        kernels: the compiled kernels by name.
        target: what it was compiled for.
        timings: (name, seconds) of each step of the compilation.
    """

    def __init__(
        self,
        mod: IRModule,
        kernels: Mapping[str, Any],
        target: Target,
        timings: list[tuple[str, float]] | None = None,
    ) -> None:
        self.mod = mod.held_by(self, "mod")
        self.kernels = Kernels(kernels)
        self.target = target
        self.timings = timings or []
        self.vm = VirtualMachine(self, native=False)
        self._machine = VirtualMachine(self)
        self._plans: dict[str, Any] = {}
        self._claimed: dict[str, Any] = {}
        self._calls: dict[str, DirectCall | None] = {}
        self._native: Callable[..., Any] = _no_entry
        self._again: Callable[..., Any] = _no_entry
        #: Python functions that `call_py_func` finds before those that are registered
        self.python: Mapping[str, Callable[..., Any]] = {}
        #: whether a GPU replays a graph's launches as one CUDA graph
        self.replays = bool(PassContext.current().get_config("relax.backend.use_cuda_graph"))
        #: versions for sizes that are met often (`mlcnb.runtime.versions`); None: there are none
        self.versions: Any = None

    def run_kernel(self, name: str, args: Sequence[Any]) -> None:
        """Run a kernel on what its parameters take, outputs too.

        Raises:
            RuntimeInputError: wrong number, dtype or shape.
            ExecutionError: the kernel stopped: an assertion, an index out of bounds, a cancelled
                call.
        """
        direct = self.direct(name)
        if direct is None or not direct.run(args):
            kernel_call.run(self.kernels[name], args)

    def direct(self, name: str) -> DirectCall | None:
        """The short way to call a kernel; None where there is none."""
        if name not in self._calls:
            self._calls[name] = of_any(self.kernels[name])
        return self._calls[name]

    @cached_property
    def entry(self) -> str:
        """The function that `ex(...)` runs: "main", or the only one."""
        names = [v.name_hint for v in self.mod]
        if "main" in names or not names:
            return "main"
        graph = [v.name_hint for v, f in self.mod.of_kind(Function).items()]
        if len(graph or names) == 1:
            return (graph or names)[0]
        raise MLCError(
            f"the module has no function 'main' among {', '.join(names)}",
            hint="name one: ex['f'](...)",
        )

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run `entry`; inputs by position or by name.

        Raises:
            RuntimeInputError: wrong number, name, dtype or shape of inputs.
            ExecutionError: the program stopped.
        """
        if self.versions is not None:
            found = self.versions.run(self.ordered(args, named), self)
            if found is not NotImplemented:
                return found
        if not named:
            found = self._native(*args)
            if found is NotImplemented:
                found = self._again(*args)
            if found is not NotImplemented:
                return found
            given = self._arrays(args)
            if given is not args and (found := self._native(*given)) is not NotImplemented:
                return as_tensors(found)
        return self._call(args, named)

    def _call(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Run `entry` the long way; from now on there may be a native one for such arrays."""
        direct = self._direct.of(args) if self._direct is not None and not named else None
        if direct is not None:
            self._native = direct.entry or _no_entry
            if direct.run(args):
                return None
        found = self.run(self.entry, args, named)
        plans = self._plans.get(self.entry)
        if plans is not None and self._claims(self.entry) is None:
            self._native = plans.native or _no_entry
            self._again = self._machine.again(self.mod[self.entry])
        return found

    @cached_property
    def _direct(self) -> DirectCalls | None:
        """The short ways to call `entry`, where that is a PrimFunc."""
        function = self.mod[self.entry]
        if not isinstance(function, PrimFunc):
            return None
        return DirectCalls(self.kernels[self.entry], function)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        self.mod[name]

        def call(*args: Any, **named: Any) -> Any:
            return self.run(name, args, named)

        call.__name__ = name
        return call

    def run(self, name: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Run one function of the module by name."""
        claims = self._claims(name)
        plans = self._plans.get(name)
        if plans is not None and not named and claims is None:
            given = self._arrays(args)
            known = plans.known(given)
            if known is not None:
                found = plans.run_known(known, given)
                return found if given is args else as_tensors(found)
        function = self.mod[name]
        if isinstance(function, PrimFunc):
            values = self.kernel_arguments(name, args, named)
            return kernel_call.run(self.kernels[name], values)
        ordered = _ordered(function, name, args, named)
        plans = self.plans(name)
        stays = self.on_device and plans.straight
        values, dims = bind_arguments(function, name, ordered, on_gpu=stays)
        if plans.runs(dims):
            result = plans.run(values, dims, self._arrays(ordered))
        else:
            result = self._machine.first(function, ordered, values, dims)
        if claims is not None:
            match(contiguous(result), claims, dims, f"the result of {name}")
        return like_input(result, ordered)

    def _arrays(self, args: Sequence[Any]) -> Sequence[Any]:
        """The arrays of Tensors where they are what the program takes, else the arguments."""
        return args if self.on_device else arrays_of(args)

    def _claims(self, name: str) -> Any:
        """What a graph function says of its result that its body does not show; None: nothing.

        Such a result is checked as it is given, as an argument is.
        """
        if name not in self._claimed:
            function = self.mod[name]
            said = getattr(function, "ret_struct_info", None)
            shown = getattr(getattr(function, "body", None), "struct_info", None)
            if said is None or shown is None:
                self._claimed[name] = None
            else:
                is_shown = struct_info_base_check(said, shown) is BaseCheckResult.PASS
                self._claimed[name] = None if is_shown else said
        return self._claimed[name]

    def ordered(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Inputs of `entry` in the order of its parameters."""
        return _ordered(self.mod[self.entry], self.entry, args, named)

    def plans(self, name: str = "main") -> Any:
        """The planned forms of a graph function, one for each set of sizes met so far.

        GraphPlans on the CPU; DevicePlans for a GPU, whose `launches()` need none.
        """
        if name not in self._plans:
            given = self.mod[name], self.kernels, self.mod.functions
            self._plans[name] = (
                DevicePlans(*given, replays=self.replays) if self.on_device else GraphPlans(*given)
            )
        return self._plans[name]

    @cached_property
    def on_device(self) -> bool:
        """Whether its kernels run in the memory of a GPU."""
        return any(k.is_on_device for k in self.kernels.values())

    def steps(self, *args: Any, **named: Any) -> Iterator[Step]:
        """Run `entry` binding by binding: name, value, seconds and kernel of each."""
        return self.vm.steps(self.entry, *self.ordered(args, named))

    @property
    def entry_name(self) -> str:
        """`entry`, by TVM's name."""
        return self.entry

    def get_function(self, name: str) -> Callable[..., Any]:
        """`ex[name]`"""
        return self[name]

    def time_evaluator(
        self,
        func_name: str,
        dev: Any = None,
        number: int = 10,
        repeat: int = 1,
        *,
        min_repeat_ms: float = 0,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
    ) -> Callable[..., BenchmarkResult]:
        """A function of the arguments of `func_name` that times it (`mlcnb.runtime.evaluator`)."""
        timing = (number, repeat, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown)
        return evaluator(self[func_name], *timing)

    def as_text(self) -> str:
        """What runs, a line for each call: the graph functions, whose kernels `kernels` has.

        TVM's name; there it is the machine's instructions.
        """
        return "\n\n".join(str(f) for f in self.mod.of_kind(Function).values())

    def stats(self) -> str:
        """How much there is of what: functions, calls, kernels, memory. TVM's name."""
        return str(self)

    def get_source(self, fmt: str = "") -> str:
        """The code of all kernels, one after the other.

        Args:
            fmt: "ll" (LLVM IR, the default for a CPU), "asm" or "s" (assembly), "cu" or "cuda" (the
                default for a GPU).

        Raises:
            MLCError: there is no such form.
        """
        source: Any = display.load("mlcnb.runtime.sources:source_of")
        text: str = source(self, fmt)
        return text

    inspect_source = get_source

    @property
    def imported_modules(self) -> list[Any]:
        """The parts for a device, each with `get_source()`: of an executable for a GPU its CUDA."""
        parts: Any = display.load("mlcnb.runtime.sources:device_parts")
        found: list[Any] = parts(self)
        return found

    imports = imported_modules

    def strip(self, name: str | int, measured: bool = True) -> Any:
        """The strip of a kernel: counted in its assembly, measured, beside the roofline.

        Args:
            name: of the kernel, or its number.
            measured: run it, and the machine's roofline if that is not known yet.

        Raises:
            MLCError: no such kernel, or one without assembly.
        """
        return display.load("mlcnb.runtime.strip:strip")(self.kernels[name], measured)  # type: ignore[call-arg]

    def strips(self, measured: bool = True) -> Any:
        """The strip of every kernel that is called, the one with the most work first."""
        return display.load("mlcnb.runtime.strip:strips")(self.kernels.values(), measured)  # type: ignore[call-arg]

    def export_library(self, path: str | Path) -> Path:
        """Save the executable as one file that `mlcnb.load_module` reads, here or elsewhere."""
        return display.load("mlcnb.runtime.artifact:save")(self, path)  # type: ignore[call-arg,return-value]

    def kernel_arguments(
        self, name: str, args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> list[Any]:
        """The arguments of a PrimFunc in order, as arrays that share memory with what was given.

        Raises:
            RuntimeInputError: an argument that cannot be shared, or be written to.
        """
        function = self.mod[name]
        params = [function.buffer_map.get(p, p) for p in function.params]
        ordered = _by_name(name, [p.name for p in params], args, named)
        values = [
            _shared(name, a, p, not self.target.is_cpu) if isinstance(p, Buffer) else a
            for a, p in zip(ordered, params, strict=False)
        ]
        values += ordered[len(params) :]
        kernel_call.check(self.kernels[name], values)
        kernel_call.check_outputs(function, values)
        return values


def _no_entry(*args: Any) -> Any:
    """What stands where there is no native way in, or none yet."""
    return NotImplemented


def _shared(name: str, given: Any, param: Buffer, on_gpu: bool) -> Any:
    """The argument as an array in the same memory: a kernel may write there."""
    if kernel_call.is_on_gpu(given) and on_gpu:
        return on_the_gpu(given, param.name)
    value = as_array(given, param.name)
    if isinstance(given, Tensor):
        given = given.numpy()
    if isinstance(given, np.ndarray) and not np.may_share_memory(value, given) and value.size:
        what = "has its elements apart in memory" if given.dtype.isnative else "is byte-swapped"
        raise RuntimeInputError(
            f"{name}: argument {param.name!r} {what}", hint="pass a copy: np.ascontiguousarray(x)"
        )
    return value


def _ordered(
    function: Function, name: str, args: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    return _by_name(name, [p.name_hint for p in function.params], args, named)


def _by_name(
    name: str, names: list[str], args: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Positional and named inputs in the order of the parameters."""
    if not named:
        return args
    rest = names[len(args) :]
    twice = [n for n in named if n in names[: len(args)]]
    if twice:
        raise RuntimeInputError(f"{name}: input {twice[0]!r} is given twice")
    unknown = [n for n in named if n not in rest]
    if unknown:
        raise RuntimeInputError(
            f"{name} has no input {unknown[0]!r}", hint=f"its inputs are {', '.join(names)}"
        )
    missing = [n for n in rest if n not in named]
    if missing:
        raise RuntimeInputError(f"{name}: input {missing[0]!r} is missing")
    return (*args, *(named[n] for n in rest))
