"""Random steps on programs for GPUs: `make fuzz FUZZ="--gpu"`.

A schedule as courses teach it (bind, shared memory that all threads fetch together, reductions
across threads, asynchronous pipelines, tensor cores) is begun, left at a step that is drawn, and
goes on with random ones. What is accepted runs on simulated threads, in an order that is drawn,
where races and what lies out of bounds show; some of it compiled, on a GPU if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

import mlcnb as mlc
from mlcnb import dlight as dl
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import CodegenError, ExecutionError, PassError, UnsupportedOpError
from mlcnb.core.node import Node, children, walk
from mlcnb.ir import prim_ops as p
from mlcnb.target import Target
from mlcnb.tir import PrimFunc
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import IN_BLOCK_AXES
from mlcnb.tir.schedule import Schedule, Trace
from tests.codegen import gpu_courses as courses
from tests.codegen import gpu_programs as programs
from tests.codegen.gpu_programs import Program
from tests.dlight.test_gpu_rules import halves
from tests.tir.schedule.programs import numbers
from tests.tir.schedule.random_steps import STEPS, Choose, _blocks, _handles

AXES = (
    "blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.x", "threadIdx.y", "threadIdx.z",
    "vthread.x",
)  # fmt: skip
#: memory of a warp is for fragments, which the recipe on tensor cores has: no backend exchanges
#: other values of threads through it
SCOPES = ("shared", "shared", "local", "shared.dyn", "global")
PIPELINES = {
    "software_pipeline_stage": ([0, 0, 1], [0, 1], [0, 0, 2], [0, 1, 1]),
    "software_pipeline_order": ([0, 1, 2], [0, 1], [1, 0], [2, 0, 1]),
    "software_pipeline_async_stages": ([0], [1]),
}
TENSORIZED = (
    "mma_f16f16f32", "mma_fill_16x16_f32", "mma_ldmatrix_f16_a_dyn", "mma_ldmatrix_f16_b_dyn",
)  # fmt: skip
#: what compiled programs run on: the GPU that is there, else a simulated one
TARGET = Target("cuda" if mlc.cuda(0).exist else "cuda-sim")
#: what the simulation says of memory of threads that no kernel holds yet: no step is at fault
UNFINISHED = "is allocated outside of the kernel that uses it"


def on_tensor_cores() -> Program:
    """A product of halves, as the default rule makes it."""
    func, args, expected = halves("float16", 0, 16, 32, 32)
    sch = dl.gpu.Matmul().apply(func, TARGET)
    assert sch is not None
    return Program(func, sch, tuple(args), expected)


#: what is begun, and in which other sizes it is tried
RECIPES: dict[str, tuple[Callable[[], Program], ...]] = {
    "vector_add": (lambda: programs.vector_add(13, 4), lambda: programs.vector_add(16, 4)),
    "naive": (lambda: programs.matmul_naive(5, 6, 4), lambda: programs.matmul_naive(8, 4, 3)),
    "fused_threads": (
        lambda: courses.blocking((8, 8, 4), (2, 2), (2, 2), 2, lanes=2),
        lambda: courses.blocking((6, 8, 6), (2, 2), (2, 2), 2, lanes=2),
    ),
    "two_axes": (
        lambda: courses.blocking((8, 8, 4), (2, 2), (2, 2), 2, fused=False, lanes=2),
        lambda: courses.blocking((7, 5, 3), (2, 2), (2, 2), 2, fused=False, lanes=2),
    ),
    "any_size": (
        lambda: courses.blocking((7, 5, 3), (2, 2), (2, 2), 2, lanes=2),
        lambda: courses.blocking((9, 5, 5), (2, 2), (2, 2), 2, lanes=2),
    ),
    "pipeline": (lambda: programs.pipelined(courses.blocking((8, 8, 8), (2, 2), (2, 2), 2), 1),),
    "double_buffer": (courses.matmul_pipeline,),
    "in_registers": (courses.matmul_in_registers,),
    "row_sum": (lambda: programs.row_sum(3, 20), lambda: programs.row_sum(4, 16)),
    "row_sum_in_memory": (lambda: programs.row_sum(2, 10, 6),),
    "row_sum_of_warps": (lambda: programs.row_sum(2, 70, 64),),
    "softmax": (lambda: programs.softmax(3, 8, 4), lambda: programs.softmax(2, 12, 4)),
    "softmax_in_shared": (courses.softmax_in_shared,),
    "row_sum_rfactor": (courses.row_sum_rfactor,),
    "transpose": (lambda: programs.transpose(8, 4), lambda: programs.transpose(12, 4)),
    "transpose_in_rows": (courses.transpose_in_rows,),
    "tensor_cores": (on_tensor_cores,),
}


@cache
def recipe(name: str) -> tuple[PrimFunc, Trace, tuple[PrimFunc, ...]]:
    """A function, the steps of its schedule, and the function in other sizes."""
    first, *others = (make() for make in RECIPES[name])
    return first.before, first.schedule.trace, tuple(x.before for x in others)


def begun(name: str, part: float, check: str) -> Schedule:
    """The schedule of a recipe, done up to a part of its steps."""
    func, trace, _ = recipe(name)
    sch = Schedule(func, check=check)
    Trace(trace.insts[: round(part * len(trace.insts))]).apply_to_schedule(sch)
    return sch


def _bind(sch: Schedule, choose: Choose) -> None:
    _block, loops, _others = _handles(sch, choose)
    sch.bind(choose(loops), choose(AXES))


def _cache(name: str) -> Callable[[Schedule, Choose], None]:
    def step(sch: Schedule, choose: Choose) -> None:
        getattr(sch, name)(_handles(sch, choose)[0], choose([0, 0, 1]), choose(SCOPES))

    return step


def _scope(sch: Schedule, choose: Choose) -> None:
    sch.set_scope(_handles(sch, choose)[0], 0, choose(SCOPES))


def _pipeline(sch: Schedule, choose: Choose) -> None:
    _block, loops, _others = _handles(sch, choose)
    key = choose(sorted(PIPELINES))
    sch.annotate(choose(loops), key, choose(PIPELINES[key]))


def _double(sch: Schedule, choose: Choose) -> None:
    sch.annotate(choose(_blocks(sch, choose)), "double_buffer_scope", 0)


def _tensorize(sch: Schedule, choose: Choose) -> None:
    block = choose(_blocks(sch, choose))
    loops = sch.get_loops(block)
    sch.tensorize(choose([*loops[-3:], block]), choose(TENSORIZED))


#: in the place of those by the same names
GPU_STEPS: dict[str, Callable[[Schedule, Choose], None]] = {
    **STEPS,
    "bind": _bind,
    "bind again": _bind,
    "cache_read": _cache("cache_read"),
    "cache_write": _cache("cache_write"),
    "set_scope": _scope,
    "pipeline": _pipeline,
    "double_buffer": _double,
    "tensorize": _tensorize,
}


def is_bound(func: PrimFunc) -> bool:
    """True if a loop of it runs on threads."""
    return any(isinstance(n, s.For) and n.thread_binding for n in walk(func.body))


def unfinished(func: PrimFunc) -> str:
    """A block that threads of its kernel do over and over, as an axis of theirs is not among its
    loops, and whose result others see: its turn to be bound comes later. Or global memory that is
    kept within a kernel: its turn to move out, or to another scope, comes later. "": there is none.
    """
    body = func.body.block.body  # type: ignore[attr-defined]
    for nest in body.seq if isinstance(body, s.SeqStmt) else (body,):
        found = dict(_leaves(nest, frozenset()))
        axes = frozenset().union(*found.values()) if found else frozenset()
        for block, own in found.items():
            if own != axes and any(w.buffer.scope != "local" for w in block.writes):
                missing = ", ".join(sorted(axes - own))
                return f"block {block.name_hint} is done by all threads of {missing}"
        read = {r.buffer for block in found for r in block.reads}
        kept = {w.buffer for block in found for w in block.writes} & read - {*func.buffers}
        if is_bound(func.with_body(nest)) and any(b.scope == "global" for b in kept):
            return "a kernel would have to allocate global memory"
    return ""


def _leaves(n: Node, axes: frozenset[str]) -> Iterator[tuple[s.Block, frozenset[str]]]:
    """The innermost blocks of a statement, each with the axes of the threads that it runs on."""
    if isinstance(n, s.For) and n.thread_binding and not p.is_const(n.extent, 1):
        tag = n.thread_binding
        axes = axes | {tag} if tag in IN_BLOCK_AXES else axes
    inner = [x for child in children(n) if isinstance(child, s.Stmt) for x in _leaves(child, axes)]
    yield from inner
    if isinstance(n, s.Block) and not inner:
        yield n, axes


def on_threads(start: PrimFunc, func: PrimFunc, order: int, compiled: bool) -> str:
    """Run a program on threads and compare: interpreted, or `compiled` for `TARGET`; why it could
    not run there, or "".

    Raises:
        AssertionError: other numbers.
        ExecutionError: a race, or an access out of bounds.
    """
    if why := unfinished(func):
        return why
    before, args = numbers(start), [x.copy() for x in numbers(start, run=False)]
    try:
        if compiled:
            mlc.compile(func, target=TARGET)(*args)
        else:
            run_prim_func(func, args, simulate=True, order=order)
    except (UnsupportedOpError, PassError, CodegenError) as error:
        return str(error).splitlines()[0]
    except ExecutionError as error:
        if UNFINISHED not in str(error):
            raise
        return str(error).splitlines()[0]
    for x, y in zip(before, args, strict=True):
        wrong = np.nanmax(np.abs(x - y)) if x.size else 0
        assert np.allclose(y, x, rtol=1e-4, atol=1e-4), f"on threads wrong by {wrong}"
    return ""
