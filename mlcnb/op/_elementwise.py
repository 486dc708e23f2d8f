"""Operators that work element by element: loops, inference, and tables of declarations.

    loops      elementwise(fn, x, name="exp")       broadcast_compute(fn, x1, x2, name="add")
    tables     Exp = unary("exp", FLOATS, "e ** x", onnx="Exp")            np.exp, te.exp
               Add = binary("add", NUMBERS, "x1 + x2", onnx="Add")         np.add, p.add

Shapes broadcast as in NumPy. Where two symbolic dimensions cannot be proved equal, one of them may
be 1 at run time: the result then has the larger, and the loops ask, and stop if neither is 1.
The pass CheckSizes asks before anything runs, and says which tensor it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from types import FrameType
from typing import Any, ClassVar

import numpy as np

from mlcnb import te
from mlcnb.core.errors import TypeInferError
from mlcnb.core.node import replace
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.op._accumulate import accumulator, wide
from mlcnb.op._dims import (
    broadcast,
    broadcast_dims,
    broadcast_index,
    one_dtype,
    refuse,
    size,
    tell,
    tell_dims,
    tensor,
    tidy,
    want_same_dtype,
)
from mlcnb.op._spell import call
from mlcnb.op.onnx import OnnxNode
from mlcnb.op.onnx import onnx as spell
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, make_call, operator
from mlcnb.relax.struct_info import PrimStructInfo, TensorStructInfo


@dataclass(frozen=True)
class Kinds:
    """Some of the dtypes: what to call them, a test, and what to do about others."""

    text: str
    holds: Callable[[DType], bool]
    hint: str = "use astype"


FLOATS = Kinds("floats", lambda d: d.is_float, 'use astype("float32")')
INTEGERS = Kinds("integers", lambda d: d.is_integer)
NUMBERS = Kinds("numbers", lambda d: d.is_float or d.is_integer, 'use astype("int32")')
BITS = Kinds("integers or bool", lambda d: d.is_integer or d.is_bool)
BOOLS = Kinds("bool", lambda d: d.is_bool, 'use astype("bool")')
ANY = Kinds("numbers or bool", lambda d: d.is_float or d.is_integer or d.is_bool)


def want_kinds(op: OpDecl, kinds: Kinds, **infos: TensorStructInfo | None) -> None:
    """Refuse tensors of other dtypes; the keywords are their names in the declaration."""
    for name, info in infos.items():
        if info is not None and info.dtype and not kinds.holds(info.dtype):
            refuse(op, f"{name} must hold {kinds.text}, but is {tell(info)}", hint=kinds.hint)


def broadcast_info(op: OpDecl, kind: Any, *infos: TensorStructInfo) -> TensorStructInfo:
    """The tensor that tensors make together by broadcasting."""
    first = infos[0].shape
    if len(infos) == 1 or (first is not None and all(i.shape is first for i in infos)):
        return replace(infos[0], dtype=None if kind is None else dtype(str(kind)))
    dims = broadcast(op, *infos)
    known = all(i.ndim != -1 for i in infos)
    return tensor(dims, kind, max(i.ndim for i in infos) if known else -1)


def elementwise(fn: Callable[[Any], Any], x: te.Tensor, name: str) -> te.Tensor:
    """One loop nest over `x`: out[i] = fn(x[i])."""
    return te.compute(x.shape, lambda *i: fn(x(*i)), name=name)


def broadcast_compute(fn: Callable[..., Any], *tensors: te.Tensor, name: str) -> te.Tensor:
    """One loop nest over what the tensors broadcast to: out[i] = fn(a[i], b[i], …). An expression
    among them is a scalar.
    """
    shapes = [t.shape for t in tensors if isinstance(t, te.Tensor)]
    shape = broadcast_dims(shapes)
    if shape is None:
        listed = " and ".join(map(tell_dims, shapes))
        raise TypeInferError(f"{name}: the shapes {listed} do not broadcast")

    def read(t: Any, index: Sequence[Any]) -> Any:
        is_tensor = isinstance(t, te.Tensor)
        return t(*broadcast_index(index, t.shape, shape)) if is_tensor else t

    def element(*index: Any) -> Any:
        return fn(*(read(t, index) for t in tensors))

    return te.compute(shape, element, name=name)


def quiet(fn: Callable[..., Any], *arrays: Any) -> Any:
    """`fn` of arrays, without NumPy's warnings: NaN, infinity and wrapping are results."""
    with np.errstate(all="ignore"):
        return fn(*arrays)


def in_float32(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` of arrays, computed in float32 where they are of half precision; the caller rounds."""

    @wraps(fn)
    def run(*arrays: Any) -> Any:
        return fn(*(wide(x) for x in arrays))

    return run


def loop_in_float32(fn: Callable[..., Any]) -> Callable[..., Any]:
    """As `in_float32`, of a function of expressions; it rounds its result once."""

    @wraps(fn)
    def run(*elements: Any) -> Any:
        kind = elements[0].dtype
        return p.cast(kind, fn(*(p.cast(accumulator(kind), x) for x in elements)))

    return run


class Elementwise(OpDecl):
    """Base of operators whose element depends on the elements at the same place alone."""

    __slots__ = ()
    elementwise = follows = True
    #: arrays -> array
    meaning: ClassVar[Callable[..., Any]]
    #: scalars -> scalar
    loop: ClassVar[Callable[..., Any]]
    accepts: ClassVar[Kinds] = NUMBERS
    #: dtype of the result where it is not that of the arguments
    gives: ClassVar[str | None] = None
    #: floating-point operations an element
    cost: ClassVar[int] = 1

    def infer(self, *infos: Any) -> Any:
        """What the arguments broadcast to; they share one dtype."""
        named = dict(zip(self.arguments, infos, strict=True))
        want_same_dtype(self, **named)
        want_kinds(self, self.accepts, **named)
        if all(isinstance(i, PrimStructInfo) for i in infos):
            return self.of_scalars(*infos)
        return broadcast_info(self, self.gives or one_dtype(*infos), *map(_as_tensor, infos))

    def of_scalars(self, *infos: PrimStructInfo) -> PrimStructInfo:
        """The scalar that scalars make together; its value where theirs are known."""
        values = [i.value for i in infos]
        if None in values:
            return PrimStructInfo(dtype(str(self.gives or infos[0].dtype)))
        return PrimStructInfo(value=type(self).loop(*values))

    def numpy(self, *arrays: Any) -> Any:
        """The meaning, rounded to the result's dtype."""
        given = [np.asarray(x) for x in arrays]
        kind = dtype(self.gives).numpy if self.gives else given[0].dtype
        return np.asarray(quiet(self.meaning, *given)).astype(kind, copy=False)

    def compute(self, *tensors: Any) -> Any:
        """One loop nest."""
        return broadcast_compute(self.loop, *tensors, name=short_name(self))

    def flops(self, *infos: Any) -> Any:
        """So many for each element of the result."""
        infos = tuple(map(_as_tensor, infos))
        if any(i.dims is None for i in infos):
            return None
        count = size(infos[0]) if len(infos) == 1 else size(tensor(broadcast(self, *infos), None))
        return tidy(count * self.cost)


def _as_tensor(info: Any) -> TensorStructInfo:
    """A scalar broadcasts as a tensor without dimensions."""
    return tensor((), info.dtype) if isinstance(info, PrimStructInfo) else info


class Unchanged(OpDecl):
    """Base of operators whose result is their one argument; the loops copy it."""

    __slots__ = ()
    cost = 0

    def infer(self, x: Any) -> Any:
        """Like the argument."""
        return x

    def numpy(self, x: Any) -> Any:
        """numpy.array"""
        return np.array(x)

    def compute(self, x: Any) -> Any:
        """A copy."""
        return te.compute(x.shape, lambda *i: x(*i), name=short_name(self))


def short_name(op: OpDecl | type[OpDecl]) -> str:
    """`relu` of "relax.nn.relu": the name of its block."""
    return op.op_name.rpartition(".")[2]


def unary(name: str, accepts: Kinds, doc: str, **more: Any) -> Any:
    """Declare an operator of one tensor `x`; see `_declare`."""
    return _declare(("x",), te, name, accepts, doc, **more)


def binary(name: str, accepts: Kinds, doc: str, **more: Any) -> Any:
    """Declare an operator of two tensors `x1` and `x2` that broadcast; see `_declare`."""
    return _declare(("x1", "x2"), p, name, accepts, doc, **more)


def _declare(
    arguments: tuple[str, ...],
    expressions: Any,
    name: str,
    accepts: Kinds,
    doc: str,
    meaning: Callable[..., Any] | None = None,
    loop: Callable[..., Any] | None = None,
    onnx: str | None = None,
    torch: str | None = None,
    **more: Any,
) -> Any:
    """A class of its own, which says where in the table it stands, and its spellings where they
    agree.

    Args:
        arguments: names of the tensors.
        expressions: the module that has functions of expressions.
        name: after "relax.", such as "exp".
        accepts: the dtypes that it takes.
        doc: what it does, as a phrase; becomes the docstring.
        meaning: arrays -> array, where that is not NumPy's function of that name.
        loop: elements -> element, where that is not the function of `expressions` of that name.
        onnx: the ONNX operator that means the same.
        torch: ATen operators that do, after "aten.", with blanks between them.
        more: other class variables of `Elementwise`, such as `gives`.
    """
    more.setdefault("tir_name", f"tir_{name}" if len(arguments) == 1 and "." not in name else "")
    made = operator_of_table(
        sys._getframe(2),
        name,
        Elementwise,
        f"{doc}, elementwise.",
        dict.fromkeys(arguments, "Tensor"),
        takes_scalars=len(arguments) > 1,
        meaning=staticmethod(meaning or getattr(np, name)),
        loop=staticmethod(loop or getattr(expressions, name)),
        accepts=accepts,
        **more,
    )
    if onnx is not None:
        _spell_same(onnx, made)
    if torch is not None:
        _spell_torch(torch, made)
    return made


def operator_of_table(
    line: FrameType, name: str, base: type, doc: str, annotations: dict[str, Any], **fields: Any
) -> Any:
    """An operator of its own class, with its arguments and attributes, their defaults and other
    class variables; it says which line declares it.
    """
    title = "".join(part.title() for part in name.rpartition(".")[2].split("_"))
    body = {
        "__module__": line.f_globals["__name__"],
        "__qualname__": title,
        "__doc__": doc,
        "__annotations__": annotations,
        "__firstlineno__": line.f_lineno,
    }
    return operator(f"relax.{name}")(type(title, (base,), {**body, **fields}))


def _spell_same(op_type: str, decl: type[OpDecl]) -> None:
    """ONNX's operator is this one; before opset 7 shapes broadcast by attributes."""

    def import_same(n: OnnxNode, *inputs: Expr) -> Expr:
        return make_call(decl, *legacy_broadcast(n, inputs))

    import_same.__doc__ = f"{decl.sugar}: {decl.__doc__}"
    import_same.__name__ = f"onnx_{op_type.lower()}"
    spell(op_type)(import_same)


def _spell_torch(targets: str, decl: type[OpDecl]) -> None:
    """ATen's operators are this one, of operands promoted as PyTorch does."""

    def import_same(n: TorchNode, *operands: Any) -> Expr:
        kind = n.result()[1]
        if decl.gives is not None or not dtype(kind).is_float:  # type: ignore[attr-defined]
            kind = n.common(*operands)
        return make_call(decl, *(n.tensor(x, kind) for x in operands))

    import_same.__doc__ = f"{decl.sugar}: {decl.__doc__}"
    import_same.__name__ = f"torch_{targets.split()[0]}"
    torch_spelling(*(f"aten.{t}" for t in targets.split()))(import_same)


def legacy_broadcast(n: OnnxNode, inputs: Sequence[Expr]) -> Sequence[Expr]:
    """Inputs as they are; before opset 7, B with the dimensions that `axis` places in A's."""
    axis = n.attr("axis") if n.opset < 7 and len(inputs) == 2 else None
    if axis is None:
        return inputs
    a, b = inputs
    after = len(n.dims(a)) - axis % max(len(n.dims(a)), 1) - len(n.dims(b))
    if after <= 0:
        return inputs
    last = len(n.dims(b))
    return a, n.emit(call("relax.expand_dims", b, axis=tuple(range(last, last + after))))
