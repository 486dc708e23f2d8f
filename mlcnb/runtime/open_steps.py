"""A straight stretch of sizes that are new, binding by binding: what can be known before, is.

lv = call_tir(f, (x, w), …(n, 4))    KernelStep    arrays are made for n, their addresses go into
                                                   the kernel's slots, and n does
lv1 = reshape(lv, (n * 4,))          ViewStep      seen as another shape
(lv, lv1)                            the rule of the virtual machine

A plan for sizes takes as long as many such steps; it is made where they are met again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mlcnb.core.errors import ExecutionError
from mlcnb.ir.expr import IntImm, Var
from mlcnb.ir.memory import aligned_empty
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.span import told_of
from mlcnb.relax import expr as rx
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo, parts_of
from mlcnb.runtime import kernel_call
from mlcnb.runtime.shapes import Dims, shape_of

if TYPE_CHECKING:
    from mlcnb.runtime.frame import Frame

#: what a binding is run as
Step = Callable[["Frame"], None]


def steps_of(bindings: Sequence[rx.Binding], direct: Callable[[str], Any]) -> list[Step]:
    """Each binding as a function of the frame that it runs in.

    direct: the short way to call a kernel by its name, None where there is none.
    """
    return [_step(binding, direct) for binding in bindings]


def _step(binding: rx.Binding, direct: Callable[[str], Any]) -> Step:
    value: Any = getattr(binding, "value", None)
    if isinstance(binding, rx.VarBinding) and isinstance(value, rx.Call):
        callee: Any = value.args[0]
        op = getattr(value.op, "name", "")
        if op == "relax.call_tir" and len(value.args) == 2 and _is_plain(value.args[1]):
            short = direct(callee.name_hint)
            if short is not None:
                return KernelStep(binding, value, short)
        if op == "relax.reshape" and isinstance(callee, rx.Var):
            if isinstance(binding.var.struct_info, TensorStructInfo):
                return ViewStep(binding, value)
    return lambda frame: frame.bind(binding)


def _is_plain(args: Any) -> bool:
    """Whether arguments of a kernel are variables, one by one."""
    given = args.fields if isinstance(args, rx.Tuple) else (args,)
    return all(isinstance(a, rx.Var) and isinstance(a.struct_info, TensorStructInfo) for a in given)


class Sizes:
    """The shape of a tensor, as a function of the sizes that it is made of."""

    __slots__ = ("info", "parts")

    def __init__(self, info: TensorStructInfo) -> None:
        self.info = info
        parts: list[Any] = [d.value if isinstance(d, IntImm) else d for d in info.dims or ()]
        is_simple = info.dims is not None and all(isinstance(d, int | Var) for d in parts)
        #: numbers, and variables; None where there is more to compute
        self.parts = parts if is_simple else None

    def of(self, dims: Dims) -> tuple[int, ...]:
        """The shape; `shape_of` has the errors."""
        if self.parts is None:
            return shape_of(self.info, dims)
        found = tuple([d if type(d) is int else dims.get(d, -1) for d in self.parts])
        return found if not found or min(found) >= 0 else shape_of(self.info, dims)


class KernelStep:
    """A kernel's call: new arrays for what it makes, and the short way in."""

    def __init__(self, binding: rx.VarBinding, call: rx.Call, direct: Any) -> None:
        callee: Any = call.args[0]
        given: Any = call.args[1]
        info: Any = call.sinfo_args[0]
        self.var, self.call, self.direct = binding.var, call, direct
        self.name = callee.name_hint
        self.args: tuple[Any, ...] = given.fields if isinstance(given, rx.Tuple) else (given,)
        self.outputs = [(Sizes(i), i.dtype.numpy) for i in parts_of(info)]
        self.is_tuple = isinstance(info, TupleStructInfo)

    def __call__(self, frame: Frame) -> None:
        """Bind what the kernel makes."""
        env, dims = frame.env, frame.dims
        made = [aligned_empty(sizes.of(dims), kind) for sizes, kind in self.outputs]
        args = [*[env[a] for a in self.args], *made]
        try:
            if not self.direct.run(args):
                kernel_call.run(frame.vm.executable.kernels[self.name], args)
        except ExecutionError as error:
            where = f"at {self.var.name_hint}{told_of(self.call.span)}"
            raise ExecutionError(f"{where}: {error.message}", hint=error.hint) from None
        frame.kernel = self.name
        env[self.var] = tuple(made) if self.is_tuple else made[0]


def prepared(binding: rx.Binding) -> Any:
    """A binding that sizes come from as a step; the binding itself where it is another."""
    value = getattr(binding, "value", None)
    if isinstance(binding, rx.MatchCast) and isinstance(value, rx.Var):
        info: Any = binding.struct_info
        is_tensor = isinstance(info, TensorStructInfo) and info.dtype is not None
        dims = info.dims if is_tensor else getattr(info, "values", None)
        if dims is not None and all(isinstance(d, Var) for d in dims if as_int(d) is None):
            return SizesStep(binding, dims)
    return binding


class SizesStep:
    """A cast of a shape or a tensor that gives sizes their values."""

    def __init__(self, binding: rx.MatchCast, dims: Sequence[Any]) -> None:
        source: Any = binding.value
        self.binding, self.var, self.source = binding, binding.var, source
        self.wanted: list[Any] = [d if as_int(d) is None else as_int(d) for d in dims]
        info: Any = binding.struct_info
        is_tensor = isinstance(binding.struct_info, TensorStructInfo)
        self.kind = info.dtype.numpy if is_tensor else None

    def __call__(self, frame: Frame) -> None:
        """Bind the sizes; the rule of the virtual machine says what does not fit."""
        value, dims = frame.env[self.source], frame.dims
        shape: Any = value if type(value) is tuple and self.kind is None else None
        if self.kind is not None and type(value) is np.ndarray and value.dtype == self.kind:
            shape = value.shape
        fits = shape is not None and len(shape) == len(self.wanted)
        for got, wanted in zip(shape or (), self.wanted, strict=False):
            if type(wanted) is int:
                fits = fits and got == wanted
            elif wanted not in dims and got >= 0 and wanted.dtype.holds(got):
                dims[wanted] = int(got)
            else:
                fits = fits and dims.get(wanted) == got
        if fits:
            frame.env[self.var] = value
        else:
            frame.bind(self.binding)


class ViewStep:
    """A tensor seen as another shape."""

    def __init__(self, binding: rx.VarBinding, call: rx.Call) -> None:
        source: Any = call.args[0]
        info: Any = binding.var.struct_info
        self.binding, self.source, self.sizes = binding, source, Sizes(info)

    def __call__(self, frame: Frame) -> None:
        """Bind the view; the rule of the virtual machine says what does not fit."""
        shape, source = self.sizes.of(frame.dims), frame.env[self.source]
        if math.prod(shape) == source.size:
            frame.env[self.binding.var] = source.reshape(shape)
        else:
            frame.bind(self.binding)
