"""Floats that a machine does not compute with: bfloat16, and those of 8 bits.

BF16ComputeLegalize                                BF16StorageLegalize
B = T.decl_buffer((8,), "bfloat16")                A: T.Buffer((8,), "bfloat16")
B[i] = T.exp(A[i])                                 B[i] = T.reinterpret("uint16", A[i])
    ->                                                 ->
B = T.decl_buffer((8,), "float32")                 A: T.Buffer((8,), "uint16")
B[i] = T.exp(wide(A[i]))                           B[i] = A[i]

The first computes in a wider dtype, and keeps memory of the function itself in it; the second
stores bits as integers. `FP8ComputeLegalize(promote_dtype)` and `FP8StorageLegalize` do the same
for floats of 8 bits. A GPU that has the dtype keeps it. How numbers are converted stands in
`mlcnb.tir.transform.float_bits`.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np

from mlcnb.core import display
from mlcnb.core.errors import PassError
from mlcnb.core.node import map_children, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import Call, PrimExpr, Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.escapes import escapes
from mlcnb.tir.analysis.structure import allocations
from mlcnb.tir.buffer import Buffer, BufferLoad, MatchBufferRegion
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.transform.device_regions import target_of
from mlcnb.tir.transform.float_bits import bits_of, narrowed, reinterpret, widened

#: the least `sm_…` of a GPU that computes with bfloat16, with floats of 8 bits
_SINCE = {"bfloat16": 80, "float8": 89}
#: calls whose arguments are pointers, bits or somebody else's: they stay as they are
_OPAQUE = frozenset(
    f"tir.{name}"
    for name in (
        "reinterpret address_of tvm_access_ptr call_extern call_pure_extern tvm_call_packed "
        "tvm_call_cpacked type_annotation call_llvm_intrin call_llvm_pure_intrin"
    ).split()
)


def _is_small(kind: DType, family: str) -> bool:
    return str(kind).startswith(family)


def has_dtype(func: PrimFunc, family: str) -> bool:
    """True if the target of a function computes with the dtypes of that name."""
    target = target_of(func)
    if target is None or target.kind != "cuda":
        return False
    found = re.match(r"sm_(\d+)", str(target.attrs.get("arch", "")))
    return found is not None and int(found[1]) >= _SINCE[family]


class _Walker:
    """What both have in common: variables, buffers and memory in another dtype."""

    def __init__(self, func: PrimFunc, family: str) -> None:
        self.func, self.family = func, family
        self.vars: dict[Var, Var] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def is_small(self, kind: DType) -> bool:
        return _is_small(kind, self.family)

    def other(self, kind: DType) -> DType:
        """The dtype in which a small one is kept."""
        raise NotImplementedError

    def moves(self, data: Var) -> bool:
        """Whether the memory behind a pointer changes its dtype."""
        raise NotImplementedError

    def var(self, n: Var) -> Var:
        """A variable in its new dtype."""
        if n not in self.vars:
            made = n
            if n.pointee is not None and self.is_small(dtype(n.pointee[0])) and self.moves(n):
                scope = n.pointee[1]
                made = replace(n, pointee=(str(self.other(dtype(n.pointee[0]))), scope))
            elif self.is_small(n.dtype):
                made = replace(n, dtype=self.other(n.dtype))
            self.vars[n] = made
        return self.vars[n]

    def buffer(self, n: Buffer) -> Buffer:
        """A buffer in its new dtype."""
        if n not in self.buffers:
            data, made = self.var(n.data), n
            if self.is_small(n.dtype) and self.moves(n.data):
                made = replace(n, data=data, dtype=self.other(n.dtype))
            elif data is not n.data:
                made = replace(n, data=data)
            self.buffers[n] = made
        return self.buffers[n]

    def node(self, n: Any) -> Any:
        """Whatever stands in a program."""
        if isinstance(n, Var):
            return self.var(n)
        if isinstance(n, Buffer):
            return self.buffer(n)
        if isinstance(n, s.Allocate) and self.is_small(n.dtype) and self.moves(n.buffer_var):
            other = self.other(n.dtype)
            held = None if n.data is None else n.data.view(other.numpy)
            n = replace(n, dtype=other, data=held)
        return map_children(n, self.node)


class _Compute(_Walker):
    """Computes in a wider dtype."""

    def __init__(self, func: PrimFunc, family: str, wide: str) -> None:
        super().__init__(func, family)
        self.wide = dtype(wide)
        own = {n.buffer_var for n in allocations(func.body) if n.data is None}
        blocks = (n for n in walk(func.body) if isinstance(n, s.Block))
        own |= {b.data for n in blocks for b in n.alloc_buffers}
        self.own = own - self._pinned()

    def _pinned(self) -> set[Var]:
        """Memory that somebody sees who counts with its dtype."""
        found = {x.data for x in escapes(self.func) if not isinstance(x.node, s.DeclBuffer)}
        for n in walk(self.func.body):
            if isinstance(n, MatchBufferRegion):
                found |= {n.buffer.data, n.source.buffer.data}
            if isinstance(n, BufferLoad | s.BufferStore | s.DeclBuffer):
                kind = n.buffer.dtype
                if not self.is_small(kind):
                    found.add(n.buffer.data)
        return found

    def other(self, kind: DType) -> DType:
        return self.wide.with_lanes(kind.lanes)

    def moves(self, data: Var) -> bool:
        return data in self.own

    def promoted(self, n: PrimExpr) -> PrimExpr:
        """A value in the wider dtype."""
        if not self.is_small(n.dtype):
            return n
        if isinstance(n, e.FloatImm):
            return p.const(n.value, self.wide)
        if isinstance(n, e.Broadcast):
            return replace(n, value=self.promoted(n.value))
        return widened(n, self.other(n.dtype))

    def as_before(self, n: PrimExpr, kind: DType) -> PrimExpr:
        """A value in the dtype that it had."""
        if n.dtype == kind:
            return n
        if isinstance(n, e.FloatImm):
            return p.const(n.value, kind)
        return narrowed(n, kind)

    def node(self, n: Any) -> Any:
        match n:
            case s.BufferStore():
                return self.store(n)
            case s.LetStmt() | e.Let() if self.is_small(n.var.dtype):
                value = self.promoted(self.node(n.value))
                return replace(n, var=self.var(n.var), value=value, body=self.node(n.body))
            case e.Cast():
                value = self.promoted(self.node(n.value))
                kind = self.other(n.dtype) if self.is_small(n.dtype) else n.dtype
                return p.cast(kind, value)
            case Call():
                return self.call(n)
            case s.AttrStmt(node=s.CommReducer() as reducer):
                body = self.node(n.body)
                return replace(n, node=self.reducer(reducer), body=body)
            case e.FloatImm() | e.IntImm() | e.StringImm() | Var() | Buffer() | BufferLoad():
                return super().node(n)
            case PrimExpr():
                return self.arithmetic(n)
        return super().node(n)

    def arithmetic(self, n: PrimExpr) -> PrimExpr:
        """An operation in the wider dtype where an operand is small."""
        return map_children(
            n, lambda c: self.promoted(self.node(c)) if _is_value(c) else self.node(c)
        )

    def store(self, n: s.BufferStore) -> s.Stmt:
        buffer, value = self.buffer(n.buffer), self.node(n.value)
        if self.is_small(buffer.dtype):
            value = self.as_before(value, n.value.dtype)
        else:
            value = self.promoted(value)
        indices = tuple(map(self.node, n.indices))
        return replace(n, buffer=buffer, value=value, indices=indices)

    def call(self, n: Call) -> PrimExpr:
        if not isinstance(n.op, str) or n.op in _OPAQUE:
            args = [
                self.as_before(self.node(x), x.dtype) if _is_value(x) else self.node(x)
                for x in n.args
            ]
            return replace(n, args=tuple(args))
        if n.op == "tir.tvm_thread_allreduce":
            self.check_reduced(n)
        args = [self.promoted(self.node(x)) for x in n.args]
        kind = self.other(n.dtype) if self.is_small(n.dtype) else n.dtype
        return replace(n, dtype=kind, args=tuple(args))

    def check_reduced(self, n: Call) -> None:
        for x in n.args[2 + (p.as_int(n.args[0]) or 0) :]:
            if isinstance(x, BufferLoad) and self.is_small(x.buffer.dtype):
                if not self.moves(x.buffer.data):
                    raise PassError(
                        f"ComputeLegalize: threads are reduced into {x.buffer.name}, which stays "
                        f"{x.buffer.dtype}",
                        where=n,
                        root=self.func,
                        hint="reduce into memory of the function itself, and copy it",
                    )

    def reducer(self, n: s.CommReducer) -> s.CommReducer:
        return replace(
            n,
            lhs=tuple(map(self.var, n.lhs)),
            rhs=tuple(map(self.var, n.rhs)),
            result=tuple(self.promoted(self.node(x)) for x in n.result),
            identity_element=tuple(self.promoted(self.node(x)) for x in n.identity_element),
        )


def _is_value(n: Any) -> bool:
    return isinstance(n, PrimExpr)


class _Storage(_Walker):
    """Stores the bits as integers."""

    def other(self, kind: DType) -> DType:
        return bits_of(kind)

    def moves(self, data: Var) -> bool:
        return True

    def node(self, n: Any) -> Any:
        if isinstance(n, e.FloatImm) and self.is_small(n.dtype):
            bits = np.asarray(n.value, n.dtype.numpy).view(str(self.other(n.dtype)))
            return p.const(int(bits), self.other(n.dtype))
        if isinstance(n, Call) and n.op == "tir.reinterpret":
            return self.reinterpretation(n)
        if isinstance(n, e.BinaryOp | e.CmpOp | e.Cast) or _is_mathematics(n):
            if any(isinstance(x, PrimExpr) and self.is_small(x.dtype) for x in _operands(n)):
                raise PassError(
                    f"StorageLegalize: {display.text(n)} computes with {self.family}",
                    where=n,
                    root=self.func,
                    hint="run the ComputeLegalize pass of that dtype first",
                )
        made = super().node(n)
        if isinstance(made, Call) and self.is_small(made.dtype):
            return replace(made, dtype=self.other(made.dtype))
        return made

    def reinterpretation(self, n: Call) -> PrimExpr:
        value = self.node(n.args[0])
        kind = self.other(n.dtype) if self.is_small(n.dtype) else n.dtype
        return reinterpret(kind, value)

    def function(self) -> PrimFunc:
        """The function, its parameters too."""
        func = self.func
        params = tuple(map(self.var, func.params))
        buffers = {self.var(k): self.buffer(b) for k, b in func.buffer_map.items()}
        return replace(
            func,
            params=params,
            buffer_map=type(func.buffer_map)(buffers),
            body=self.node(func.body),
        )


def _is_mathematics(n: Any) -> bool:
    return (
        isinstance(n, Call)
        and isinstance(n.op, str)
        and n.op
        not in _OPAQUE
        | {
            "tir.if_then_else",
            "tir.likely",
        }
    )


def _operands(n: Any) -> list[Any]:
    if isinstance(n, Call):
        return [n, *n.args]
    return [n.value, n] if isinstance(n, e.Cast) else [n.a, n.b]


def compute_legalized(func: PrimFunc, family: str, wide: str) -> PrimFunc:
    """`func` computing in `wide` where it computed in a dtype of the family.

    Raises:
        PassError: threads are reduced into memory that has to stay small.
    """
    small = any(_is_small(dtype(str(k)), family) for k in _dtypes(func))
    if not small or has_dtype(func, family):
        return func
    return func.with_body(_Compute(func, family, wide).node(func.body))


def storage_legalized(func: PrimFunc, family: str) -> PrimFunc:
    """`func` with the dtypes of the family as unsigned integers.

    Raises:
        PassError: it computes in one of them.
    """
    small = any(_is_small(dtype(str(k)), family) for k in _dtypes(func))
    return func if not small or has_dtype(func, family) else _Storage(func, family).function()


def _dtypes(func: PrimFunc) -> set[str]:
    """Every dtype of a function's values, variables and memory."""
    found = {str(b.dtype) for b in func.buffers}
    found |= {x.pointee[0] for x in func.params if x.pointee is not None}
    for n in walk(func.body):
        if isinstance(n, Buffer | s.Allocate | PrimExpr):
            found.add(str(n.dtype))
    return found - {"handle", "void", ""}


class BF16ComputeLegalize(PrimFuncPass):
    """Compute in float32 where a program computes in bfloat16, on machines that have none."""

    work = staticmethod(partial(compute_legalized, family="bfloat16", wide="float32"))


class BF16StorageLegalize(PrimFuncPass):
    """Store bfloat16 as its bits, a uint16, on machines that have none."""

    work = staticmethod(partial(storage_legalized, family="bfloat16"))


class FP8ComputeLegalize(PrimFuncPass):
    """Compute in a wider float where a program computes in floats of 8 bits.

    promote_dtype: float16 or float32.
    """

    promote_dtype: str = "float32"

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `compute_legalized`."""
        return compute_legalized(func, "float8", self.promote_dtype)


class FP8StorageLegalize(PrimFuncPass):
    """Store floats of 8 bits as their bits, a uint8, on machines that have none."""

    work = staticmethod(partial(storage_legalized, family="float8"))
