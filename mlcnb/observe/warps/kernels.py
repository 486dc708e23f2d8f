"""A kernel as its warps see it: its grid, its blocks, its loads and stores as instructions.

    kernel = kernels_of(func)[0]
    kernel.grid, kernel.block         (32, 32, 1), (32, 8, 1)
    kernel.instructions               number of a site -> Instruction

The program is the lowered one, whose loads and stores are those of the CUDA C++; loops that are
written out there are loops here. Registers (scope "local") are no memory and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlcnb.arith import Analyzer
from mlcnb.arith.evaluate import Frame
from mlcnb.codegen.cuda.emit.expr import Emitter
from mlcnb.codegen.cuda.emit.vector import is_block
from mlcnb.core.errors import MLCError
from mlcnb.core.node import replace, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir.prim_ops import as_int
from mlcnb.machine.addresses import Array, Placed, named
from mlcnb.machine.warp import LANES
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import SHARED_SCOPES, Launch, kernels_in, launch_of
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.transform.lower import lower

#: sizes in x, y and z, or a place in such a box
Sizes = tuple[int, int, int]
#: what is in memory that is counted
GLOBAL, SHARED = "global", "shared"


@dataclass(frozen=True)
class Instruction:
    """A load or store of one warp.

    Attributes:
        number: of its site in the program.
        array: what it touches.
        memory: GLOBAL or SHARED.
        is_write: a store.
        width: bytes that each lane moves at once.
        text: `A_shared[ax1 * 33 + ax0]`, as in the lowered program: of several elements the first.
        shape, strides: of the array as the schedule has it, in elements.
    """

    number: int
    array: Array
    memory: str
    is_write: bool
    width: int
    text: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def verb(self) -> str:
        """`read` or `write`."""
        return "write" if self.is_write else "read"

    def element(self, at: int) -> str:
        """`A_shared[3, 5]`: what lies so many bytes from where the array begins."""
        rest, found = at // self.array.itemsize, []
        for stride in self.strides:
            found.append(rest // stride)
            rest %= stride
        return f"{self.array.name}[{', '.join(map(str, found))}]"


@dataclass(frozen=True)
class Kernel:
    """One launch of a function.

    Attributes:
        name: of the function; number: of the launch in it, of `launches`.
        program: the lowered function, each load and store named.
        launch: its axes, and what each thread does.
        grid, block: how many blocks there are, and threads in each.
        instructions: those whose address is known, by the number of their site.
        unseen: those whose address is not, as text, with the reason.
    """

    name: str
    number: int
    launches: int
    program: Placed
    launch: Launch
    grid: Sizes
    block: Sizes
    instructions: dict[int, Instruction]
    unseen: dict[str, str]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return int(np.prod(self.block))

    @property
    def warps(self) -> int:
        """Warps of a block; the last one may be short of lanes."""
        return -(-self.threads // LANES)

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return int(np.prod(self.grid))

    def at(self, block: int) -> Sizes:
        """Where the block of a number lies in the grid: x fastest."""
        return place(block, self.grid)

    def thread_frame(self, threads: np.ndarray) -> Frame:
        """The thread axes' values for threads by number: x fastest, as CUDA counts them."""
        x, y, z = (np.asarray(n) for n in place(threads, self.block))
        of_axis = {"threadIdx.x": x, "threadIdx.y": y, "threadIdx.z": z}
        return {axis.var: of_axis[tag] for tag, axis in self.launch.in_block.items()}

    def block_frame(self, at: Sizes) -> Frame:
        """The block axes' values."""
        of_axis = dict(zip(("blockIdx.x", "blockIdx.y", "blockIdx.z"), at, strict=True))
        return {axis.var: of_axis[tag] for tag, axis in self.launch.grid.items()}


def place(number: Any, sizes: Sizes) -> Any:
    """(x, y, z) of a number in a box, x fastest."""
    x, y, _ = sizes
    return number % x, number // x % y, number // (x * y)


def kernels_of(func: PrimFunc, name: str = "") -> list[Kernel]:
    """The kernels of a function that is bound to threads, in order.

    Raises:
        MLCError: it has none, or sizes that are not known.
        PassError: it cannot be lowered.
    """
    steps = lower(func, steps=True)
    program = named(steps["UnrollLoop"].before)
    layouts = dict(_layouts(steps["FlattenBuffer"].before))
    found = list(kernels_in(program.func.body))
    if not found:
        raise MLCError(
            "warp_lens: no loop is bound to threads",
            hint='bind its loops: sch.bind(loop, "threadIdx.x")',
        )
    symbol = name or str(func.attrs.get("global_symbol") or "main")
    return [
        _kernel(symbol, number, len(found), program, launch_of(n), layouts)
        for number, n in enumerate(found)
    ]


def _kernel(
    name: str, number: int, count: int, program: Placed, launch: Launch, layouts: dict[Any, Any]
) -> Kernel:
    grid, block = (_sizes(launch, part) for part in ("blockIdx", "threadIdx"))
    unseen = dict(_through_pointers(launch.body))
    instructions = {}
    for n, is_wide in _accesses(launch):
        site = program.sites[program.numbers[n.buffer]]
        scope = site.node.buffer.scope
        if scope == "local" or scope.startswith(("wmma", "warp", "m16n8k8")):
            continue
        array = program.arrays[site.array]
        lanes = n.indices[-1].dtype.lanes if n.indices and is_wide else 1
        key = program.numbers[n.buffer]
        shape, strides = layouts.get(site.node.buffer.data, (array.shape, ()))
        memory = SHARED if scope in SHARED_SCOPES else GLOBAL
        instructions[key] = Instruction(
            key, array, memory, site.is_write, site.itemsize * lanes, words_in(program, n), shape,
            strides or _dense(shape),
        )  # fmt: skip
    return Kernel(name, number, count, program, launch, grid, block, instructions, unseen)


def words_in(program: Placed, n: Any) -> str:
    """`A[i]` of a load or store of a kernel's program: buffers have the names of their arrays."""
    from mlcnb.script import text_of

    def named_again(x: Any) -> Any:
        if isinstance(x, e.Call) and x.op == "tir.check_index":
            return x.args[0]
        if not isinstance(x, BufferLoad):
            return None
        site = program.sites[program.numbers[x.buffer]]
        return replace(x, buffer=replace(x.buffer, name=program.arrays[site.array].name))

    first = [i.base if isinstance(i, e.Ramp) else i for i in n.indices]
    indices = ", ".join(text_of(rewrite(i, named_again)) for i in first)
    array = program.sites[program.numbers[n.buffer]].array
    return f"{program.arrays[array].name}[{indices}]"


def _sizes(launch: Launch, part: str) -> Sizes:
    found = []
    for axis in "xyz":
        bound = launch.axes.get(f"{part}.{axis}")
        extent = 1 if bound is None else as_int(bound.dom.extent)
        if extent is None:
            raise MLCError(
                f"warp_lens: {part}.{axis} is as long as the arguments say",
                hint="take a program of fixed sizes: small ones show the same",
            )
        found.append(extent)
    return (found[0], found[1], found[2])


def _accesses(launch: Launch) -> Iterator[tuple[Any, bool]]:
    """Loads and stores of a kernel, and whether all lanes of a vector go at once."""
    emitter = Emitter()
    for axis in launch.axes.values():
        emitter.analyzer.bind(axis.var, axis.dom)
    pointed = {id(x) for n in walk(launch.body) if _is_pointer(n) for x in walk(n)}
    for n in walk(launch.body):
        if isinstance(n, s.For):
            emitter.analyzer.bind(n.loop_var, e.Range(n.min, n.extent))
        if isinstance(n, BufferLoad | s.BufferStore) and id(n) not in pointed:
            yield n, bool(n.indices) and is_block(emitter, n)


def _is_pointer(n: Any) -> bool:
    return isinstance(n, e.Call) and n.op in ("tir.address_of", "tir.tvm_access_ptr")


def _through_pointers(body: s.Stmt) -> Iterator[tuple[str, str]]:
    for n in walk(body):
        if isinstance(n, e.Call) and any(_is_pointer(arg) for arg in n.args):
            yield str(n.op).removeprefix("tir."), "it touches memory through a pointer"


def _layouts(func: PrimFunc) -> Iterator[tuple[Any, tuple[tuple[int, ...], tuple[int, ...]]]]:
    """Of each pointer the shape and the strides before buffers are flat."""
    analyzer = Analyzer()
    for n in walk(func.body):
        buffer: Buffer | None = getattr(n, "buffer", None)
        if not isinstance(n, BufferLoad | s.BufferStore) or buffer is None:
            continue
        shape, strides = (
            [as_int(analyzer.simplify(x)) for x in part] for part in (buffer.shape, buffer.strides)
        )
        if None not in shape and None not in strides:
            yield buffer.data, (tuple(shape), tuple(strides))  # type: ignore[arg-type]


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    found = [1]
    for n in shape[:0:-1]:
        found.insert(0, found[0] * n)
    return tuple(found) if shape else ()
