"""A graph function in the memory of a GPU: planned once for each set of sizes, then launches only.

    plans = DevicePlans(function, kernels, functions)
    plans.launches()                 what a call launches, in order; needs no GPU
    plans.layout({}).arena_bytes     the memory that holds all tensors in between; nor does this
    plans.run(values, dims, args)    on the GPU

The host parts of the kernels are run beforehand, on places in the plan: what is left for a call is
to upload its inputs, launch, and download its results (which stay there where an input lay there).
Constants are uploaded once, the arena is allocated once; launches run in order on one stream, and
a call from another stream waits for the one before it. With `replays` the launches of a call are
one CUDA graph, where no kernel of it has an error to report: inputs and results are then copied to
and from places that stay.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlcnb.codegen.cuda.gpu import Device, Gpu
from mlcnb.core.errors import ExecutionError
from mlcnb.ir.dtype import DType
from mlcnb.ir.span import Span, told_of
from mlcnb.relax import expr as rx
from mlcnb.runtime.graph_call import KEPT
from mlcnb.runtime.graph_plan import KernelCall, Layout, Place, Storage, plan
from mlcnb.runtime.kernel_call import is_on_gpu
from mlcnb.runtime.shapes import Dims
from mlcnb.runtime.tensor import parts_of
from mlcnb.runtime.whole import is_straight
from mlcnb.tir.buffer import Buffer

#: where memory that a kernel's host part allocates begins
_ALIGNMENT = 256


@dataclass(frozen=True)
class Launch:
    """One launch of a graph.

    kernel: the loop function's name; symbol: of the CUDA kernel; args: a Place for each pointer,
    and numbers; grid, block: (x, y, z); shared: bytes of dynamic memory; binding, origin: whose
    value it computes, and of which node of the model.
    """

    kernel: str
    symbol: str
    args: tuple[Any, ...]
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    binding: str
    origin: Span | None = None

    def __str__(self) -> str:
        return f"{self.binding}: {self.symbol}<<<{self.grid}, {self.block}, {self.shared}>>>"


class _Recorder:
    """The machine on which a kernel's host part runs beforehand."""

    def __init__(self, call: KernelCall, start: int) -> None:
        self.call, self.end = call, start
        self.launches: list[Launch] = []

    def allocate(self, kind: DType, size: int) -> Place:
        """Memory of this call alone, behind the tensors of the graph."""
        offset = -(-self.end // _ALIGNMENT) * _ALIGNMENT
        self.end = offset + size * kind.numpy.itemsize
        return Place(Storage("arena", self.end - offset, offset), (size,), kind.numpy)

    def launch(
        self, name: str, args: Sequence[Any], grid: Sequence[int], block: Sequence[int], shared: int
    ) -> None:
        """Note a launch."""
        call = self.call
        self.launches.append(
            Launch(call.kernel, name, tuple(args), tuple(grid), tuple(block), shared,
                   call.binding, call.origin)
        )  # fmt: skip


class DevicePlan:
    """What one set of sizes needs: the layout, the launches, the bytes of memory in between."""

    def __init__(self, layout: Layout, kernels: Mapping[str, Any]) -> None:
        self.layout = layout
        self.launches: list[Launch] = []
        self.arena_bytes = layout.arena_bytes
        for call in layout.calls:
            kernel = kernels[call.kernel]
            values: dict[Any, Any] = dict(call.dims)
            for param, arg in zip(kernel.signature.params, call.args, strict=True):
                values[param.data if isinstance(param, Buffer) else param] = arg
            recorder = _Recorder(call, layout.arena_bytes)
            kernel.program.run(values, recorder)
            self.launches += recorder.launches
            self.arena_bytes = max(self.arena_bytes, recorder.end)
        self.lock = threading.Lock()
        self.bound: _Bound | None = None

    def reporting(self, kernels: Mapping[str, Any]) -> list[Launch]:
        """The launches whose kernels may report an error."""
        return [x for x in self.launches if kernels[x.kernel].sources[x.symbol].reports]


class DevicePlans:
    """The plans of one graph function on a GPU, for the sets of sizes that were used last."""

    #: there is no native way in
    native: Callable[..., Any] | None = None

    def __init__(
        self,
        function: rx.Function,
        kernels: Mapping[str, Any],
        functions: Mapping[Any, Any] | None = None,
        device: Callable[[], Device] = Gpu,
        replays: bool = False,
    ) -> None:
        self.function, self.kernels, self.functions = function, kernels, functions
        #: whether calls are replayed as CUDA graphs
        self.replays = replays
        self.straight = is_straight(function)
        #: what makes the device, when it is first needed
        self.device = device
        self._plans: OrderedDict[frozenset, DevicePlan] = OrderedDict()
        self._memory: _Memory | None = None
        self._lock = threading.Lock()

    def runs(self, dims: Dims) -> bool:
        """Whether the whole function is launches, for any sizes."""
        return self.straight

    def plan(self, dims: Dims | None = None) -> DevicePlan:
        """The plan for some sizes, made when first asked for; needs no GPU."""
        key = frozenset((dims or {}).items())
        with self._lock:
            if key not in self._plans:
                layout = plan(self.function, self.kernels, dims or {}, self.functions)
                self._plans[key] = DevicePlan(layout, self.kernels)
            self._plans.move_to_end(key)
            if len(self._plans) > KEPT:
                self._plans.popitem(last=False)
            return self._plans[key]

    def layout(self, dims: Dims | None = None) -> Layout:
        """Where every tensor lies for some sizes."""
        return self.plan(dims).layout

    def launches(self, dims: Dims | None = None) -> list[Launch]:
        """What a call launches for some sizes, in order."""
        return self.plan(dims).launches

    def known(self, args: Sequence[Any]) -> None:
        """No call is short enough here to be looked up by its arguments."""

    def run(self, values: list[Any], dims: Dims, args: Sequence[Any] = ()) -> Any:
        """Run the function; results are NumPy's, or stay on the GPU where an input lies there.

        Raises:
            DeviceError: no GPU, not enough of its memory, or code for another architecture.
            MissingDependencyError: CuPy is not installed.
            ExecutionError: a kernel stopped.
        """
        found = self.plan(dims)
        with self._lock:
            if self._memory is None:
                self._memory = _Memory(self.device(), self.kernels)
        inputs = [x for x in parts_of(values) if hasattr(x, "dtype")]
        with found.lock:
            if found.bound is None:
                kind = _Replayed if self.replays and not found.reporting(self.kernels) else _Bound
                found.bound = kind(found, self._memory)
            return found.bound.run(inputs, stays=any(map(is_on_gpu, inputs)))


class _Memory:
    """What all plans of a function share on the device: machine code, and constants."""

    def __init__(self, gpu: Device, kernels: Mapping[str, Any]) -> None:
        self.gpu, self.kernels = gpu, kernels
        self.modules: dict[str, Any] = {}
        self.constants: dict[int, tuple[np.ndarray, Any]] = {}
        #: when the last call that used this memory is done; a call from another stream waits for it
        self.done: Any = None

    def module(self, name: str) -> Any:
        """The code of a kernel, loaded once."""
        if name not in self.modules:
            self.modules[name] = self.gpu.load(self.kernels[name])
        return self.modules[name]

    def constant(self, data: np.ndarray) -> Any:
        """A constant, uploaded once."""
        if id(data) not in self.constants:
            self.constants[id(data)] = data, self.gpu.upload(data, "a constant")
        return self.constants[id(data)][1]


class _Bound:
    """A plan with memory of its own on the device; used by one thread at a time."""

    def __init__(self, made: DevicePlan, memory: _Memory) -> None:
        self.plan, self.memory, self.gpu = made, memory, memory.gpu
        self.arena = self.gpu.allocate(np.dtype("uint8"), (max(1, made.arena_bytes),))
        self.reporting = made.reporting(memory.kernels)
        #: of each launch its module, and its arguments but for what a call brings
        self.steps = [(x, memory.module(x.kernel), self._fixed(x)) for x in made.launches]
        self.outputs = {
            arg.storage.number: arg
            for x in made.launches
            for arg in x.args
            if isinstance(arg, Place) and arg.storage.kind == "output"
        }
        for call in made.layout.calls:  # of a graph that launches nothing for an empty result
            for arg in call.args:
                if isinstance(arg, Place) and arg.storage.kind == "output":
                    self.outputs.setdefault(arg.storage.number, arg)

    def _fixed(self, launch: Launch) -> list[Any]:
        """Arguments: arrays and numbers; a Place for what each call brings."""
        kernel = self.memory.kernels[launch.kernel]
        return [
            self._placed(x) if isinstance(x, Place) else x
            for x in kernel.values(launch.symbol, launch.args)
        ]

    def _placed(self, place: Place) -> Any:
        if place.storage.kind == "arena":
            return self.gpu.part(self.arena, place.storage.offset, place.dtype, place.shape)
        if place.storage.kind == "constant":
            return self.memory.constant(self.plan.layout.constants[place.storage.number])
        return place

    def run(self, given: Sequence[Any], stays: bool) -> Any:
        """Run on inputs (tuples flattened)."""
        if self.memory.done is not None:
            self.gpu.wait(self.memory.done)
        memory = self._memory_of(given)
        self._launched(memory)
        result = self._result(self.plan.layout.result, memory, stays)
        self.memory.done = self.gpu.mark()
        return result

    def _memory_of(self, given: Sequence[Any]) -> dict[str, Any]:
        """The inputs of a call on the device, and memory for its results."""
        inputs = [self.gpu.upload(x, f"input {n}") for n, x in enumerate(given)]
        outputs = {n: self.gpu.allocate(p.dtype, p.shape) for n, p in self.outputs.items()}
        return {"input": inputs, "output": outputs}

    def _launched(self, memory: Mapping[str, Any]) -> None:
        """Launch everything, and see what kernels report.

        Raises:
            ExecutionError: a kernel stopped.
        """
        gpu = self.gpu
        status = np.zeros(max(1, len(self.reporting)), "int32")
        there = gpu.upload(status, "status") if self.reporting else None
        number = 0
        for launch, module, args in self.steps:
            values = [
                memory[x.storage.kind][x.storage.number] if isinstance(x, Place) else x
                for x in args
            ]
            if number < len(self.reporting) and launch is self.reporting[number]:
                values.append(gpu.part(there, 4 * number, status.dtype, (1,)))
                number += 1
            gpu.launch(module, launch.symbol, values, launch.grid, launch.block, launch.shared)
        if self.reporting:
            gpu.download(there, status)
            self._check(status)

    def _check(self, status: np.ndarray) -> None:
        for launch, code in zip(self.reporting, status, strict=True):
            if code:
                error = self.memory.kernels[launch.kernel].failure(launch.symbol, int(code))
                raise ExecutionError(
                    f"at {launch.binding}{told_of(launch.origin)}: {error.message}"
                )

    def _result(self, form: Any, memory: Mapping[str, Any], stays: bool) -> Any:
        """A result in memory of its own, here or on the device."""
        if isinstance(form, tuple):
            return tuple(self._result(f, memory, stays) for f in form)
        if not isinstance(form, Place):
            return form
        if form.storage.kind in memory:
            found = memory[form.storage.kind][form.storage.number]
        else:
            found = self._placed(form)
        if not stays:
            host = np.empty(form.shape, form.dtype)
            self.gpu.download(found, host)
            return host
        return (found if self._is_new(form) else self.gpu.copy(found)).reshape(form.shape)

    def _is_new(self, form: Place) -> bool:
        """Whether a result lies in memory of this call alone."""
        return form.storage.kind == "output"


class _Replayed(_Bound):
    """The same as one CUDA graph, recorded at the second call: the first has loaded all kernels."""

    def __init__(self, made: DevicePlan, memory: _Memory) -> None:
        super().__init__(made, memory)
        self.kept: dict[str, Any] = {}
        self.replay: Callable[[], None] | None = None

    def _memory_of(self, given: Sequence[Any]) -> dict[str, Any]:
        if not self.kept:
            made = super()._memory_of(given)
            self.kept = {**made, "input": [self.gpu.copy(x) for x in made["input"]]}
            return self.kept
        for n, (place, x) in enumerate(zip(self.kept["input"], given, strict=True)):
            self.gpu.assign(place, self.gpu.upload(x, f"input {n}"))
        return self.kept

    def _launched(self, memory: Mapping[str, Any]) -> None:
        launch_all = super()._launched
        if self.memory.done is None:
            launch_all(memory)
            return
        if self.replay is None:
            self.replay = self.gpu.record(lambda: launch_all(memory))
        self.replay()

    def _is_new(self, form: Place) -> bool:
        return False
