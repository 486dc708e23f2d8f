"""verify_gpu_code: does a kernel fit a GPU: its threads, its grid, its shared memory?

    GpuLimits.of(Target("cuda -arch=sm_90"))      what the architecture allows
    verify_gpu_code(func, limits)                 True, or False
    assert_gpu_code(func, limits)                 an error that says what is too much

On a function after UnifyThreadBinding, where the axes of a kernel stand together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.core.errors import PassError
from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Call
from mlcnb.target import Target
from mlcnb.tir import stmt as s
from mlcnb.tir.access.read import Reading
from mlcnb.tir.access.scope import Access
from mlcnb.tir.analysis import kernels
from mlcnb.tir.analysis.bulk import (
    BARRIER_BYTES,
    BARRIERS,
    BOX,
    BULK,
    BULKS,
    CREATE,
    EXPECT,
    INIT,
    MOST_BARRIERS,
    MOST_BYTES,
    MOST_THREADS,
    PIECE,
    Matrix,
    bytes_of,
    number_of,
)
from mlcnb.tir.analysis.mma import LDMATRIX, MMA, own_of
from mlcnb.tir.analysis.wgmma import ALIGNMENT, OPERANDS, SIZE, SUMS, WGMMA, Product, apart
from mlcnb.tir.function import PrimFunc

#: the architecture where a target names none: the first with 16-bit floats of both kinds
DEFAULT_ARCH = "sm_80"
#: bytes of shared memory that a block may ask for, by architecture (CUDA C++ Programming Guide,
#: table of technical specifications per compute capability)
_DYNAMIC_SHARED = {
    75: 64,
    **dict.fromkeys((70, 72), 96),
    **dict.fromkeys((86, 89, 120, 121), 99),
    **dict.fromkeys((80, 87), 163),
    **dict.fromkeys((90, 100, 101, 103, 110), 227),
}
#: instructions that older architectures lack, and the first that has them (PTX ISA)
_SINCE = {
    "tir.ptx_cp_async": 80,
    "tir.ptx_commit_group": 80,
    "tir.ptx_wait_group": 80,
    LDMATRIX: 75,
    MMA: 80,
    WGMMA: 90,
    **dict.fromkeys((*BULKS, *BARRIERS), 90),
}
#: instructions that only this one has: neither older nor newer ones, by its name with an a
_ONLY = {WGMMA: "sm_90a"}


@dataclass(frozen=True)
class GpuLimits:
    """What one kernel may use; shared memory in bytes of a block; is_specific: code is made for
    this architecture alone (`sm_90a`), with instructions that no other has.
    """

    max_threads_per_block: int = 1024
    max_threads: tuple[int, int, int] = (1024, 1024, 64)
    max_blocks: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    max_shared_memory_per_block: int = 48 << 10
    max_dynamic_shared_memory_per_block: int = 227 << 10
    arch: int = 80
    is_specific: bool = False

    @property
    def name(self) -> str:
        """The architecture: sm_90a."""
        return f"sm_{self.arch}{'a' if self.is_specific else ''}"

    @staticmethod
    def of(target: Target) -> GpuLimits:
        """The limits of a target's architecture, and those that the target itself names."""
        number = "".join(c for c in str(target.attrs.get("arch", DEFAULT_ARCH)) if c.isdigit())
        arch = int(number or 0)
        dynamic = _DYNAMIC_SHARED.get(arch, 99) << 10
        specific = str(target.attrs.get("arch", DEFAULT_ARCH)).endswith("a")
        found = GpuLimits(
            max_dynamic_shared_memory_per_block=dynamic, arch=arch, is_specific=specific
        )
        threads = target.attrs.get("max_threads_per_block")
        shared = target.attrs.get("max_shared_memory_per_block")
        if threads is not None:
            found = replace(found, max_threads_per_block=int(threads))
        if shared is not None:
            found = replace(
                found,
                max_shared_memory_per_block=int(shared),
                max_dynamic_shared_memory_per_block=max(int(shared), dynamic),
            )
        return found


def verify_gpu_code(func: PrimFunc, constraints: GpuLimits | Mapping[str, Any]) -> bool:
    """True if every kernel of a function keeps the limits (TVM's names for them: a mapping)."""
    limits = constraints if isinstance(constraints, GpuLimits) else _from_mapping(constraints)
    return next(_excesses(func, limits), None) is None


def _from_mapping(constraints: Mapping[str, Any]) -> GpuLimits:
    given = {k: int(v) for k, v in constraints.items()}
    usual = GpuLimits()
    sides = zip("xyz", usual.max_threads, strict=True)
    return GpuLimits(
        given.get("max_threads_per_block", usual.max_threads_per_block),
        tuple(given.get(f"max_thread_{axis}", most) for axis, most in sides),  # type: ignore[arg-type]
        usual.max_blocks,
        given.get("max_shared_memory_per_block", usual.max_shared_memory_per_block),
    )


def assert_gpu_code(func: PrimFunc, limits: GpuLimits) -> None:
    """Refuse a function with a kernel that does not fit.

    Raises:
        PassError: what is too much, and how much there is.
    """
    for message, where, hint in _excesses(func, limits):
        raise PassError(f"VerifyGPUCode: {message}", where=where, root=func, hint=hint)


Excess = tuple[str, s.Stmt, str]


def _excesses(func: PrimFunc, limits: GpuLimits) -> Iterator[Excess]:
    for kernel in kernels.kernels_in(func.body):
        launch = kernels.launch_of(kernel)
        yield from _threads(kernel, launch, limits)
        yield from _shared(launch, limits)
        yield from _instructions(launch, limits)
        yield from _tiles(launch)
        yield from _registers(launch)
        yield from _barriers(launch)
        yield from _bulk(launch, func)
        yield from apart(launch)


def _threads(kernel: s.Stmt, launch: kernels.Launch, limits: GpuLimits) -> Iterator[Excess]:
    split = "split the loop that is bound, and bind the inner part"
    sides = [*zip(kernels.IN_BLOCK_AXES, limits.max_threads, strict=True)]
    sides += [*zip(kernels.BLOCK_AXES, limits.max_blocks, strict=True)]
    for tag, most in sides:
        extent = p.as_int(launch.axes[tag].dom.extent) if tag in launch.axes else None
        if extent is not None and extent > most:
            yield f"{tag} has {extent} iterations, the GPU takes at most {most}", kernel, split
    extents = {tag: p.as_int(axis.dom.extent) for tag, axis in launch.in_block.items()}
    total = prod(n for n in extents.values() if n is not None)
    if total > limits.max_threads_per_block:
        product = " * ".join(f"{tag} {n}" for tag, n in extents.items())
        most = limits.max_threads_per_block
        yield (
            f"a block has {total} threads ({product}), the GPU takes at most {most}",
            kernel,
            "bind smaller tiles to threads",
        )


def _shared(launch: kernels.Launch, limits: GpuLimits) -> Iterator[Excess]:
    most = {
        "shared": limits.max_shared_memory_per_block,
        "shared.dyn": limits.max_dynamic_shared_memory_per_block,
    }
    used: dict[str, list[tuple[str, int]]] = {scope: [] for scope in most}
    for n, scope, size in _allocations(launch):
        if size is None and scope in (*most, "local"):
            yield (
                f"{n.buffer_var.name} in {scope} memory has no fixed size",
                n,
                "split the loops so that a tile has a fixed size",
            )
        elif size is not None and scope in most:
            used[scope].append((n.buffer_var.name, size))
    if barriers := _barrier_bytes(launch):
        used["shared"].append(("barriers", barriers))
    for scope, parts in used.items():
        total = sum(size for _, size in parts)
        if total > most[scope]:
            listed = ", ".join(f"{name} {size:,}" for name, size in reversed(parts))
            other = "use smaller tiles" + (", or scope shared.dyn" if scope == "shared" else "")
            yield (
                f"a block uses {total:,} bytes of {scope} memory ({listed}), the GPU has "
                f"{most[scope]:,}",
                launch.body,
                other,
            )


def _instructions(launch: kernels.Launch, limits: GpuLimits) -> Iterator[Excess]:
    for n in walk(launch.body):
        if isinstance(n, Call) and (since := _SINCE.get(str(n.op), 0)) > limits.arch:
            name = str(n.op).removeprefix("tir.")
            told = f"{name} is an instruction since sm_{since}, the GPU is sm_{limits.arch}"
            only = _ONLY.get(str(n.op), f"sm_{since}")
            yield told, launch.body, f'target="cuda -arch={only}", or a schedule without it'
        elif isinstance(n, Call) and _ONLY.get(str(n.op), limits.name) != limits.name:
            name, only = str(n.op).removeprefix("tir."), _ONLY[str(n.op)]
            told = f"{name} is an instruction of {only} alone, the GPU is {limits.name}"
            yield told, launch.body, f'target="cuda -arch={only}", or a schedule without it'


def _tiles(launch: kernels.Launch) -> Iterator[Excess]:
    """Operands of products of warpgroups that may lie beyond their memory, or begin where the
    instruction cannot find them.
    """
    sizes = {n.buffer_var: size for n, _, size in _allocations(launch)}
    for call, analyzer in _calls(launch, (WGMMA,)):
        made = Product.of(call)
        for first, operand in zip(OPERANDS, (made.a, made.b), strict=True):
            data, begin = call.args[first : first + 2]
            size, reach = sizes.get(data) or 0, operand.reach(made.count)
            name = getattr(data, "name", data)
            if not analyzer.can_prove(p.all_of(begin >= 0, (begin + reach) * SIZE <= size)):
                yield (
                    f"ptx_wgmma reads {reach * SIZE:,} bytes of {name} from element {begin} on, "
                    f"and there are {size:,}",
                    launch.body,
                    "the distances of its descriptor do not fit the tile, or the tile is too small",
                )
            if not analyzer.can_prove(p.equal(p.floormod(begin * SIZE, ALIGNMENT), 0)):
                yield (
                    f"ptx_wgmma reads {name} from element {begin} on, which may be no multiple of "
                    f"{ALIGNMENT} bytes",
                    launch.body,
                    "let tiles begin at such multiples: the shuffle of rows counts from there",
                )


def _registers(launch: kernels.Launch) -> Iterator[Excess]:
    """Instructions of tensor cores whose registers may lie beyond what was allocated."""
    sizes = {n.buffer_var: size for n, _, size in _allocations(launch)}
    for call, analyzer in _calls(launch, (MMA, LDMATRIX, WGMMA)):
        own = own_of(call) if call.op != WGMMA else ((SUMS, Product.of(call).own, 4),)
        for at, count, nbytes in own:
            data, begin = call.args[at : at + 2]
            size = sizes.get(data)
            inside = p.all_of(begin >= 0, (begin + count) * nbytes <= (size or 0))
            if size is not None and not analyzer.can_prove(inside):
                yield (
                    f"{call.op.removeprefix('tir.')} takes {count} registers of {data.name} from "
                    f"element {begin} on, and there are {size // nbytes}",
                    launch.body,
                    "more registers, or a place that is proved to lie in them",
                )


def is_verified(access: Access) -> bool:
    """True for what instructions touch of which it is asked here that it lies in its memory: tiles
    of warpgroups, boxes, and registers.
    """
    op = getattr(access.node, "op", None)
    return op in (WGMMA, BOX, MMA) or (op == LDMATRIX and access.is_write)


def _calls(launch: kernels.Launch, names: Sequence[str]) -> Iterator[tuple[Any, Analyzer]]:
    """Calls of instructions, and what knows the bounds of axes and loops, and what holds there."""
    found = [n for n in walk(launch.body) if isinstance(n, Call) and n.op in names]
    if not found:
        return
    analyzer = Analyzer({axis.var: axis.dom for axis in launch.axes.values()})
    for n in walk(launch.body):
        if isinstance(n, s.For):
            analyzer.bind(n.loop_var, (n.min, n.extent - 1))
    places = {id(getattr(x.stmt, "value", None)): x for x in Reading(launch.body).statements}
    for call in found:
        around = places[id(call)].scope.conditions if id(call) in places else []
        with analyzer.constraint(*around):
            yield call, analyzer


def _bulk(launch: kernels.Launch, func: PrimFunc) -> Iterator[Excess]:
    """Copies in bulk that begin where the instruction cannot, or may lie beyond shared memory; and
    matrices that are larger than the memory they are said to lie in.
    """
    sizes = {n.buffer_var: size for n, _, size in _allocations(launch)}
    given: dict[Any, Any] = {x.data: [p.as_int(n) for n in x.shape] for x in func.buffers}
    for call, analyzer in _calls(launch, BULKS):
        name, nbytes = str(call.op).removeprefix("tir."), call.dtype.nbytes
        to, at, source, start = call.args[:4]
        count, size = bytes_of(call), sizes.get(to) or 0
        if not analyzer.can_prove(p.all_of(at >= 0, at * nbytes + count <= size)):
            yield (
                f"{name} writes {count:,} bytes of {getattr(to, 'name', to)} from element {at} on, "
                f"and there are {size:,}",
                launch.body,
                "a smaller box, or more shared memory for it",
            )
        shape = given.get(source, [None])
        if call.op == BOX and None not in shape:
            made = Matrix.of(call)
            if made.height * made.width > prod(shape):
                yield (
                    f"{name} copies of a matrix of {made.height} x {made.width}, and "
                    f"{getattr(source, 'name', source)} has {prod(shape):,} elements",
                    launch.body,
                    "give the sizes of the buffer",
                )
        begins = [(to, at, Matrix.of(call).alignment if call.op == BOX else PIECE)]
        begins += [(source, start, PIECE)] if call.op == BULK else []
        for data, begin, unit in begins:
            if not analyzer.can_prove(p.equal(p.floormod(begin * nbytes, unit), 0)):
                yield (
                    f"{name} begins in {getattr(data, 'name', data)} at element {begin}, which may "
                    f"be no multiple of {unit} bytes",
                    launch.body,
                    "let tiles begin at such multiples",
                )


def _barriers(launch: kernels.Launch) -> Iterator[Excess]:
    """Barriers that are not there, or count what no barrier can."""
    names = *BULKS, *BARRIERS
    calls = [n for n in walk(launch.body) if isinstance(n, Call) and n.op in names]
    if not calls:
        return
    made = [n for n in calls if n.op == CREATE]
    count = p.as_int(made[0].args[0]) if len(made) == 1 else None
    if count is None or not 1 <= count <= MOST_BARRIERS:
        yield (
            f"a kernel with barriers has {len(made)} T.create_barriers",
            launch.body,
            f"one, before all that uses them, of a number from 1 to {MOST_BARRIERS}",
        )
        return
    for call, analyzer in _calls(launch, names):
        name = str(call.op).removeprefix("tir.")
        number = number_of(call)
        inside = p.all_of(number >= 0, number < count)
        if call.op != CREATE and not analyzer.can_prove(inside):
            yield (
                f"{name} names barrier {number}, and there are {count}",
                launch.body,
                f"a number that is proved to be from 0 to {count - 1}",
            )
        most = {INIT: (1, MOST_THREADS), EXPECT: (0, MOST_BYTES)}.get(str(call.op))
        given = p.as_int(call.args[1]) if most else None
        if most and (given is None or not most[0] <= given <= most[1]):
            yield (
                f"{name} of {call.args[1]}",
                launch.body,
                f"a number from {most[0]} to {most[1]:,}",
            )


def shared_bytes(launch: kernels.Launch) -> dict[str, int]:
    """Scope -> bytes of shared memory of one block of a lowered kernel."""
    found: dict[str, int] = {}
    for _, scope, size in _allocations(launch):
        if scope in kernels.SHARED_SCOPES:
            found[scope] = found.get(scope, 0) + (size or 0)
    if barriers := _barrier_bytes(launch):
        found["shared"] = found.get("shared", 0) + barriers
    return found


def _barrier_bytes(launch: kernels.Launch) -> int:
    """Bytes of shared memory that barriers take."""
    made = [n for n in walk(launch.body) if isinstance(n, Call) and n.op == CREATE]
    return sum(BARRIER_BYTES * (p.as_int(n.args[0]) or 0) for n in made)


def _allocations(launch: kernels.Launch) -> Iterator[tuple[s.Allocate, str, int | None]]:
    """What a kernel allocates: its scope, and bytes in steps of 16; None: of no fixed size."""
    for n in walk(launch.body):
        if isinstance(n, s.Allocate) and n.buffer_var.pointee is not None:
            sizes = [p.as_int(extent) for extent in n.extents]
            size = None if None in sizes else prod(sizes) * n.dtype.nbytes  # type: ignore[arg-type]
            yield n, n.buffer_var.pointee[1], None if size is None else -(-size // 16) * 16
