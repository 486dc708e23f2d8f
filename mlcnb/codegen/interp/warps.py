"""What the threads of a warp do together on fragments: products, and loads of matrices.

A thread takes what others have in their registers, or rows that they name: where these are follows
from what is said for its own lane, asked for another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.codegen.interp import instructions
from mlcnb.codegen.interp.accesses import AccessCompiler
from mlcnb.codegen.interp.expressions import Closure, Frame, _text
from mlcnb.core.errors import ExecutionError, UnsupportedOpError
from mlcnb.ir import expr as e


class WarpCompiler(AccessCompiler):
    """Adds instructions of warps to expressions."""

    def __init__(self, record: Any) -> None:
        super().__init__(record)
        #: the slot of what is bound to threadIdx.x around the place that is compiled
        self.lanes: int | None = None

    def _matrix_product(self, x: e.Call) -> Closure:
        """`ptx_mma`: shape, layouts and dtypes as texts, then (fragment, offset) of A, B, C."""
        shape = _text(x.args[0])
        if shape != "m16n8k16":
            raise UnsupportedOpError(f"the interpreter knows no tensor core product {shape}")
        memory = [self.compile(a) for a in x.args[6:12:2]]
        places = [self.compile(a) for a in x.args[7:12:2]]

        lane = self.lane_slot(x)

        def run(f: Frame) -> int:
            zero, one = _as_lane(f, lane, 0), _as_lane(f, lane, 1)
            instructions.matrix_product(
                [m(f) for m in memory],
                [at(f) for at in places],
                [at(one) - at(zero) for at in places],
                f[lane],
            )
            return 0

        return run

    def lane_slot(self, x: e.Call) -> int:
        """The slot of the lane of a warp.

        Raises:
            UnsupportedOpError: nothing is.
        """
        if self.lanes is None:
            raise UnsupportedOpError(
                f"{x.op} is done by a warp, and no loop is bound to threadIdx.x"
            )
        return self.lanes

    def _loaded_matrices(self, x: e.Call) -> Closure:
        """`ptx_ldmatrix`: what a thread takes of each matrix, of rows that other threads name."""
        if getattr(x.args[2], "value", None) != ".b16" or x.dtype.nbytes != 2:
            raise UnsupportedOpError(f"the interpreter knows no ldmatrix of {x.dtype}")
        turned, count = (self.compile(a) for a in x.args[:2])
        own, at, memory, row = (self.compile(a) for a in x.args[3:7])
        lane, look = self.lane_slot(x), self.look(x)

        def run(f: Frame) -> int:
            registers, first, thread = own(f), at(f), f[lane]
            for n in range(2 * count(f)):
                line, place = thread // 4, thread % 4 * 2 + n % 2
                if turned(f):
                    line, place = place, line
                begins = row(_as_lane(f, lane, n // 2 * 8 + line))
                registers[first + n] = look(f, memory(f), begins + place)
            return 0

        return run

    def look(self, x: e.Call) -> Callable[[Frame, Any, int], Any]:
        """Reads an element of an array, for a call that gets pointers."""

        def read(f: Frame, array: Any, place: int) -> Any:
            if not 0 <= place < len(array):
                raise ExecutionError(f"out of bounds: {x.op} reads element {place}", where=x)
            return array[place]

        return read


def _as_lane(f: Frame, slot: int, lane: int) -> Frame:
    """The frame of another lane of the warp, for what differs by it only."""
    other = list(f)
    other[slot] = lane
    return other
