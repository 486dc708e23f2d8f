"""Random steps on random programs: accepted, they compute the same; refused, nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from mlcnb import te
from mlcnb.core.errors import ScheduleError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Call
from mlcnb.tir import IndexMap, PrimFunc
from mlcnb.tir.functor import substitute
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.legality.promises import reduce_variables
from mlcnb.tir.schedule.legality.proof import backwards
from tests.codegen.gpu_courses import blocking
from tests.tir.schedule.carried import CARRIED
from tests.tir.schedule.programs import (
    conv2d,
    copy_2d,
    elementwise,
    matmul_relu,
    padded_pool,
    row_sum,
    same_numbers,
    softmax,
    stencil,
    symbolic_matmul_relu,
)
from tests.tir.schedule.test_decompose_padding import padded
from tests.tir.schedule.test_fuse_reduction_epilogue import biased
from tests.tir.schedule.test_rolling_buffer import pools, tiled, upsampled
from tests.tir.schedule.test_tensorize import TENSORIZED
from tests.tir.schedule.test_winograd import convolution

#: gives one of several things: what makes a step random
Choose = Callable[[Sequence[Any]], Any]


def relayouts(n: int = 4, m: int = 6) -> PrimFunc:
    """A transposition, a flattening, and both put together again."""
    A = te.placeholder((n, m), name="A")
    B = te.compute((m, n), lambda i, j: A[j, i] + 1.0, name="B")
    C = te.compute((n * m,), lambda i: B[i // n, i % n] * 2.0, name="C")
    D = te.compute((n, m), lambda i, j: C[j * n + i] - 3.0, name="D")
    E = te.compute((n, m), lambda i, j: D[i, j] + B[j, i], name="E")
    return te.create_prim_func([A, E])


def two_products(n: int = 4) -> PrimFunc:
    """A @ B @ B"""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k, r = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="r")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((n, n), lambda i, j: te.sum(C[i, r] * B[r, j], axis=r), name="D")
    return te.create_prim_func([A, B, D])


def rolled(func: PrimFunc, *sizes: int) -> PrimFunc:
    """The producer B computed in tiles of C that overlap: what rolling_buffer is for."""
    sch = Schedule(func)
    tiled(sch, *sizes)
    return scheduled(sch)


def for_dot(n: int = 4, k: int = 8) -> PrimFunc:
    """A product whose innermost loop is what an intrinsic computes."""
    A, B = te.placeholder((n, k), name="A"), te.placeholder((n, k), name="B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, r] * B[j, r], axis=r), name="C")
    sch = Schedule(te.create_prim_func([A, B, C]))
    sch.split(sch.get_loops("C")[2], [None, 4])
    sch.decompose_reduction("C", sch.get_loops("C")[2])
    return scheduled(sch)


def for_doubling() -> PrimFunc:
    """Rows of eight, in two loops."""
    sch = Schedule(copy_2d(3, 8))
    sch.split(sch.get_loops("B")[1], [None, 4])
    return scheduled(sch)


def on_threads() -> PrimFunc:
    """A product whose inputs are fetched into shared memory."""
    return blocking((8, 8, 4), (2, 2), (2, 2), 2, lanes=2).func


PROGRAMS: dict[str, Callable[[], PrimFunc]] = {
    "elementwise": lambda: elementwise(12),
    "matmul": lambda: matmul_relu(5, 6, 7),
    "conv2d": lambda: conv2d(height=4, channels=(2, 1), lanes=2),
    "strided": lambda: conv2d(height=5, channels=(1, 2), lanes=2, stride=2),
    "softmax": softmax,
    "stencil": stencil,
    "pool": lambda: padded_pool(5),
    "row_sum": lambda: row_sum(3, 8),
    "biased": lambda: biased(3, 4, 5),
    "pools": lambda: pools(4, channels=1),
    "padded": lambda: padded(6, 2, 1),
    "relayouts": relayouts,
    "two_products": two_products,
    "rolled": lambda: rolled(stencil(14), 4),
    "rolled_pools": lambda: rolled(pools(4, channels=1), 1, 2),
    "upsampled": lambda: rolled(upsampled(6), 2),
    "for_dot": for_dot,
    "for_doubling": for_doubling,
    "on_threads": on_threads,
    "symbolic": symbolic_matmul_relu,
    "plain conv2d": lambda: convolution(1, 2, 2, (3, 4)),
    **{name: lambda func=func: func for name, func in CARRIED.items()},
}


#: the primitives that a program is there for
MADE_FOR: dict[str, tuple[str, ...]] = {
    "rolled": ("rolling_buffer",),
    "rolled_pools": ("rolling_buffer",),
    "upsampled": ("rolling_buffer",),
    "for_dot": ("tensorize",),
    "for_doubling": ("tensorize",),
    "biased": ("fuse_reduction_epilogue",),
    "padded": ("decompose_padding",),
    "pool": ("decompose_padding",),
    "row_sum": ("rfactor",),
    "matmul": ("rfactor", "decompose_reduction"),
    "two_products": ("compute_at", "rfactor"),
    "conv2d": ("compute_at", "reverse_compute_inline"),
    "plain conv2d": ("winograd",),
}

#: the same programs in other sizes
SIZES: dict[str, tuple[Callable[[], PrimFunc], ...]] = {
    "elementwise": (lambda: elementwise(7), lambda: elementwise(16)),
    "matmul": (lambda: matmul_relu(4, 3, 9),),
    "conv2d": (lambda: conv2d(height=5, channels=(2, 3), lanes=1),),
    "plain conv2d": (lambda: convolution(2, 1, 3, (4, 2)),),
    "strided": (lambda: conv2d(height=7, channels=(1, 3), lanes=2, stride=2),),
    "pool": (lambda: padded_pool(7),),
    "row_sum": (lambda: row_sum(4, 6), lambda: row_sum(2, 12)),
    "biased": (lambda: biased(2, 5, 6),),
    "pools": (lambda: pools(5, channels=1),),
    "padded": (lambda: padded(8, 2, 1),),
    "relayouts": (lambda: relayouts(6, 4),),
    "two_products": (lambda: two_products(5),),
    "rolled": (lambda: rolled(stencil(10), 4),),
    "for_dot": (lambda: for_dot(3, 12),),
}


def scheduled(sch: Schedule, step: int | None = None) -> PrimFunc:
    """The one function of a schedule, as it is now or at a step."""
    mod = sch.mod if step is None else sch.steps[step].mod
    return next(iter(mod.functions.values()))


def _handles(sch: Schedule, choose: Choose) -> tuple[Any, list[Any], list[Any]]:
    """A block, its loops, and the loops of any block."""
    blocks = _blocks(sch, choose)
    block = choose(blocks)
    return block, sch.get_loops(block), sch.get_loops(choose(blocks))


def _blocks(sch: Schedule, choose: Choose) -> list[Any]:
    """The blocks of the program, with some of those that stand in others."""
    blocks = sch.get_child_blocks(sch.get_block("root"))
    for block in blocks:
        blocks += sch.get_child_blocks(block) if choose([True, False]) else []
    return blocks


def _fitting(sch: Schedule, choose: Choose, fits: Callable[[Any], Any]) -> Any:
    """Mostly a block that a primitive is made for; now and then any, which it refuses."""
    blocks = _blocks(sch, choose)
    fitting = [b for b in blocks if fits(b)]
    return choose(fitting if fitting and choose([True, True, False]) else blocks)


def _is_inside(sch: Schedule, block: Any) -> bool:
    """Whether a block makes something that the function keeps for itself."""
    return all(w.buffer not in scheduled(sch).buffers for w in sch.get(block).writes)


def _split(sch: Schedule, choose: Choose) -> None:
    _block, loops, _others = _handles(sch, choose)
    if prod(p.as_int(sch.get(x).extent) or 8 for x in loops) > 2000:
        raise ScheduleError("large enough: tiles that do not divide add iterations")
    factors = choose([[None, 2], [2, None], [None, 3], [2, 2, None], [None, 1], [5, 4]])
    sch.split(choose(loops), factors, preserve_unit_iters=choose([True, False]))


def _fuse(sch: Schedule, choose: Choose) -> None:
    _block, loops, _others = _handles(sch, choose)
    start = choose(range(len(loops)))
    sch.fuse(*loops[start : start + choose([2, 3])])


def _reorder(sch: Schedule, choose: Choose) -> None:
    _block, loops, _others = _handles(sch, choose)
    order = []
    for _ in range(choose([2, 3])):
        rest = [x for x in loops if x not in order]
        order += [choose(rest)] if rest else []
    sch.reorder(*order)


def _mark(name: str) -> Callable[[Schedule, Choose], None]:
    def step(sch: Schedule, choose: Choose) -> None:
        _block, loops, _others = _handles(sch, choose)
        getattr(sch, name)(choose(loops))

    return step


def _bind(sch: Schedule, choose: Choose) -> None:
    _block, loops, _others = _handles(sch, choose)
    sch.bind(choose(loops), choose(["threadIdx.x", "blockIdx.x", "vthread"]))


def _move(name: str) -> Callable[[Schedule, Choose], None]:
    near = "get_consumers" if name == "compute_at" else "get_producers"

    def step(sch: Schedule, choose: Choose) -> None:
        block = _fitting(sch, choose, getattr(sch, near))
        others = sch.get_loops(choose(_blocks(sch, choose)))
        ends = getattr(sch, near)(block)
        if ends and choose([True, True, False]):
            around = [sch.get(x) for x in sch.get_loops(block)]
            others = [x for x in sch.get_loops(choose(ends)) if sch.get(x) not in around]
        units, index = choose([True, False]), choose([-1, -2])
        getattr(sch, name)(block, choose(others), preserve_unit_loops=units, index=index)

    return step


def _inline(name: str) -> Callable[[Schedule, Choose], None]:
    def fits(sch: Schedule, block: Any) -> bool:
        if sch.get(block).init is not None:
            return False
        producers = sch.get_producers(block)
        return _is_inside(sch, block) if name == "compute_inline" else len(producers) == 1

    def step(sch: Schedule, choose: Choose) -> None:
        getattr(sch, name)(_fitting(sch, choose, lambda b: fits(sch, b)))

    return step


def _cache(name: str) -> Callable[[Schedule, Choose], None]:
    def step(sch: Schedule, choose: Choose) -> None:
        getattr(sch, name)(_handles(sch, choose)[0], choose([0, 1]), "local")

    return step


def _cache_inplace(sch: Schedule, choose: Choose) -> None:
    sch.cache_inplace(_handles(sch, choose)[0], choose([0, 1]), "local")


def _cache_index(sch: Schedule, choose: Choose) -> None:
    sch.cache_index(_handles(sch, choose)[0], "local", choose([0, 1, 2]))


def _cache_some(sch: Schedule, choose: Choose) -> None:
    block = _handles(sch, choose)[0]
    others = [x for x in sch.get_child_blocks(sch.get_block("root")) if choose([True, False])]
    getattr(sch, choose(["cache_read", "cache_write"]))(block, 0, "shared", others)


def _reindex_cache(sch: Schedule, choose: Choose) -> None:
    block = _handles(sch, choose)[0]
    maps = [
        lambda *i: tuple(reversed(i)),
        lambda *i: i[:2],
        lambda *i: (i[0] // 2, *i[1:], i[0] % 2),
        lambda *i: (i[-1], i[0] ^ i[-1]),
    ]
    step = getattr(sch, choose(["reindex_cache_read", "reindex_cache_write"]))
    step(block, choose([0, 1]), "shared", choose(maps if sch.get(block).iter_vars else []))


def _scope(sch: Schedule, choose: Choose) -> None:
    sch.set_scope(_handles(sch, choose)[0], 0, choose(["shared", "local", "global"]))


def _dtype(sch: Schedule, choose: Choose) -> None:
    sch.set_dtype(_handles(sch, choose)[0], 0, choose(["float64", "float32", "float16"]))


def _separator(sch: Schedule, choose: Choose) -> None:
    places = choose([[], [1], [0, 1], [1, 2], [2, 1]])
    sch.set_axis_separator(_handles(sch, choose)[0], ("write", 0), places)


def _align(sch: Schedule, choose: Choose) -> None:
    sch.storage_align(_handles(sch, choose)[0], 0, choose([0, 1, -1]), choose([4, 8]), 2)


def _annotated(sch: Schedule, choose: Choose) -> None:
    block = _handles(sch, choose)[0]
    kind, wider = choose(["read", "write"]), choose([0, 1])
    regions = sch.get(block).reads if kind == "read" else sch.get(block).writes
    region = choose(regions)
    axes = [axis.var for axis in sch.get(block).iter_vars]
    said = [(side.min, side.min + side.extent + wider) for side in region.region]
    ranges = lambda *given: [
        tuple(substitute(end, dict(zip(axes, given, strict=True))) for end in pair) for pair in said
    ]
    index = next(n for n, r in enumerate(regions) if r is region)
    sch.annotate_buffer_access(block, index, kind, ranges)


def _einsum(sch: Schedule, choose: Choose) -> None:
    block = _fitting(sch, choose, lambda b: sch.get(b).init)
    sch.pad_einsum(block, [choose([1, 2, 4]) for _ in sch.get(block).iter_vars])


def _winograd(sch: Schedule, choose: Choose) -> None:
    block = _fitting(sch, choose, lambda b: sch.get(b).init)
    sch.winograd(block, choose([2, 4]))


def _decompose(sch: Schedule, choose: Choose) -> None:
    block = _fitting(sch, choose, lambda b: sch.get(b).init)
    sch.decompose_reduction(block, choose(sch.get_loops(block)))


def _rfactor(sch: Schedule, choose: Choose) -> None:
    block = _fitting(sch, choose, lambda b: _reduce_loops(sch, b))
    sch.rfactor(choose(_reduce_loops(sch, block) or sch.get_loops(block)), choose([0, -1]))


def _reduce_loops(sch: Schedule, block: Any) -> list[Any]:
    """The loops around a block that its reduce axes are bound to."""
    node = sch.get(block)
    used = reduce_variables(sch.state.tree(sch.state.working_on), node) if node.init else set()
    return [x for x in sch.get_loops(block) if sch.get(x).loop_var in used]


def _tensorize(sch: Schedule, choose: Choose) -> None:
    fours = lambda b: [x for x in sch.get_loops(b)[-1:] if p.as_int(sch.get(x).extent) == 4]
    sch.tensorize(choose(fours(_fitting(sch, choose, fours))), choose(TENSORIZED))


def _reindex(sch: Schedule, choose: Choose) -> None:
    where = choose([("read", 0), ("read", 1), ("write", 0)])
    sch.reindex(_handles(sch, choose)[0], where)


def _layout(sch: Schedule, choose: Choose) -> None:
    block = _handles(sch, choose)[0]
    buffer = sch.get(block).writes[0].buffer
    if buffer in scheduled(sch).buffers or not buffer.ndim:
        raise ScheduleError("the signature stays as it is")
    first = choose([2, 3])
    maps = [
        lambda *i: (i[0] // first, *i[1:], i[0] % first),
        lambda *i: tuple(reversed(i)),
        lambda *i: (i[-1] % first, *i[:-1], i[-1] // first),
        lambda *i: (*i[:-1], i[-1] ^ i[0]),
        lambda *i: (*i[:-1], IndexMap.AXIS_SEPARATOR, i[-1]),
    ]
    pads = [None, 0.0, lambda *i: i[0] + 1]
    sch.transform_layout(block, ("write", 0), choose(maps), pad_value=choose(pads))


def _block_layout(sch: Schedule, choose: Choose) -> None:
    block = _handles(sch, choose)[0]
    maps = [lambda *i: tuple(reversed(i)), lambda *i: (i[0] // 2, *i[1:], i[0] % 2)]
    sch.transform_block_layout(block, choose(maps if sch.get(block).iter_vars else []))


def _partition(sch: Schedule, choose: Choose) -> None:
    _block, loops, _others = _handles(sch, choose)
    if len(sch.get_child_blocks(sch.get_block("root"))) > 6:
        raise ScheduleError("enough parts")
    factors = choose([[1], [None, 1], [1, None], [2, 1], [None, 2], [3]])
    sch.loop_partition(choose(loops), factors)


def _merge(sch: Schedule, choose: Choose) -> None:
    _block, loops, others = _handles(sch, choose)
    sch.merge(choose(loops), choose(others))


def _order(sch: Schedule, choose: Choose) -> None:
    block = _handles(sch, choose)[0]
    axes = list(range(len(sch.get(block).iter_vars)))
    sch.reorder_block_iter_var(block, choose([axes[::-1], [*axes[1:], *axes[:1]]]))


def _enclose(sch: Schedule, choose: Choose) -> None:
    block = _handles(sch, choose)[0]
    near = [block, *sch.get_consumers(block)]
    sch.blockize(choose([[block], near, near[:2]]), preserve_unit_iters=choose([True, False]))


def _padding(sch: Schedule, choose: Choose) -> None:
    def pads(block: Any) -> bool:
        value = getattr(sch.get(block).body, "value", None)
        return isinstance(value, Call) and value.op == "tir.if_then_else"

    block = _fitting(sch, choose, pads)
    sch.decompose_padding(block, choose(sch.get_loops(block)))


def _stage(name: str) -> Callable[[Schedule, Choose], None]:
    def step(sch: Schedule, choose: Choose) -> None:
        block, loops, _others = _handles(sch, choose)
        getattr(sch, name)(choose(loops), block, choose([0, 1]), choose(["local", "shared"]))

    return step


def _roll(sch: Schedule, choose: Choose) -> None:
    sch.rolling_buffer(_fitting(sch, choose, lambda b: _is_inside(sch, b)), 0)


def _epilogue(sch: Schedule, choose: Choose) -> None:
    block = _fitting(sch, choose, lambda b: sch.get(b).init and sch.get_consumers(b))
    sch.fuse_reduction_epilogue(block, choose(sch.get_consumers(block)))


def _tile(sch: Schedule, choose: Choose) -> None:
    _block, loops, _others = _handles(sch, choose)
    loop = choose(loops)
    sch.split(loop, sch.sample_perfect_tile(loop, n=choose([2, 3])))


def _place(sch: Schedule, choose: Choose) -> None:
    block = _handles(sch, choose)[0]
    sch.compute_at(block, sch.sample_compute_location(block))


def _annotate(sch: Schedule, choose: Choose) -> None:
    block, loops, _others = _handles(sch, choose)
    sch.annotate(choose([block, *loops]), "mark", choose([1, "text", [1, 2]]))


STEPS: dict[str, Callable[[Schedule, Choose], None]] = {
    "split": _split,
    "fuse": _fuse,
    "reorder": _reorder,
    "parallel": _mark("parallel"),
    "vectorize": _mark("vectorize"),
    "unroll": _mark("unroll"),
    "add_unit_loop": _mark("add_unit_loop"),
    "bind": _bind,
    "compute_at": _move("compute_at"),
    "reverse_compute_at": _move("reverse_compute_at"),
    "compute_inline": _inline("compute_inline"),
    "reverse_compute_inline": _inline("reverse_compute_inline"),
    "cache_read": _cache("cache_read"),
    "cache_write": _cache("cache_write"),
    "cache_inplace": _cache_inplace,
    "cache_index": _cache_index,
    "cache for some": _cache_some,
    "reindex_cache": _reindex_cache,
    "set_scope": _scope,
    "set_dtype": _dtype,
    "set_axis_separator": _separator,
    "storage_align": _align,
    "annotate_buffer_access": _annotated,
    "pad_einsum": _einsum,
    "winograd": _winograd,
    "decompose_reduction": _decompose,
    "rfactor": _rfactor,
    "tensorize": _tensorize,
    "blockize": _mark("blockize"),
    "reindex": _reindex,
    "transform_layout": _layout,
    "transform_block_layout": _block_layout,
    "loop_partition": _partition,
    "merge": _merge,
    "reorder_block_iter_var": _order,
    "blockize_blocks": _enclose,
    "decompose_padding": _padding,
    "rolling_buffer": _roll,
    "read_at": _stage("read_at"),
    "write_at": _stage("write_at"),
    "fuse_reduction_epilogue": _epilogue,
    "sample_perfect_tile": _tile,
    "sample_compute_location": _place,
    "annotate": _annotate,
}


def attempt(sch: Schedule, name: str, choose: Choose) -> bool:
    """Do a random step; check what it did, or that it did nothing. True if it was accepted."""
    before = sch.mod

    def pick(items: Sequence[Any]) -> Any:
        if not items:
            raise ScheduleError("there is nothing to choose from")
        return choose(items)

    try:
        STEPS[name](sch, pick)
    except ScheduleError as error:
        assert sch.mod is before
        assert error.message
        return False
    same_numbers(scheduled(sch, 0), backwards(scheduled(sch)))
    return True
