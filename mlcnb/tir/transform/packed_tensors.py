"""How a function reads the tensors that it is given as `DLTensor*`, and what it checks of them.

assert 2 == T.tvm_struct_get("int32", A, 0, 4), "main.A.ndim is expected to equal 2"
assert T.tvm_struct_get("uint8", A, 0, 5) == …, "main.A.dtype is expected to be float32"
A_shape_data: T.handle("int64") = T.tvm_struct_get("handle", A, 0, 2)
A_shape = T.decl_buffer((2,), "int64", data=A_shape_data)
n: T.int32 = T.Cast("int32", A_shape[0])                       a dimension that is not known yet
assert T.Cast("int32", A_shape[1]) == 8, "…"                   one that is
A_data: T.handle("float32") = T.tvm_struct_get("handle", A, 0, 1)

Fields are those of DLPack, by TVM's numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlcnb.core import display
from mlcnb.core.errors import UnsupportedError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import Call, PrimExpr, Var
from mlcnb.target import Target
from mlcnb.tir.analysis.variables import undefined_vars
from mlcnb.tir.buffer import Buffer, BufferLoad, decl_buffer
from mlcnb.tir.functor import NOTHING
from mlcnb.tir.stmt import AssertStmt, DeclBuffer, LetStmt, Stmt

#: fields of a DLTensor
DATA, SHAPE, STRIDES, NDIM, TYPE_CODE, TYPE_BITS, TYPE_LANES = 1, 2, 3, 4, 5, 6, 7
BYTE_OFFSET, DEVICE_ID, DEVICE_TYPE = 8, 9, 10
#: DLPack's codes of dtypes, by how they begin
_CODES = (("bfloat", 4), ("bool", 6), ("uint", 1), ("int", 0), ("float8", 7), ("float", 2))


def struct_get(kind: str, pointer: PrimExpr, index: int, field: int) -> PrimExpr:
    """`T.tvm_struct_get(pointer, index, field, kind)`."""
    return Call(dtype(kind), "tir.tvm_struct_get", (pointer, p.const(index), p.const(field)))


def type_code(kind: DType) -> int:
    """DLPack's code of a dtype: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool."""
    return next(code for begin, code in _CODES if str(kind).startswith(begin))


class Binder:
    """Collects what stands around a body that uses tensors: checks, and variables with values."""

    def __init__(self, function: str, known: Iterable[Var] = ()) -> None:
        self.function = function
        self.scopes: list[Stmt] = []
        self.known: set[Var] = set(known)
        self.on: tuple[PrimExpr, PrimExpr] | None = None

    def bind(self, handle: Var, buffer: Buffer) -> None:
        """The tensor that `handle` points to is `buffer` from here on."""
        name = f"{self.function}.{handle.name}"
        null = Call(dtype("bool"), "tir.isnullptr", (handle,))
        self.check(p.logical_not(null), f"{name} is expected to have non-NULL DLTensor* pointer")
        self.check_type(handle, buffer, name)
        self.shape(handle, buffer, name)
        self.strides(handle, buffer, name)
        self.offset(handle, buffer, name)
        self.device_of(handle, name)
        self.scopes.append(LetStmt(buffer.data, struct_get("handle", handle, 0, DATA), NOTHING))
        self.known.add(buffer.data)
        null = Call(dtype("bool"), "tir.isnullptr", (buffer.data,))
        empty = p.any_of(*(p.equal(x, 0) for x in buffer.shape)) if buffer.shape else p.const(False)
        given = p.logical_or(empty, p.logical_not(null))
        self.check(given, f"{name} is expected to have non-NULL data pointer")

    def check(self, condition: PrimExpr, message: str) -> None:
        """What has to hold of the arguments."""
        self.scopes.append(AssertStmt(condition, message, NOTHING))

    def check_type(self, handle: Var, buffer: Buffer, name: str) -> None:
        """The number of dimensions, and the dtype."""
        ndim = p.equal(struct_get("int32", handle, 0, NDIM), buffer.ndim)
        self.check(ndim, f"{name}.ndim is expected to equal {buffer.ndim}")
        kind = buffer.dtype
        asked = ((TYPE_CODE, "uint8", type_code(kind)), (TYPE_BITS, "uint8", kind.bits))
        same = [p.equal(struct_get(w, handle, 0, f), p.const(v, w)) for f, w, v in asked]
        lanes = p.const(p.lanes_of(kind), "uint16")
        same.append(p.equal(struct_get("uint16", handle, 0, TYPE_LANES), lanes))
        self.check(p.all_of(*same), f"{name}.dtype is expected to be {kind}")

    def shape(self, handle: Var, buffer: Buffer, name: str) -> None:
        """Each dimension gives its variable a value, or is checked."""
        found = self.array(handle, SHAPE, f"{handle.name}_shape", buffer.ndim)
        for i, extent in enumerate(buffer.shape):
            there = p.cast(extent.dtype, BufferLoad(found, (p.const(i),)))
            self.value(extent, there, f"{name}.shape[{i}]")

    def strides(self, handle: Var, buffer: Buffer, name: str) -> None:
        """Strides as the buffer says; of a compact one none, or the compact ones."""
        found = self.array(handle, STRIDES, f"{handle.name}_strides", buffer.ndim)
        missing = Call(dtype("bool"), "tir.isnullptr", (found.data,))
        if not buffer.strides:
            same: PrimExpr = p.const(True)
            expected: PrimExpr = p.const(1)
            for i in reversed(range(buffer.ndim)):
                there = p.cast(expected.dtype, BufferLoad(found, (p.const(i),)))
                same = p.logical_and(
                    same, p.logical_or(p.equal(buffer.shape[i], 1), p.equal(there, expected))
                )
                expected = p.multiply(expected, buffer.shape[i])
            compact = p.if_then_else(missing, p.const(True), same)
            self.check(compact, f"{name}.strides is expected to be compact array")
            return
        expected = p.const(1)
        values: list[tuple[int, PrimExpr]] = []
        for i in reversed(range(buffer.ndim)):
            there = p.cast(buffer.strides[i].dtype, BufferLoad(found, (p.const(i),)))
            value = p.if_then_else(missing, p.cast(there.dtype, expected), there)
            values.insert(0, (i, value))
            expected = p.multiply(expected, buffer.shape[i])
        for i, value in values:
            self.value(buffer.strides[i], value, f"{name}.strides[{i}]")

    def offset(self, handle: Var, buffer: Buffer, name: str) -> None:
        """The first element lies where the buffer says."""
        there = struct_get("uint64", handle, 0, BYTE_OFFSET)
        if buffer.elem_offset is None:
            same = p.equal(there, p.const(0, "uint64"))
            self.check(same, f"{name}.byte_offset is expected to equal 0")
            return
        size = p.const(buffer.dtype.nbytes, "uint64")
        to = buffer.elem_offset.dtype
        elements = p.cast(to, p.floordiv(there, size))
        self.value(buffer.elem_offset, elements, f"{name}.elem_offset")

    def device_of(self, handle: Var, name: str) -> None:
        """The first tensor says the device; the others are on it."""
        kind = struct_get("int32", handle, 0, DEVICE_TYPE)
        number = struct_get("int32", handle, 0, DEVICE_ID)
        if self.on is None:
            self.on = (Var("dev_type", dtype("int32")), Var("dev_id", dtype("int32")))
        for there, expected, word in zip((kind, number), self.on, ("type", "id"), strict=True):
            self.value(expected, there, f"{name}.device_{word}")

    def device(self, target: Target) -> tuple[PrimExpr, PrimExpr]:
        """The kind and number of the device that the tensors are on."""
        from mlcnb.tir.transform.make_unpacked_api import device_type

        assert self.on is not None
        expected = device_type(target)
        self.check(
            p.equal(self.on[0], expected),
            f"{self.function}: device_type is expected to equal {expected}",
        )
        return self.on

    def array(self, handle: Var, field: int, name: str, size: int) -> Buffer:
        """A field that points to numbers of 64 bits, as a buffer."""
        data = Var(f"{name}_data", dtype("handle"), ("int64", "global"))
        buffer = decl_buffer((size,), "int64", name, data=data)
        self.scopes.append(LetStmt(data, struct_get("handle", handle, 0, field), NOTHING))
        self.scopes.append(DeclBuffer(buffer, NOTHING))
        return buffer

    def value(self, expected: PrimExpr, there: PrimExpr, name: str) -> None:
        """A variable that is not known yet is what stands there; all else has to be equal to it."""
        if isinstance(expected, Var) and expected not in self.known:
            self.known.add(expected)
            self.scopes.append(LetStmt(expected, there, NOTHING))
            return
        open_vars = [v.name for v in undefined_vars(expected) if v not in self.known]
        if open_vars:
            raise UnsupportedError(
                f"MakePackedAPI: {name} is {display.text(expected)}: {open_vars[0]} is not known "
                "there",
                where=expected,
                hint="give a parameter whose dimension is the variable alone first",
            )
        same = p.equal(there, expected)
        if not isinstance(same, e.IntImm):
            self.check(same, f"{name} is expected to equal {display.text(expected)}")
