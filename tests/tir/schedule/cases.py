"""Each primitive called in the same way on six kinds of programs.

spatial       B = A * 2, C = B + 1                 consumers   two blocks read B
reduction     B = A @ W, C = max(B, 0)             symbolic    a number of rows that is not known
predicated    B under a T.where                    imperfect   both split by what does not divide
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.script import tir as T
from mlcnb.tir import PrimFunc, TensorIntrin, Var
from mlcnb.tir.schedule import Schedule

ROWS, COLUMNS = 10, 12


def spatial(rows: Any = ROWS) -> PrimFunc:
    A = te.placeholder((rows, COLUMNS), name="A")
    B = te.compute((rows, COLUMNS), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((rows, COLUMNS), lambda i, j: B[i, j] + 1.0, name="C")
    return te.create_prim_func([A, C])


def symbolic() -> PrimFunc:
    return spatial(Var("n", "int64"))


def reduction() -> PrimFunc:
    A, W = te.placeholder((ROWS, 6), name="A"), te.placeholder((6, COLUMNS), name="W")
    k = te.reduce_axis((0, 6), name="k")
    shape = (ROWS, COLUMNS)
    B = te.compute(shape, lambda i, j: te.sum(A[i, k] * W[k, j], axis=k), name="B")
    C = te.compute(shape, lambda i, j: p.maximum(B[i, j], p.const(0.0)), name="C")
    return te.create_prim_func([A, W, C])


def consumers() -> PrimFunc:
    A = te.placeholder((ROWS, COLUMNS), name="A")
    B = te.compute((ROWS, COLUMNS), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((ROWS, COLUMNS), lambda i, j: B[i, j] + 1.0, name="C")
    D = te.compute((ROWS, COLUMNS), lambda i, j: B[i, j] - C[i, j], name="D")
    return te.create_prim_func([A, C, D])


@T.prim_func
def predicated(A: T.Buffer((10, 12), "float32"), C: T.Buffer((10, 12), "float32")):
    B = T.alloc_buffer((10, 12))
    for i_0, i_1, j in T.grid(3, 4, 12):
        with T.block("B"):
            vi = T.axis.spatial(10, i_0 * 4 + i_1)
            vj = T.axis.spatial(12, j)
            T.where(i_0 * 4 + i_1 < 10)
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(10, 12):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)


def tiled() -> Schedule:
    sch = Schedule(spatial())
    for block in ("B", "C"):
        sch.split(sch.get_loops(block)[0], [None, 4])
    return sch


#: case -> a schedule to begin with
CASES: dict[str, Callable[[], Schedule]] = {
    "spatial": lambda: Schedule(spatial()),
    "reduction": lambda: Schedule(reduction()),
    "predicated": lambda: Schedule(predicated),
    "imperfect": tiled,
    "consumers": lambda: Schedule(consumers()),
    "symbolic": lambda: Schedule(symbolic()),
}


@T.prim_func
def _row(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    with T.block("root"):
        T.reads(A[0:12])
        T.writes(B[0:12])
        for j in range(12):
            with T.block("B"):
                vj = T.axis.spatial(12, j)
                B[vj] = A[vj] * T.float32(2)


@T.prim_func
def _row_call(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    with T.block("root"):
        T.reads(A[0:12])
        T.writes(B[0:12])
        for j in T.vectorized(12):
            B[j] = A[j] * T.float32(2)


TensorIntrin.register("cases.row", _row, _row_call, override=True)


def _loops(sch: Schedule, block: str) -> list[Any]:
    return sch.get_loops(sch.get_block(block))


def _backwards(sch: Schedule, block: str) -> list[int]:
    return list(reversed(range(len(sch.get(sch.get_block(block)).iter_vars))))


def _at(name: str, block: str, other: str) -> Callable[[Schedule], Any]:
    return lambda sch: getattr(sch, name)(sch.get_block(block), _loops(sch, other)[0])


def _on_loop(name: str, place: int, *args: Any) -> Callable[[Schedule], Any]:
    return lambda sch: getattr(sch, name)(_loops(sch, "B")[place], *args)


def _on_block(name: str, block: str, *args: Any) -> Callable[[Schedule], Any]:
    return lambda sch: getattr(sch, name)(sch.get_block(block), *args)


def _rolled(sch: Schedule) -> None:
    sch.compute_at("B", _loops(sch, "C")[0])
    sch.rolling_buffer("B", 0)


def _unannotated(sch: Schedule) -> None:
    sch.annotate(sch.get_block("B"), "note", 1)
    sch.unannotate(sch.get_block("B"), "note")


def _tile(name: str, **options: Any) -> Callable[[Schedule], Any]:
    def step(sch: Schedule) -> None:
        loop = _loops(sch, "B")[-1]
        sch.split(loop, getattr(sch, name)(loop, 2, **options))

    return step


def _placed(sch: Schedule) -> None:
    sch.compute_at("B", sch.sample_compute_location("B"))


def _chosen(sch: Schedule) -> None:
    sch.split(_loops(sch, "B")[-1], [None, sch.sample_categorical([2, 3, 4], [0.2, 0.3, 0.5])])


#: primitive -> a call of it on any of the programs
CALLS: dict[str, Callable[[Schedule], Any]] = {
    "split": _on_loop("split", 0, [None, 3]),
    "fuse": lambda sch: sch.fuse(*_loops(sch, "B")[:2]),
    "loop_partition": _on_loop("loop_partition", 0, [2, None]),
    "merge": lambda sch: sch.merge(_loops(sch, "B")[0], _loops(sch, "C")[0]),
    "reorder": lambda sch: sch.reorder(*reversed(_loops(sch, "B"))),
    "reorder_block_iter_var": lambda sch: sch.reorder_block_iter_var("B", _backwards(sch, "B")),
    "add_unit_loop": _on_block("add_unit_loop", "B"),
    "parallel": _on_loop("parallel", 0),
    "vectorize": _on_loop("vectorize", -1),
    "unroll": _on_loop("unroll", -1),
    "bind": _on_loop("bind", -1, "threadIdx.x"),
    "compute_at": _at("compute_at", "B", "C"),
    "reverse_compute_at": _at("reverse_compute_at", "C", "B"),
    "compute_inline": _on_block("compute_inline", "B"),
    "reverse_compute_inline": _on_block("reverse_compute_inline", "C"),
    "cache_read": _on_block("cache_read", "C", 0, "local"),
    "cache_write": _on_block("cache_write", "B", 0, "local"),
    "cache_inplace": _on_block("cache_inplace", "B", 0, "local"),
    "cache_index": _on_block("cache_index", "B", "local"),
    "reindex": _on_block("reindex", "C", ("read", 0)),
    "reindex_cache_read": _on_block("reindex_cache_read", "C", 0, "local", lambda i, j: (j, i)),
    "reindex_cache_write": _on_block(
        "reindex_cache_write", "B", 0, "local", lambda i, j, *k: (j, i)
    ),
    "transform_layout": _on_block(
        "transform_layout", "B", ("write", 0), lambda i, j: (i // 4, j, i % 4), 0.0
    ),
    "transform_block_layout": _on_block(
        "transform_block_layout", "B", lambda *axes: tuple(reversed(axes))
    ),
    "set_scope": _on_block("set_scope", "B", 0, "shared"),
    "storage_align": _on_block("storage_align", "B", 0, 0, 8, 1),
    "set_dtype": _on_block("set_dtype", "B", 0, "float64"),
    "unsafe_set_dtype": _on_block("unsafe_set_dtype", "B", 0, "float64"),
    "set_axis_separator": _on_block("set_axis_separator", "B", ("write", 0), [1]),
    "unsafe_hide_buffer_access": _on_block("unsafe_hide_buffer_access", "C", "read", [0]),
    "annotate_buffer_access": _on_block(
        "annotate_buffer_access", "C", 0, "read", lambda i, j: ((i, i + 1), (0, COLUMNS))
    ),
    "decompose_reduction": lambda sch: sch.decompose_reduction("B", _loops(sch, "B")[0]),
    "rfactor": _on_loop("rfactor", -1, 0),
    "fuse_reduction_epilogue": lambda sch: sch.fuse_reduction_epilogue("B", "C"),
    "blockize": _on_loop("blockize", -1),
    "tensorize": _on_loop("tensorize", -1, "cases.row"),
    "pad_einsum": lambda sch: sch.pad_einsum("B", [4] * len(_backwards(sch, "B"))),
    "winograd": _on_block("winograd", "B", 2),
    "decompose_padding": lambda sch: sch.decompose_padding("B", _loops(sch, "B")[0]),
    "rolling_buffer": _rolled,
    "read_at": lambda sch: sch.read_at(_loops(sch, "C")[0], "C", 0, "local"),
    "write_at": lambda sch: sch.write_at(_loops(sch, "B")[0], "B", 0, "local"),
    "annotate": _on_block("annotate", "B", "note", 1),
    "unannotate": _unannotated,
    "sample_categorical": _chosen,
    "sample_perfect_tile": _tile("sample_perfect_tile"),
    "sample_partitioned_tile": _tile("sample_partitioned_tile", innerpart_factor=2),
    "sample_compute_location": _placed,
}
