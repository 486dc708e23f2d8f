"""Copies in bulk that complete barriers (sm_90): what the calls say.

    T.create_barriers(3)                                  in shared memory; each thread comes by
    T.ptx_init_barrier_thread_count(0, 1)                 one thread; then T.tvm_storage_sync
    T.ptx_arrive_barrier_expect_tx(0, 16384)              one thread arrives, and announces bytes
    T.ptx_cp_async_bulk("float16", S.data, at, A.data, start, 16384, 0)
    T.ptx_wait_barrier(0, 0)                              who needs the bytes waits

A barrier goes through phases, 0, 1, 2 …; one ends when as many threads have arrived as it counts
(`ptx_arrive_barrier`, or with an announcement of bytes) and all bytes announced in it have come.
`ptx_wait_barrier(number, parity)` waits for the end of the phase of that parity: it goes on where
the phase that runs has the other one. Bytes are announced before the copies that bring them.

    T.ptx_cp_async_bulk_tensor("float16", S.data, at, A.data, height, width, row, column,
                               box_rows, box_columns, swizzle, 0)

brings a box of a matrix in rows (`A[row:row + box_rows, column:column + box_columns]`), what lies
outside of it as zeros; all bytes of the box count. With a swizzle of 128, 64 or 32 bytes, which
rows of the box then are long, pieces of 16 bytes are shuffled as `wgmma` wants them: of the address
of a byte the bits from 4 on are changed by those from 7 on, three of them, two or one.
Sources: PTX ISA, "mbarrier", "cp.async.bulk", "cp.async.bulk.tensor", "Swizzling Modes"; CUDA
Driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlcnb.core.errors import UnsupportedOpError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p

BULK, BOX = "tir.ptx_cp_async_bulk", "tir.ptx_cp_async_bulk_tensor"
CREATE, INIT = "tir.create_barriers", "tir.ptx_init_barrier_thread_count"
ARRIVE, EXPECT = "tir.ptx_arrive_barrier", "tir.ptx_arrive_barrier_expect_tx"
WAIT = "tir.ptx_wait_barrier"
#: copies that complete barriers, and what threads do with barriers
BULKS, BARRIERS = (BULK, BOX), (CREATE, INIT, ARRIVE, EXPECT, WAIT)
#: bytes that a copy moves, and begins at, are a multiple of it; of a box in shared memory
PIECE, BEGIN = 16, 128
#: bytes of shared memory that a barrier takes
BARRIER_BYTES = 8
#: the most barriers of a kernel; rows or columns of a box, and of a matrix; threads that a barrier
#: counts; bytes announced in a phase
MOST_BARRIERS = 256
MOST, MOST_EXTENT, MOST_THREADS, MOST_BYTES = 256, 1 << 31, (1 << 20) - 1, (1 << 20) - 1
#: bytes of a row of a box that is shuffled; 0: it is not
SWIZZLES = (0, 32, 64, 128)
#: dtypes of a matrix
DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "uint32")


def number_of(call: e.Call) -> Any:
    """The number of the barrier that a call names."""
    return call.args[-1] if call.op in BULKS else call.args[0]


def parity_of(call: e.Call) -> Any:
    """The parity of the phase that a thread waits for; of the first one where it is not said."""
    return call.args[1] if len(call.args) > 1 else p.const(0)


@dataclass(frozen=True)
class Matrix:
    """A matrix in rows, and the box of it that is copied at once: what a tensor map is made of.

    Attributes:
        dtype: of the elements.
        height, width: of the matrix; its rows lie side by side.
        rows, columns: of the box.
        swizzle: bytes of a row of the box, which is shuffled; 0 where it is not.
    """

    dtype: str
    height: int
    width: int
    rows: int
    columns: int
    swizzle: int

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return p.const(0, self.dtype).dtype.nbytes

    @property
    def nbytes(self) -> int:
        """Of the box."""
        return self.rows * self.columns * self.size

    @property
    def alignment(self) -> int:
        """A box begins at multiples of so many bytes: the shuffle counts from there."""
        return max(BEGIN, 8 * self.swizzle)

    def place(self, begin: Any, row: Any, column: Any) -> Any:
        """Where an element of the box lies, in elements: numbers or expressions."""
        at = begin + row * self.columns + column
        if not self.swizzle:
            return at
        piece, line = PIECE // self.size, 128 // self.size
        return at ^ (at // line % (self.swizzle // PIECE) * piece)

    @staticmethod
    def of(call: e.Call) -> Matrix:
        """Read a call of `ptx_cp_async_bulk_tensor`.

        Raises:
            UnsupportedOpError: no box that the instruction can copy, and what is wrong with it.
        """
        kind = call.dtype
        height, width, rows, columns, swizzle = (p.as_int(call.args[n]) for n in (3, 4, 7, 8, 9))
        if str(kind) not in DTYPES:
            raise _refused(f"matrix of {kind}", ", ".join(DTYPES))
        if any(n is None or not 1 <= n < MOST_EXTENT for n in (height, width)):
            raise _refused(
                f"matrix of {call.args[3]} x {call.args[4]}", f"numbers from 1 to {MOST_EXTENT - 1}"
            )
        if any(n is None or not 1 <= n <= MOST for n in (rows, columns)):
            raise _refused(
                f"box of {call.args[7]} x {call.args[8]}", f"numbers from 1 to {MOST} on each side"
            )
        if width * kind.nbytes % PIECE:  # type: ignore[operator]
            raise _refused(
                f"matrix with rows of {width * kind.nbytes} bytes",  # type: ignore[operator]
                f"a multiple of {PIECE} bytes",
            )
        inner = columns * kind.nbytes  # type: ignore[operator]
        if inner % PIECE:
            raise _refused(f"box with rows of {inner} bytes", f"a multiple of {PIECE} bytes")
        if swizzle not in SWIZZLES:
            raise _refused(f"swizzle of {call.args[9]} bytes", ", ".join(map(str, SWIZZLES)))
        if swizzle and inner != swizzle:
            raise _refused(
                f"box with rows of {inner} bytes and a swizzle of {swizzle}",
                "rows as long as the swizzle: several boxes make a longer one",
            )
        return Matrix(str(kind), height, width, rows, columns, swizzle)  # type: ignore[arg-type]


def bytes_of(call: e.Call) -> int:
    """Bytes that a copy brings.

    Raises:
        UnsupportedOpError: no copy that the instruction can do.
    """
    if call.op == BOX:
        return Matrix.of(call).nbytes
    size = p.as_int(call.args[4])
    if size is None or size < PIECE or size % PIECE or size > MOST_BYTES:
        raise UnsupportedOpError(
            f"ptx_cp_async_bulk copies no {call.args[4]} bytes",
            hint=f"a number, a multiple of {PIECE} up to {MOST_BYTES}",
        )
    if size % call.dtype.nbytes:
        raise UnsupportedOpError(f"{size} bytes are no whole elements of {call.dtype}")
    return size


def _refused(what: str, hint: str) -> UnsupportedOpError:
    return UnsupportedOpError(f"ptx_cp_async_bulk_tensor has no {what}", hint=hint)
