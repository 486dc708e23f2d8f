"""Where everything is while a graph function runs: each tensor has its place, each call its slots.

For each set of sizes met at run time the function is planned once (`graph_call` runs the plan):

    inputs, outputs     addresses patched in for each call
    constants           addresses of their arrays
    everything else     one arena, where tensors whose lives do not overlap share bytes, and the
                        workspace of a call lies where no tensor is at that time

Functions with branches, calls of other functions or sizes that depend on data are not `straight`;
the virtual machine runs them, and their straight stretches
natively (`runtime.stretches`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlcnb.core.errors import RuntimeInputError
from mlcnb.ir.expr import Var
from mlcnb.ir.memory import aligned
from mlcnb.ir.span import Span
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.memory_lives import OUTPUT, PARAM, PlannedTensor
from mlcnb.relax.analysis.memory_plan import MemoryPlan, plan_memory
from mlcnb.relax.analysis.struct_info import definable_vars
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo
from mlcnb.runtime.kernel_call import checked_number
from mlcnb.runtime.shapes import (
    Dims,
    check_sizes,
    evaluate,
    is_size_check,
    match_shapes,
    shape_of,
)


@dataclass(eq=False)
class Storage:
    """A piece of memory.

    kind: "arena", "input", "output" or "constant"; size in bytes; offset: in the arena; number:
    which input, output or constant.
    """

    kind: str
    size: int
    offset: int = 0
    number: int = -1


@dataclass(frozen=True)
class Place:
    """A tensor: its storage, shape and dtype (a reshape is another Place on the same storage)."""

    storage: Storage
    shape: tuple[int, ...]
    dtype: np.dtype


@dataclass
class KernelCall:
    """One call: the kernel's name, its arguments (places and numbers), its binding's name.

    workspace: where in the arena it has its own memory while it runs, if it needs any.
    origin: where it came from, such as a node of the model.
    """

    kernel: str
    binding: str
    args: list[Any]
    dims: Dims
    workspace: int = 0
    origin: Span | None = None


@dataclass
class Layout:
    """What planning finds: calls in order, where everything is, and how large the arena is.

    workspace_bytes: the most that a call needs of the arena for itself.
    """

    memory: MemoryPlan
    calls: list[KernelCall] = field(default_factory=list)
    constants: list[np.ndarray] = field(default_factory=list)
    result: Any = None
    arena_bytes: int = 0
    workspace_bytes: int = 0


def is_straight(function: rx.Function) -> bool:
    """True if the body is kernel calls, views, tuples, constants; sizes known beforehand."""
    if not all(is_known_tensor(p.struct_info) for p in function.params):
        return False
    sizes = {v for p in function.params for v in definable_vars(p.struct_info)}
    return all(is_straight_binding(b, sizes) for b in function.body.bindings)


def is_known_tensor(info: Any) -> bool:
    """True for a tensor of known dtype and dimensions, and for a tuple of such."""
    if isinstance(info, TupleStructInfo):
        return all(is_known_tensor(f) for f in info.fields)
    return isinstance(info, TensorStructInfo) and info.dims is not None and info.dtype is not None


def is_straight_binding(binding: rx.Binding, sizes: Collection[Var]) -> bool:
    """True for a kernel's call, a view, or something that costs nothing; `sizes` are known."""
    value = getattr(binding, "value", None)
    if isinstance(binding, rx.MatchCast):
        return is_size_check(binding, sizes)
    if isinstance(value, rx.Call):
        return isinstance(value.op, rx.Op) and value.op.name in ("relax.call_tir", "relax.reshape")
    simple = (rx.Var, rx.Constant, rx.Tuple, rx.TupleGetItem, rx.ShapeExpr)
    return isinstance(value, simple)


def plan(
    function: rx.Function,
    kernels: Mapping[str, Any],
    dims: Dims,
    functions: Mapping[Any, Any] | None = None,
) -> Layout:
    """Lay out a straight function for some sizes; `functions` are those of the module."""
    return _Planner(function, kernels, dims, functions or {}).layout()


class _Planner:
    """Follows a straight function binding by binding: what is where, and which calls are made."""

    def __init__(
        self,
        function: rx.Function,
        kernels: Mapping[str, Any],
        dims: Dims,
        functions: Mapping[Any, Any],
    ) -> None:
        self.function = function
        self.kernels = kernels
        self.dims = dims
        self.memory = plan_memory(function, functions, dims)
        self.out = Layout(memory=self.memory)
        self.storages: dict[int, Storage] = {}
        self.counts = {"input": 0, "output": 0}
        self.constants: dict[int, Storage] = {}
        self.values: dict[rx.Var, Any] = {}
        self.step = 0

    def layout(self) -> Layout:
        """Every call with its arguments, and the form of the result."""
        for param in self.function.params:
            self.values[param] = self.place(self.memory.places[param], param.struct_info)
        self.out.arena_bytes = self.memory.arena_bytes
        for step, binding in enumerate(self.function.body.bindings):
            self.step = step
            value: Any = binding.value  # type: ignore[attr-defined]
            if isinstance(binding, rx.MatchCast):
                check_sizes(binding, self.dims)
            self.values[binding.var] = self.value(value, binding.var)
        self.out.result = self.value(self.function.body.body, None)
        return self.out

    def place(self, planned: Any, info: Any) -> Any:
        """The Place of a planned tensor, seen as `info` says; tuples field by field."""
        if isinstance(info, TupleStructInfo):
            return tuple(map(self.place, planned, info.fields))
        return Place(self.storage(planned), shape_of(info, self.dims), info.dtype.numpy)

    def storage(self, planned: PlannedTensor) -> Storage:
        """The memory of a planned tensor: numbered where it comes from or goes to the caller."""
        if id(planned) not in self.storages:
            kind = {PARAM: "input", OUTPUT: "output"}.get(planned.kind, "arena")
            number = self.counts.get(kind, -1)
            if kind in self.counts:
                self.counts[kind] += 1
            self.storages[id(planned)] = Storage(kind, planned.nbytes, planned.offset, number)
        return self.storages[id(planned)]

    def value(self, x: Any, var: rx.Var | None) -> Any:
        """The Place (or tuple, or sizes) of an expression."""
        if isinstance(x, rx.Var):
            return self.values[x]
        if isinstance(x, rx.Constant):
            return self.constant(x)
        if isinstance(x, rx.Tuple):
            return tuple(self.value(f, None) for f in x.fields)
        if isinstance(x, rx.TupleGetItem):
            return self.value(x.tuple_value, None)[x.index]
        if isinstance(x, rx.ShapeExpr):
            return tuple(evaluate(d, self.dims) for d in x.values)
        if isinstance(x, rx.PrimValue):
            return evaluate(x.value, self.dims)
        assert var is not None
        if x.op.name == "relax.reshape":
            source = self.value(x.args[0], None)
            return Place(source.storage, shape_of(var.struct_info, self.dims), source.dtype)  # type: ignore[arg-type]
        return self.kernel_call(x, var)

    def constant(self, x: rx.Constant) -> Place:
        """A constant where it is, or a copy that is aligned."""
        key = id(x.data)
        if key not in self.constants:
            data = aligned(x.data)
            number = len(self.out.constants)
            self.constants[key] = Storage("constant", data.nbytes, number=number)
            self.out.constants.append(data)
        return Place(self.constants[key], x.data.shape, x.data.dtype)

    def kernel_call(self, x: rx.Call, var: rx.Var) -> Any:
        """Note a call_tir, unless its result is there already; the result lies where it was planned
        to.
        """
        args = self.value(x.args[1], None)
        args = list(args) if isinstance(args, tuple) else [args]
        made = self.place(self.memory.places[var], x.sinfo_args[0])
        if var in self.memory.joined:
            return made
        results = list(made) if isinstance(made, tuple) else [made]
        scalars = list(self.value(x.args[2], None)) if len(x.args) > 2 else []
        kernel = x.args[0].name_hint  # type: ignore[attr-defined]
        call = KernelCall(kernel, var.name_hint, [*args, *results, *scalars], {}, origin=x.span)
        call.dims = self.kernel_dims(kernel, call)
        call.workspace = self.workspace(self.kernels[kernel].signature.workspace)
        self.out.calls.append(call)
        return made

    def workspace(self, size: int) -> int:
        """Where the call of this step has so many bytes for itself."""
        if size == 0:
            return 0
        offset = self.memory.free_at(self.step, size)
        self.out.arena_bytes = max(self.out.arena_bytes, offset + size)
        self.out.workspace_bytes = max(self.out.workspace_bytes, size)
        return offset

    def kernel_dims(self, kernel: str, call: KernelCall) -> Dims:
        """The sizes of the kernel's own symbolic variables, checked against all its arguments."""
        dims: Dims = {}
        params = self.kernels[kernel].signature.params
        for param, arg in zip(params, call.args, strict=True):
            what = f"{call.binding}: {param.name}"
            if not isinstance(arg, Place):
                dims[param] = checked_number(kernel, param, arg)
            elif arg.dtype != param.dtype.numpy:
                raise RuntimeInputError(f"{what}: expected dtype {param.dtype}, got {arg.dtype}")
        match_shapes(
            (
                (arg.shape, param.shape, f"{call.binding}: {param.name}")
                for param, arg in zip(params, call.args, strict=True)
                if isinstance(arg, Place)
            ),
            dims,
        )
        return dims
