"""One kernel: from a function of SplitHostDevice to the text of a `__global__` function."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.codegen.cuda.emit.helpers import HELPERS, helper
from mlcnb.codegen.cuda.emit.stmt import Writer
from mlcnb.codegen.cuda.emit.types import ctype, headers_of
from mlcnb.core.errors import CodegenError
from mlcnb.core.node import map_children, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Var
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.bulk import BULKS, Matrix
from mlcnb.tir.analysis.kernels import IN_BLOCK_AXES, Launch, kernels_in, launch_of
from mlcnb.tir.analysis.mma import FRAGMENTS, LDMATRIX, MMA, WARP
from mlcnb.tir.analysis.structure import allocations, statements
from mlcnb.tir.analysis.wgmma import ALIGNMENT, SUMS, WGMMA
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import substitute


@dataclass(frozen=True)
class CudaSource:
    """The CUDA C++ of one kernel.

    grid, block: their sizes (x, y, z) as text; headers, helpers: what its file needs above it;
    reports: behind its parameters is an int that it sets where it stops (`messages` are the texts
    of its assertions); made: of each line of the text the statement (or variable of a thread axis)
    that it was written for; maps: tensor maps that it gets last, each of a parameter by its number,
    and of a matrix that begins there.
    """

    name: str
    text: str
    grid: str
    block: str
    headers: tuple[str, ...]
    helpers: tuple[str, ...]
    dynamic_shared: int
    reports: bool
    messages: tuple[str, ...]
    made: tuple[Any, ...] = field(default=(), repr=False, compare=False)
    maps: tuple[tuple[int, Matrix], ...] = ()


def emit_kernel(func: PrimFunc, name: str) -> CudaSource:
    """CUDA C++ of a kernel: a lowered function whose body is one launch.

    Raises:
        CodegenError: something in it that has no form in a kernel, with what to try.
    """
    kernels = list(kernels_in(func.body))
    if len(kernels) != 1:
        raise CodegenError(f"{name}: {len(kernels)} launches in one kernel")
    launch = launch_of(kernels[0])
    given = launch.body
    launch = dataclasses.replace(launch, body=warps_in_registers(given, launch))
    writer = Writer()
    writer.by_proxies = any(
        isinstance(n, e.Call) and n.op in (WGMMA, *BULKS) for n in walk(launch.body)
    )
    params = [_parameter(writer, func, v, launch.body) for v in func.params]
    for v in func.params:
        if v.dtype in ("int32", "int64"):
            writer.analyzer.mark_nonnegative(v)
    for tag, axis in [*launch.grid.items(), *launch.in_block.items()]:
        writer.analyzer.bind(axis.var, axis.dom)
        writer.current = axis.var
        writer.do(f"const {ctype(axis.var.dtype)} {writer.name(axis.var)} = {tag};")
    writer.current = None
    writer.is_alone = all(p.as_int(axis.dom.extent) == 1 for axis in launch.in_block.values())
    start = len(writer.lines)
    allocated = Counter(n.buffer_var for n in allocations(launch.body))
    writer.repeated = {v for v, count in allocated.items() if count > 1}
    try:
        writer.stmt(launch.body)
    except CodegenError as error:
        error.root = error.root or func
        raise
    for declared, size in reversed(writer.arrays.values()):
        writer.lines.insert(start, f"  {declared}[{size}];")
        writer.made.insert(start, None)
    if writer.reports:
        params.append("int* __restrict__ status")
    params += [f"const __grid_constant__ tensor_map {name}" for name in writer.maps.values()]
    maps = tuple((_number_of(func, data), matrix) for data, matrix in writer.maps)
    if writer.dynamic:
        aligned = ALIGNMENT if writer.by_proxies else 16
        line = f"  extern __shared__ __align__({aligned}) unsigned char shared_memory[];"
        writer.lines.insert(0, line)
        writer.made.insert(0, None)
    head = f'extern "C" __global__ void{_bounds(launch)}\n{_signature(name, params)} {{'
    grid, block = (_shape(launch, writer, part) for part in ("blockIdx", "threadIdx"))
    text = "\n".join([_title(grid, block, writer.dynamic), head, *writer.lines, "}"])
    above = [None] * (2 + head.count("\n"))
    pairs = zip(statements(launch.body), statements(given), strict=True)
    before = {id(new): old for new, old in pairs if new is not old}
    made = (before.get(id(n), n) for n in writer.made)
    return CudaSource(
        name, text, grid, block, tuple(headers_of(func.body)), tuple(writer.helpers),
        writer.dynamic, writer.reports, tuple(writer.messages), (*above, *made, None),
        maps,
    )  # fmt: skip


def _number_of(func: PrimFunc, data: Var) -> int:
    """Which parameter a pointer is.

    Raises:
        CodegenError: it is none.
    """
    if data not in func.params:
        raise CodegenError(
            f"{data.name}, of which ptx_cp_async_bulk_tensor copies boxes, is no parameter of the "
            "kernel",
            hint="give the pointer of a buffer in global memory",
        )
    return func.params.index(data)


def warps_in_registers(body: s.Stmt, launch: Launch) -> s.Stmt:
    """Memory of a warp as registers of its threads: each has the row of its own number.

    F: 32 rows of n elements, again and again        F[tile * 32 * n + threadIdx.x * n + k]
                                               ->    F[tile * n + k]

    Raises:
        CodegenError: a thread touches the row of another, or a warp is not the threads of an x.
    """
    shared = [n for n in allocations(body) if _is_of_warp(n.buffer_var)]
    if not shared:
        return body
    lane = launch.in_block.get("threadIdx.x")
    if lane is None or p.as_int(lane.dom.extent) != WARP:
        raise CodegenError(
            f"{shared[0].buffer_var.name} is memory of a warp, and threadIdx.x is not its lanes",
            hint=f"bind a loop of {WARP} to threadIdx.x, and other threads to y and z",
        )
    analyzer = Analyzer()
    for axis in (*launch.grid.values(), *launch.in_block.values()):
        analyzer.bind(axis.var, axis.dom)
    for loop in walk(body):
        if isinstance(loop, s.For):
            analyzer.bind(loop.loop_var, (loop.min, loop.extent - 1))
    rows: dict[Var, int] = {}

    def own(data: Var, index: e.PrimExpr) -> e.PrimExpr:
        if isinstance(index, e.Ramp) and p.is_const(index.stride, 1):  # side by side in one row
            return e.Ramp(own(data, index.base), index.stride, index.lanes)
        zero = substitute(index, {lane.var: p.const(0, lane.var.dtype)})
        one = substitute(index, {lane.var: p.const(1, lane.var.dtype)})
        step = p.as_int(analyzer.simplify(one - zero)) or 0
        row = rows.setdefault(data, step)
        rest = p.floormod(p.floordiv(zero, row), WARP) if row else zero
        apart = analyzer.simplify(index - zero - lane.var * step)
        if not row or step != row or not p.is_const(apart, 0) or not p.is_const(
            analyzer.simplify(rest), 0
        ):  # fmt: skip
            raise CodegenError(
                f"a thread touches {data.name}, memory of a warp, where another one has its part",
                hint="exchange values of threads by shuffles, or through shared memory",
            )
        place = p.floordiv(zero, row * WARP) * row + p.floormod(zero, row)
        return analyzer.simplify(place)

    def visit(n: Any) -> Any:
        new = map_children(n, visit)
        if isinstance(new, BufferLoad | s.BufferStore) and _is_of_warp(new.buffer.data):
            return replace(new, indices=(own(new.buffer.data, new.indices[0]),))
        if isinstance(new, e.Call) and new.op in _OWN:
            args: list[Any] = list(new.args)
            for at in _OWN[new.op]:
                args[at + 1] = own(args[at], args[at + 1])
            return replace(new, args=tuple(args))
        if isinstance(new, s.Allocate) and _is_of_warp(new.buffer_var):
            size = prod(p.as_int(x) or 0 for x in new.extents)
            return replace(new, extents=(p.const(size // WARP),))
        return new

    return visit(body)  # type: ignore[no-any-return]


#: calls that get registers: the arguments that are a pointer to some, before a place in them
_OWN = {MMA: FRAGMENTS, LDMATRIX: (3,), WGMMA: (SUMS,)}


def _is_of_warp(data: Var) -> bool:
    return bool(data.pointee) and data.pointee[1] == "warp"  # type: ignore[index]


def whole_text(sources: list[CudaSource]) -> str:
    """The file of several kernels: headers, helpers that are used, kernels."""
    headers = sorted({h for x in sources for h in x.headers})
    helpers = dict.fromkeys(h for x in sources for h in x.helpers)
    parts = ["\n".join(f"#include <{h}>" for h in headers)] if headers else []
    parts += [helper(h) for h in (*HELPERS, *(h for h in helpers if h not in HELPERS))
              if h in helpers]  # fmt: skip
    return "\n\n".join([*parts, *(x.text for x in sources)]) + "\n"


def _parameter(writer: Writer, func: PrimFunc, var: Var, body: s.Stmt) -> str:
    name = writer.name(var)
    if not var.dtype.is_handle:
        return f"{ctype(var.dtype)} {name}"
    if var.pointee is None:
        raise CodegenError(f"parameter {var.name} is a pointer to no known dtype")
    only = "__restrict__ " if func.attrs.get("tir.noalias") else ""
    const = "" if var in set(_written(body)) else "const "
    return f"{const}{ctype(dtype(var.pointee[0]))}* {only}{name}"


def _signature(name: str, params: list[str]) -> str:
    line = f"{name}({', '.join(params)})"
    if len(line) <= 98:
        return line
    return f"{name}(\n    " + ",\n    ".join(params) + ")"


def _written(body: s.Stmt) -> Iterator[Var]:
    """Pointers that a kernel may write through."""
    for n in walk(body):
        if isinstance(n, s.BufferStore):
            yield n.buffer.data
        elif isinstance(n, e.Call) and n.op == "tir.tvm_access_ptr":
            yield from (v for v in n.args if isinstance(v, Var))
        elif isinstance(n, e.Call) and n.op == "tir.address_of":
            yield from (x.buffer.data for x in n.args if isinstance(x, BufferLoad))


def _sizes(launch: Launch, part: str) -> list[Any]:
    """The extents of the x, y and z axes: numbers where they are known."""
    axes = [launch.axes.get(f"{part}.{axis}") for axis in "xyz"]
    return [p.const(1) if a is None else a.dom.extent for a in axes]


def _bounds(launch: Launch) -> str:
    sizes = [p.as_int(a.dom.extent) for t, a in launch.axes.items() if t in IN_BLOCK_AXES]
    if not sizes or None in sizes:
        return ""
    return f" __launch_bounds__({prod(sizes)})"  # type: ignore[arg-type]


def _shape(launch: Launch, writer: Writer, part: str) -> str:
    return f"({', '.join(writer.expr(n) for n in _sizes(launch, part))})"


def _title(grid: str, block: str, dynamic: int) -> str:
    more = f", {dynamic} bytes of dynamic shared memory" if dynamic else ""
    return f"// grid {grid}, block {block}{more}"
