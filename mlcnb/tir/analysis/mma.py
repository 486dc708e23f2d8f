"""Tensor cores by warps: D = A @ B + D for 16 x 8 x depth, all of it in registers (sm_80).

| operands | sums | shape | PTX |
| --- | --- | --- | --- |
| float16, bfloat16 | float32 | m16n8k16 | mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 |
| int8 | int32, which wrap around | m16n8k32 | mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 |
| float32 as tf32 | float32 | m16n8k8 | mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 |

What float32 loses on its way into tensor cores is said once, by `as_tf32`: 13 of 23 bits behind
the point are rounded off (`cvt.rna.tf32.f32`), which is up to 2^-11 of each operand.

A register has 32 bits: `lanes` elements that are neighbours along k. Thread t = 4 * group + pair
holds at place l of its fragment (PTX ISA, "Matrix fragments for mma.m16n8k16", "… m16n8k32",
"… m16n8k8", where tf32 has one element a register)

    A 16 x depth    [group + 8 * (r % 2), lanes * pair + l % lanes + depth / 2 * (r // 2)]
    B depth x 8     [lanes * pair + l % lanes + depth / 2 * r, group]          r = l // lanes
    C 16 x 8        [group + 8 * (l // 2), 2 * pair + l % 2]

`ldmatrix` moves matrices of 8 rows of 16 bytes: a thread gets `lanes` neighbours of a row of each.
What it turns on the way are pairs of bytes, so only elements of two bytes can be turned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from mlcnb.core.errors import UnsupportedOpError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr

MMA, LDMATRIX = "tir.ptx_mma", "tir.ptx_ldmatrix"
#: threads of a warp; rows of a product
WARP, SIDE = 32, 16
#: bytes of a register; of a row of a matrix that `ldmatrix` moves
REGISTER, ROW = 4, 16
#: where the fragments of A, B and C are among the arguments of a product
FRAGMENTS = (6, 8, 10)


class Kind(NamedTuple):
    """How a dtype is called: in calls, in PTX, and in the names of intrinsics."""

    dtype: str
    word: str
    ptx: str
    short: str


_F32, _I32 = Kind("float32", "fp32", "f32", "f32"), Kind("int32", "int32", "s32", "i32")


@dataclass(frozen=True)
class Form:
    """A product that tensor cores know: kinds of its operands and of its sums; nbytes: of an
    element of the operands.
    """

    given: Kind
    sums: Kind
    nbytes: int

    @property
    def lanes(self) -> int:
        """Elements of the operands in a register."""
        return REGISTER // self.nbytes

    @property
    def depth(self) -> int:
        """Elements along k: four threads have two registers each."""
        return 8 * self.lanes

    @property
    def is_rounded(self) -> bool:
        """True where the operands are rounded first, to tf32."""
        return self.given.word == "tf32"

    def taken(self, x: PrimExpr) -> PrimExpr:
        """An operand as the product takes it."""
        return as_tf32(x) if self.is_rounded else x

    @property
    def shape(self) -> str:
        """m16n8k32"""
        return f"m16n8k{self.depth}"

    @property
    def words(self) -> tuple[str, ...]:
        """What a call says before its fragments."""
        return (self.shape, "row", "col", self.given.word, self.given.word, self.sums.word)

    @property
    def own(self) -> tuple[tuple[int, int, int], ...]:
        """Arguments that are registers, how many elements a thread gives, and bytes of each."""
        a, b, c = FRAGMENTS
        return (a, 4 * self.lanes, self.nbytes), (b, 2 * self.lanes, self.nbytes), (c, 4, REGISTER)

    @staticmethod
    def of(call: e.Call) -> Form:
        """What a call of `ptx_mma` says.

        Raises:
            UnsupportedOpError: there is no such product.
        """
        words = tuple(getattr(x, "value", None) for x in call.args[:6])
        saturates = len(call.args) > 12 and not p.is_const(call.args[12], 0)
        found = next((x for x in FORMS.values() if x.words == words), None)
        if found is None or saturates:
            told = " ".join(map(str, words)) + " that saturates" * saturates
            known = (f"{x.shape} of {x.given.word} into {x.sums.word}" for x in FORMS.values())
            raise UnsupportedOpError(
                f"there is no mma.sync {told}",
                hint=f"row col, without saturation: {', '.join(known)}",
            )
        return found

    def layout_a(self, i: Any, k: Any) -> tuple[Any, Any]:
        """Where element (i, k) of a tile of A, 16 x depth, lies: (thread, place in the thread)."""
        n, half = self.lanes, self.depth // 2
        return 4 * (i % 8) + k % half // n, 2 * n * (k // half) + n * (i // 8) + k % n

    def layout_b(self, k: Any, j: Any) -> tuple[Any, Any]:
        """Where element (k, j) of a tile of B, depth x 8, lies: (thread, place in the thread)."""
        n, half = self.lanes, self.depth // 2
        return 4 * j + k % half // n, n * (k // half) + k % n

    def layout_b_16(self, k: Any, j: Any) -> tuple[Any, Any]:
        """The same for two tiles side by side, depth x 16."""
        n, half = self.lanes, self.depth // 2
        return 4 * (j % 8) + k % half // n, 2 * n * (j // 8) + n * (k // half) + k % n

    def place_a(self, t: Any, l: Any) -> tuple[Any, Any]:
        """Row and column of what thread t has at place l of a fragment of A."""
        n, half = self.lanes, self.depth // 2
        return t // 4 + 8 * (l // n % 2), t % 4 * n + l % n + half * (l // (2 * n))

    def place_b_16(self, t: Any, l: Any) -> tuple[Any, Any]:
        """The same as `place_b` for two tiles side by side."""
        own = 2 * self.lanes
        row, column = self.place_b(t, l % own)
        return row, column + 8 * (l // own)

    def place_b(self, t: Any, l: Any) -> tuple[Any, Any]:
        """Row and column of what thread t has at place l of a fragment of B."""
        n, half = self.lanes, self.depth // 2
        return t % 4 * n + l % n + half * (l // n), t // 4


#: dtype of the operands -> the product of them
FORMS = {
    "float16": Form(Kind("float16", "fp16", "f16", "f16"), _F32, 2),
    "bfloat16": Form(Kind("bfloat16", "bf16", "bf16", "bf16"), _F32, 2),
    "int8": Form(Kind("int8", "int8", "s8", "i8"), _I32, 1),
    "float32": Form(Kind("float32", "tf32", "tf32", "tf32"), _F32, 4),
}


def as_tf32(x: PrimExpr) -> PrimExpr:
    """A float32 as tensor cores take it: to the nearest of 11 bits, ties away from zero.

    What is not a number stays none; beyond the largest is infinity (PTX ISA, "cvt", `.rna.tf32`).
    """
    bits = e.Call(dtype("uint32"), "tir.reinterpret", (x,))
    near = p.bitwise_and(bits + p.const(0x1000, "uint32"), p.const(0xFFFFE000, "uint32"))
    is_none = e.Call(dtype("bool"), "tir.isnan", (x,))
    return p.select(is_none, x, e.Call(x.dtype, "tir.reinterpret", (near,)))


def layout_c(i: Any, j: Any) -> tuple[Any, Any]:
    """Where element (i, j) of a 16 x 8 tile of C lies: (thread, place in the thread)."""
    return 4 * (i % 8) + j // 2, 2 * (i // 8) + j % 2


def place_c(t: Any, l: Any) -> tuple[Any, Any]:
    """Row and column of what thread t has at place l of a fragment of C."""
    return t // 4 + 8 * (l // 2), t % 4 * 2 + l % 2


def neighbours(call: e.Call) -> int:
    """Elements that a thread gets of each matrix of `ptx_ldmatrix`.

    Raises:
        UnsupportedOpError: there is no such load.
    """
    turned, _, kind = call.args[:3]
    nbytes = call.dtype.nbytes
    if getattr(kind, "value", None) != ".b16" or nbytes not in (1, 2, 4):
        raise UnsupportedOpError(
            f"there is no ldmatrix of {getattr(kind, 'value', kind)} with {call.dtype}",
            hint=".b16, with elements of one, two or four bytes",
        )
    if nbytes != 2 and not p.is_const(turned, 0):
        raise UnsupportedOpError(
            f"ldmatrix turns pairs of bytes, and {call.dtype} has {nbytes}",
            hint="put the tile into shared memory with k along its rows"
            + ", or load it element by element" * (nbytes == 4),
        )
    return REGISTER // nbytes


def flops_of_thread(call: e.Call) -> int:
    """A thread's share of a warp's product: `m16n8k16` is 2 * 16 * 8 * 16 by 32 threads."""
    sizes = re.findall(r"\d+", str(getattr(call.args[0], "value", "")))
    return 2 * prod(map(int, sizes)) // WARP


def operands_of(call: e.Call) -> str:
    """What a product multiplies: a dtype, or "tf32", as float32 is taken."""
    word = str(getattr(call.args[3], "value", ""))
    kinds = {form.given.word: form.given.dtype for form in FORMS.values() if not form.is_rounded}
    return kinds.get(word, word)


def own_of(call: e.Call) -> tuple[tuple[int, int, int], ...]:
    """The registers of a product or of a load, as `Form.own` says."""
    if call.op == MMA:
        return Form.of(call).own
    count = p.as_int(call.args[1]) or 4
    return ((3, count * neighbours(call), call.dtype.nbytes),)
