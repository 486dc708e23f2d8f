"""Tensors and the operations that make them.

    Tensor(op, i) = the i-th output of     PlaceholderOp    given from outside
                                           ComputeOp        axis -> body, one expression an output
                                           ExternOp         a statement over whole buffers

They are no IR nodes: an expression that loads from a tensor (`ProducerLoad`) does not contain it.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from contextlib import ContextDecorator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mlcnb.core.errors import ArgumentError, MLCError
from mlcnb.core.node import Record, walk
from mlcnb.core.operators import both
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr
from mlcnb.tir.buffer import Buffer, ProducerLoad
from mlcnb.tir.stmt import IterVar, Reduce, Stmt

#: an axis to reduce over; in an expression it stands for its variable: `A[i, k * 2 + 1]`
ReduceAxis = IterVar


@dataclass(frozen=True, slots=True, eq=False)
class Operation(Record):
    """Base: something with a name and outputs."""

    name: str

    @property
    def num_outputs(self) -> int:
        """Number of tensors that it makes."""
        return 1

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that it reads, in order of first use."""
        return ()

    def output(self, index: int) -> Tensor:
        """The tensor of output `index`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class PlaceholderOp(Operation):
    """A tensor that is given from outside.

    Made by `te.placeholder`, which refuses dimensions that are no integers and dtypes that are not
    known.
    """

    shape: tuple[PrimExpr, ...]
    dtype: DType

    def output(self, index: int) -> Tensor:
        """The tensor itself."""
        return Tensor(self.shape, self.dtype, self, index)


@dataclass(frozen=True, slots=True, eq=False)
class ComputeOp(Operation):
    """Each element is `body`, an expression of the axes; one expression for each output.

    The shape of the outputs is the extents of `axis`, their dtypes are those of `body`. Made by
    `te.compute`, which refuses a body that is no loop nest.
    """

    axis: tuple[IterVar, ...]
    body: tuple[PrimExpr, ...]
    tag: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        """The axes that the body reduces over."""
        first = self.body[0]
        return first.axis if isinstance(first, Reduce) else ()

    @property
    def num_outputs(self) -> int:
        """Number of expressions."""
        return len(self.body)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that the body reads, in order of first use."""
        loads = (n for x in self.body for n in walk(x) if isinstance(n, ProducerLoad))
        return tuple(dict.fromkeys(load.producer for load in loads))

    def output(self, index: int) -> Tensor:
        """The tensor of expression `index`."""
        shape = tuple(axis.dom.extent for axis in self.axis)
        return Tensor(shape, self.body[index].dtype, self, index)


@dataclass(frozen=True, slots=True, eq=False)
class ExternOp(Operation):
    """Tensors filled by a statement that sees whole buffers.

    Each output has the shape and dtype of its buffer. Made by `te.extern`, which refuses what is no
    statement.
    """

    inputs: tuple[Tensor, ...]
    input_buffers: tuple[Buffer, ...]
    output_buffers: tuple[Buffer, ...]
    body: Stmt
    tag: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_outputs(self) -> int:
        """Number of buffers that are filled."""
        return len(self.output_buffers)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that the statement reads."""
        return self.inputs

    def output(self, index: int) -> Tensor:
        """The tensor of output buffer `index`."""
        buffer = self.output_buffers[index]
        return Tensor(buffer.shape, buffer.dtype, self, index)


@dataclass(frozen=True, slots=True, eq=False)
class ScanOp(Operation):
    """Each step from the one before; it has no loops, in TVM neither.

    Each output has the shape and dtype of its state. `create_prim_func` refuses it with
    UnsupportedOperationError.
    """

    init: tuple[Tensor, ...]
    update: tuple[Tensor, ...]
    state: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...] = ()

    @property
    def num_outputs(self) -> int:
        """Number of states."""
        return len(self.state)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """What starts it, and what each step reads."""
        return (*self.init, *self.update)

    def output(self, index: int) -> Tensor:
        """The states of all steps."""
        state = self.state[index]
        return Tensor(state.shape, state.dtype, self, index)


def _of_elements(name: str, fn: Callable[[Any, Any], PrimExpr]) -> Callable[[Any, Any], Tensor]:
    def apply(a: Any, b: Any) -> Tensor:
        return _elementwise(name, fn, a, b)

    return apply


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tensor(Record):
    """A tensor of a tensor expression; `A[i, j]` (or `A(i, j)`) is one element of it.

    Indices are integers of any dtype; one fewer than dimensions gives a slice, which takes the
    others.

    `+ - * / // %` between tensors of fitting shapes, or a tensor and a number, work elementwise
    with NumPy's broadcasting.

    Raises:
        MLCError: more indices than dimensions, an index that is no integer, or shapes that do not
            broadcast.
    """

    shape: tuple[PrimExpr, ...]
    dtype: DType
    op: Operation
    value_index: int = 0

    @property
    def name(self) -> str:
        """The name of the operation; `name_v1` for the second of several outputs."""
        return self.op.name if self.op.num_outputs == 1 else f"{self.op.name}_v{self.value_index}"

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __eq__(self, other: Any) -> bool:
        return (
            isinstance(other, Tensor)
            and other.op is self.op
            and other.value_index == self.value_index
        )

    def __hash__(self) -> int:
        return hash((id(self.op), self.value_index))

    def __repr__(self) -> str:
        dims = ", ".join(
            str(p.as_int(d)) if p.as_int(d) is not None else repr(d) for d in self.shape
        )
        return f"Tensor(shape=[{dims}], op.name={self.op.name})"

    def same_as(self, other: Any) -> bool:
        """Whether it is the same output of the same operation."""
        return self == other

    def __getitem__(self, indices: Any) -> Any:
        """One element; with fewer indices than dimensions a slice, which takes the others."""
        given = indices if isinstance(indices, tuple | list) else (indices,)
        if 0 < len(given) < self.ndim:
            return TensorSlice(self, tuple(given))
        return self(*given)

    #: no end would stop it: any number is an index
    __iter__ = None

    def __call__(self, *indices: Any) -> ProducerLoad:
        """`A(i, j)` is `A[i, j]`."""
        if len(indices) != self.ndim:
            raise MLCError(
                f"tensor {self.name} has {self.ndim} dimension{'' if self.ndim == 1 else 's'}, and "
                f"is read with {len(indices)} {'index' if len(indices) == 1 else 'indices'}"
            )
        return ProducerLoad(self, tuple(_index(self, i) for i in indices))

    def as_prim_expr(self) -> ProducerLoad:
        """The one element of a tensor without dimensions."""
        return self[()]

    def astype(self, dtype: str) -> Tensor:
        """This tensor with every element cast."""
        return _elementwise("cast", lambda x: p.cast(dtype, x), self)

    def __neg__(self) -> Tensor:
        return _elementwise("negative", p.neg, self)

    __add__, __radd__ = both(_of_elements("add", p.add))
    __sub__, __rsub__ = both(_of_elements("subtract", p.subtract))
    __mul__, __rmul__ = both(_of_elements("multiply", p.multiply))
    __truediv__, __rtruediv__ = both(_of_elements("divide", p.div))
    __floordiv__ = _of_elements("floor_divide", p.floordiv)
    __mod__ = _of_elements("mod", p.floormod)


@dataclass(frozen=True, slots=True, eq=False)
class TensorSlice:
    """`A[i]` of a matrix: what `A[i][j]` goes on from.

    It has the dtype of an element, and no shape: used as an element, it is refused with MLCError.
    """

    tensor: Tensor
    indices: tuple[Any, ...]

    def __getitem__(self, index: Any) -> Any:
        more = index if isinstance(index, tuple | list) else (index,)
        return self.tensor[(*self.indices, *more)]

    __iter__ = None

    @property
    def dtype(self) -> DType:
        """The dtype of an element."""
        return self.tensor.dtype

    def as_prim_expr(self) -> PrimExpr:
        """An element needs all its indices: refused."""
        return self.tensor(*self.indices)


def _index(tensor: Tensor, index: Any) -> PrimExpr:
    found = p.as_expr(index)
    if not (found.dtype.is_integer or found.dtype.is_bool):
        raise MLCError(f"tensor {tensor.name} is indexed with a {found.dtype}, not an integer")
    return found


def _elementwise(name: str, fn: Callable[..., PrimExpr], *operands: Any) -> Tensor:
    """One compute over the broadcast shape of the operands (tensors and scalars)."""
    from mlcnb.te.operation import compute

    shape: tuple[PrimExpr, ...] = ()
    for x in operands:
        if isinstance(x, Tensor):
            shape = broadcast_shape(shape, x.shape)

    def element(*indices: Any) -> PrimExpr:
        return fn(*(_at(x, indices) if isinstance(x, Tensor) else x for x in operands))

    return compute(shape, element, name=f"T_{name}")


def _at(tensor: Tensor, indices: tuple[Any, ...]) -> PrimExpr:
    last = indices[len(indices) - tensor.ndim :]
    return tensor[
        tuple(0 if p.is_const(d, 1) else i for d, i in zip(tensor.shape, last, strict=True))
    ]


def broadcast_shape(a: tuple[PrimExpr, ...], b: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    """The shape that NumPy broadcasts `a` and `b` to.

    Raises:
        MLCError: two dimensions differ and neither is 1.
    """
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    gap = len(longer) - len(shorter)
    pairs = zip(longer[gap:], shorter, strict=True)
    return longer[:gap] + tuple(_broadcast_dim(x, y) for x, y in pairs)


def _broadcast_dim(x: PrimExpr, y: PrimExpr) -> PrimExpr:
    if p.is_const(x, 1):
        return y
    if p.is_const(y, 1) or x is y:
        return x
    one, two = p.as_int(x), p.as_int(y)
    if one != two or one is None:
        raise MLCError(f"dimensions {x!r} and {y!r} do not broadcast")
    return x


_current_tag: ContextVar[str] = ContextVar("tag", default="")


class TagScope(ContextDecorator):
    """A tag for what is made inside of a `with` block, or of a function that it decorates."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self._tokens: list[Any] = []

    def __enter__(self) -> TagScope:
        if _current_tag.get():
            raise ArgumentError(
                f"tag_scope {self.tag!r} stands in tag_scope {_current_tag.get()!r}"
            )
        self._tokens.append(_current_tag.set(self.tag))
        return self

    def __exit__(self, *_exc: object) -> None:
        _current_tag.reset(self._tokens.pop())


def tag_scope(tag: str) -> TagScope:
    """A tag for all computes and externs inside that have none of their own.

    `op.tag` of their tensors; shapes and loops stay.

    with te.tag_scope(tag="injective"):            @te.tag_scope(tag="conv")
        B = te.compute(…)                          def conv(A, W): …

    Raises:
        ArgumentError: on entering, inside of another scope.
    """
    return TagScope(tag)


def marked(name: str, tag: str, attrs: Any) -> tuple[str, dict[str, Any]]:
    """The tag of a new operation (its own, else that of the scope), and its annotations."""
    if attrs is not None and not isinstance(attrs, Mapping):
        raise MLCError(f"{name}: attrs are a dict, not {reprlib.repr(attrs)}")
    return tag or _current_tag.get(), dict(attrs or {})


def want_tensors(name: str, given: Any) -> None:
    """Refuse what is no tensor, or no list of them."""
    for x in given if isinstance(given, tuple | list) else [given]:
        if not isinstance(x, Tensor):
            raise MLCError(f"{name}: {reprlib.repr(x)} is no te tensor", hint="give a list of them")
