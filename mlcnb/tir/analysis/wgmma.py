"""Tensor cores by warpgroups: D += A @ B for 64 x n x 16, operands in shared memory (sm_90a).

    wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16

A warpgroup is four warps that follow each other, the first of them a multiple of four. The sums lie
in registers of its threads, a buffer of scope "warp" with a row of n / 2 for each thread of a warp:
thread t of warp w has at place l (PTX ISA, "wgmma.mma_async.m64nNk16")

    D 64 x n    row 16 * w + t // 4 + 8 * (l // 2 % 2), column 8 * (l // 4) + t % 4 * 2 + l % 2

A and B are found by matrix descriptors: where they begin, two distances in bytes, and how rows of
`swizzle` bytes are shuffled. With r of the side that is kept (m of A, n of B), before the shuffle

    along k        byte  begin + r // 8 * stride + r % 8 * swizzle + 2 k
    along the side byte  begin + 2 r // swizzle * leading + 2 r % swizzle
                               + k // 8 * stride + k % 8 * swizzle

and of that byte's address the bits from 4 on are changed by those from 7 on: three of them where
rows are 128 bytes, two or one where they are 64 or 32. So tiles begin at multiples of 1024 bytes.

    T.ptx_wgmma("float16", "m64n128k16", "k", "n", 4, C.data, at_c,
                A.data, at_a, 16, 1024, 32, B.data, at_b, 8192, 1024, 2048, 128)

is what a warpgroup does for one tile of operands: four such products, each operand `step` bytes
behind the one before it, and a wait for the last one. `wgmma.fence`, `commit_group` and
`wait_group` are part of it: sums are never read, and operands never overwritten, too early.
Sources: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", "Strides", "Matrix Descriptor
Format".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlcnb.arith.evaluate import evaluate
from mlcnb.core.errors import UnsupportedOpError
from mlcnb.core.node import Node, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import Launch, numbered
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.functor import bodies, heads

WGMMA = "tir.ptx_wgmma"
#: rows of a product, k of one, threads that do it, bytes of an element
ROWS, DEPTH, WARPGROUP, SIZE = 64, 16, 128, 2
#: bytes of a row of a tile -> how a descriptor names their shuffle
SWIZZLES = {128: 1, 64: 2, 32: 3}
#: tiles begin at multiples of it: eight rows of 128 bytes
ALIGNMENT = 1024
#: the arguments of a call that are the sums, before their place; and those that begin an operand
SUMS, OPERANDS = 4, (6, 11)


def place_c(t: Any, l: Any) -> tuple[Any, Any]:
    """Row and column of what thread t of a warpgroup has at place l of the sums."""
    return t // 32 * 16 + t % 32 // 4 + 8 * (l // 2 % 2), 8 * (l // 4) + t % 4 * 2 + l % 2


@dataclass(frozen=True)
class Operand:
    """A matrix in shared memory, as its descriptor tells of it.

    Attributes:
        length: rows of A, or columns of B.
        along_k: elements of one row or column lie side by side; else those of one k do.
        leading, stride, step: bytes.
        swizzle: bytes of a row in memory.
    """

    length: int
    along_k: bool
    leading: int
    stride: int
    step: int
    swizzle: int

    def place(self, begin: Any, side: Any, k: Any, number: Any = 0) -> Any:
        """Where an element lies, in elements: numbers or expressions.

        Args:
            begin: where the first of the products begins, in elements.
            side, k: row of A or column of B, and k below 16.
            number: of the product.
        """
        row = self.swizzle // SIZE
        if self.along_k:
            there = side // 8 * (self.stride // SIZE) + side % 8 * row + k
        else:
            there = side // row * (self.leading // SIZE) + side % row
            there = there + k // 8 * (self.stride // SIZE) + k % 8 * row
        at = begin + number * (self.step // SIZE) + there
        return at ^ (at // 64 % (self.swizzle // 16) * 8)

    def reach(self, count: int) -> int:
        """Elements from the begin on that `count` products touch, in whole shuffles."""
        side, last = self.length - 1, DEPTH - 1
        if self.along_k:
            there = side // 8 * self.stride + 7 * self.swizzle + last * SIZE
        else:
            there = side * SIZE // self.swizzle * self.leading + self.swizzle - SIZE
            there += last // 8 * self.stride + 7 * self.swizzle
        there += self.step * (count - 1) + SIZE
        return -(-there // ALIGNMENT) * (ALIGNMENT // SIZE)


@dataclass(frozen=True)
class Product:
    """What a call of `ptx_wgmma` says.

    Attributes:
        columns: of the sums.
        dtype: of the operands.
        count: products of 16 that follow each other along k.
    """

    columns: int
    dtype: str
    count: int
    a: Operand
    b: Operand

    @property
    def own(self) -> int:
        """Sums of a thread."""
        return self.columns // 2

    @property
    def flops_of_thread(self) -> int:
        """A thread's share of all of them: each adds `DEPTH` products to each of its sums."""
        return 2 * self.own * DEPTH * self.count

    @staticmethod
    def of(call: e.Call) -> Product:
        """Read a call.

        Raises:
            UnsupportedOpError: no product that the instruction can do, and what is wrong with it.
        """
        shape, a_major, b_major = (getattr(x, "value", None) for x in call.args[:3])
        columns, count, dtype = _columns(shape), p.as_int(call.args[3]), str(call.dtype)
        swizzle = p.as_int(call.args[16])
        if columns is None:
            raise _refused(f"shape {shape}", 'f"m64n{n}k16", n a multiple of 8 up to 256')
        if dtype not in ("float16", "bfloat16"):
            raise _refused(f"operands of {dtype}", "float16 or bfloat16, with sums in float32")
        if a_major not in ("k", "m") or b_major not in ("k", "n"):
            raise _refused(f"operands along {a_major} and {b_major}", '"k" or "m", "k" or "n"')
        if count is None or count < 1:
            raise _refused(f"{call.args[3]} products", "a number, at least 1")
        if swizzle not in SWIZZLES:
            raise _refused(f"rows of {swizzle} bytes", "128, 64 or 32")
        sides = []
        for first, length, major in ((8, ROWS, a_major), (13, columns, b_major)):
            steps = [p.as_int(x) for x in call.args[first : first + 3]]
            if any(x is None or x < 0 or x % 16 or x >= 1 << 18 for x in steps):
                raise _refused(
                    f"distances of {steps} bytes", "numbers under 262,144, multiples of 16"
                )
            leading, stride, step = (x or 0 for x in steps)
            sides.append(Operand(length, major == "k", leading, stride, step, swizzle))
        return Product(columns, dtype, count, *sides)


def _columns(shape: Any) -> int | None:
    """n of m64nNk16; None where the instruction has no such shape."""
    middle = str(shape).removeprefix("m64n").removesuffix("k16")
    if f"m64n{middle}k16" != shape or not middle.isdecimal():
        return None
    n = int(middle)
    return n if n % 8 == 0 and 8 <= n <= 256 and str(n) == middle else None


def _refused(what: str, hint: str) -> UnsupportedOpError:
    return UnsupportedOpError(f"ptx_wgmma has no {what}", hint=hint)


def apart(launch: Launch) -> Iterator[tuple[str, s.Stmt, str]]:
    """Products that not all threads of a warpgroup come by: what is wrong, where, what to try.

    A condition may take whole warpgroups, and leave the others.
    """
    every = _products(launch.body)
    if not every:
        return
    varying, taken = {axis.var for axis in launch.in_block.values()}, set[e.Call]()
    threads, frame = numbered(launch)

    def varies(*parts: Node | None) -> bool:
        inside = (x for part in parts if part is not None for x in walk(part))
        return any(
            x in varying if isinstance(x, e.Var) else isinstance(x, BufferLoad) for x in inside
        )

    for n in walk(launch.body):
        if not isinstance(n, s.Stmt) or not bodies(n) or not varies(*heads(n)):
            continue
        if isinstance(n, s.LetStmt):
            varying.add(n.var)
            continue
        found = _products(n)
        if isinstance(n, s.IfThenElse):
            holds = evaluate(n.condition, frame, None)
            for case, mask in ((n.then_case, holds), (n.else_case, np.logical_not(holds))):
                if case is not None and holds is not None and _is_whole(mask, threads):
                    taken |= _products(case)
        if found - taken:
            yield (
                "ptx_wgmma stands under a condition, or in a loop, that differs by thread: the "
                "four warps of a warpgroup come by together", n, "move it out of the condition",
            )  # fmt: skip
    if threads % WARPGROUP and every - taken:
        told = f"ptx_wgmma is done by warpgroups of {WARPGROUP} threads, and a block has {threads}"
        yield told, launch.body, "bind a multiple of 4 to threadIdx.y"


def _products(n: s.Stmt) -> set[e.Call]:
    return {x for x in walk(n) if isinstance(x, e.Call) and x.op == WGMMA}


def _is_whole(holds: Any, threads: int) -> bool:
    """True if of each warpgroup a condition holds for all threads, or for none."""
    groups = np.zeros((-(-threads // WARPGROUP), WARPGROUP), bool)
    groups.flat[:threads] = holds
    return bool((groups.all(1) | ~groups.any(1)).all())
