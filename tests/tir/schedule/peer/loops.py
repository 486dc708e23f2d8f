"""loop_partition, merge, storage_align, read_at, write_at: forms, and what is refused."""

# ruff: noqa: E501

from __future__ import annotations

from tests.tir.schedule.peer.items import item

CUBE = """
@T.prim_func
def main(A: T.Buffer((16, 12, 8)), B: T.Buffer((16, 12, 8))):
    for i, j, k in T.grid(16, 12, 8):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
"""
SYMBOLIC = """
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (16, 12, n))
    B = T.match_buffer(b, (16, 12, n))
    for i, j, k in T.grid(16, 12, n):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
"""
OPAQUE = """
@T.prim_func
def main(A: T.Buffer((16, 12, 8)), B: T.Buffer((16, 12, 8))):
    for i, j, k in T.grid(16, 12, 8):
        with T.block("opaque"):
            T.reads(A[i, j, k])
            T.writes(B[i, j, k])
            with T.block("B"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                T.reads(A[vi, vj, vk])
                T.writes(B[vi, vj, vk])
                B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
"""
POINTER = """
@T.prim_func
def main(A: T.Buffer((16, 16)), B: T.Buffer((16, 16))):
    for i, j in T.grid(16, 16):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads()
            T.writes(A[0:16, 0:16])
            A[vi, vj] = T.float32(1)
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads()
            T.writes(B[0:16, 0:16])
            T.evaluate(T.tvm_fill_fragment(B.data, 16, 16, 16, 0, vi * 16 + vj, dtype="handle"))
"""
MARKED = CUBE.replace(
    "    for i, j, k in T.grid(16, 12, 8):\n        with",
    '    for i, j in T.grid(16, 12):\n      for k in T.serial(8, annotations={"mark": True}):\n        with',
)
THREADS = CUBE.replace(
    "    for i, j, k in T.grid(16, 12, 8):\n        with",
    '    for i, j in T.grid(16, 12):\n      for k in T.thread_binding(8, thread="threadIdx.x"):\n        with',
)
FROM_ONE = CUBE.replace(
    "    for i, j, k in T.grid(16, 12, 8):\n        with",
    "    for i, j in T.grid(16, 12):\n      for k in range(1, 8):\n        with",
)


def partition(name: str, text: str, loop: int, factors, block: str = "B") -> None:
    """One loop_partition."""

    @item(f"loop_partition/{name}", text)
    def _(sch, tvm):
        sch.loop_partition(sch.get_loops(block)[loop], factors)


@item("loop_partition/twice", CUBE)
def _(sch, tvm):
    sch.loop_partition(sch.get_loops("B")[0], factors=[2, 1, 8])
    sch.loop_partition(sch.get_loops("B_i0")[1], factors=[4, 5])


@item("loop_partition/inferred, twice", CUBE)
def _(sch, tvm):
    sch.loop_partition(sch.get_loops("B")[0], factors=[None, 1, 8])
    sch.loop_partition(sch.get_loops("B_i1")[2], factors=[1, 4, None])


@item("loop_partition/writes by a pointer", POINTER)
def _(sch, tvm):
    sch.loop_partition(sch.get_loops("A")[1], [None, 4])
    sch.loop_partition(sch.get_loops("B")[1], [None, 4])


partition("opaque block", OPAQUE, 0, [None, 4], "opaque")
partition("symbolic", SYMBOLIC, 2, [8, None])
partition("two inferred", CUBE, 0, [None, 4, None])
partition("factors too large", CUBE, 0, [16, 8])
partition("factors that sum to the extent", CUBE, 0, [4, 12])
partition("a factor below zero", CUBE, 0, [-2, -4])
partition("a factor of zero", CUBE, 0, [0, 8])
partition("marked loop", MARKED, 2, [2, 4])
partition("thread loop", THREADS, 2, [2, 4])
partition("from one", FROM_ONE, 2, [2, 4])
partition("no factors", CUBE, 2, [])
partition("one factor", CUBE, 2, [3])

MERGE = """
@T.prim_func
def main(A: T.Buffer((32, 32)), C: T.Buffer((32, 32)), D: T.Buffer((16, 16))):
    B = T.alloc_buffer((32, 32))
    for i, j in T.grid(32, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for io, jo, ii, ji in T.grid(4, 4, 8, 8):
        with T.block("C"):
            vi = T.axis.spatial(32, io * 8 + ii)
            vj = T.axis.spatial(32, jo * 8 + ji)
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for io, jo, ii, ji in T.grid(4, 4, 4, 4):
        with T.block("D"):
            vi = T.axis.spatial(16, io * 4 + ii)
            vj = T.axis.spatial(16, jo * 4 + ji)
            D[vi, vj] = B[vi, vj] + T.float32(2)
"""


def merge(name: str, text: str, first: tuple[str, int], second: tuple[str, int]) -> None:
    """Two loops merged."""

    @item(f"merge/{name}", text)
    def _(sch, tvm):
        one = sch.get_loops(sch.get_block(first[0]))[first[1]]
        sch.merge(one, sch.get_loops(sch.get_block(second[0]))[second[1]])


def pair(extents: str, start: int = 0, source: str = "A") -> str:
    """Two nests of three loops."""
    return f"""
@T.prim_func
def main(A: T.Buffer((8, 8, 8)), C: T.Buffer((8, 8, 8))):
    B = T.alloc_buffer((8, 8, 8))
    for i, j in T.grid({extents}):
        for k in range({start}, 8):
            with T.block("B"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
    for i, j in T.grid(8, 8):
        for k in range(8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                C[vi, vj, vk] = {source}[vi, vj, vk] * T.float32(2)
"""


merge("outermost", MERGE, ("C", 0), ("D", 0))
merge("two levels", MERGE, ("C", 1), ("D", 1))
merge("other extents inside", MERGE, ("C", 2), ("D", 2))
merge("from one", pair("8, 8", 1), ("B", 2), ("C", 2))
merge("other extents", pair("4, 8"), ("B", 2), ("C", 2))
merge("other levels", pair("8, 8"), ("B", 1), ("C", 2))
merge("all three levels", pair("8, 8"), ("B", 2), ("C", 2))
merge("reads what the first writes", pair("8, 8", 0, "B"), ("B", 2), ("C", 2))
merge(
    "not the only child",
    """
@T.prim_func
def main(A: T.Buffer((8, 8, 8)), C: T.Buffer((8, 8, 8))):
    B = T.alloc_buffer((8, 8, 8))
    D = T.alloc_buffer((8, 8, 8))
    for i, j in T.grid(8, 8):
        for k in range(8):
            with T.block("D"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                D[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
        for k in range(8):
            with T.block("B"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
    for i, j in T.grid(8, 8):
        for k in range(8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                C[vi, vj, vk] = B[vi, vj, vk] * T.float32(2)
""",
    ("B", 2),
    ("C", 2),
)
merge(
    "another scope",
    """
@T.prim_func
def main(A: T.Buffer((8, 8, 8)), C: T.Buffer((8, 8, 8))):
    B = T.alloc_buffer((8, 8, 8))
    with T.block("A"):
        for i, j in T.grid(8, 8):
            for k in range(8):
                with T.block("B"):
                    vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                    B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
    for i, j in T.grid(8, 8):
        for k in range(8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                C[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
""",
    ("B", 2),
    ("C", 2),
)

ALIGNED = """
@T.prim_func
def main(A: T.Buffer((16, 16)), C: T.Buffer((16, 16))):
    B = T.alloc_buffer((16, 16))
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""


def align(name: str, text: str, *calls) -> None:
    """storage_align, once or more."""

    @item(f"storage_align/{name}", text)
    def _(sch, tvm):
        for block, *rest in calls:
            sch.storage_align(block, *rest)


align("once", ALIGNED, ("B", 0, 0, 32, 1))
align("another axis from the end", ALIGNED, ("B", 0, -1, 32, 1))
align("updated", ALIGNED, ("B", 0, 0, 128, 0), ("B", 0, 0, 32, 1))
align("two axes", ALIGNED, ("B", 0, 0, 32, 1), ("B", 0, 1, 16, 2))
align("no such buffer", ALIGNED, ("B", 2, 0, 32, 1))
align("no such axis", ALIGNED, ("B", 0, 2, 32, 1))
align("factor below zero", ALIGNED, ("B", 0, 0, -1, 1))
align("factor zero", ALIGNED, ("B", 0, 0, 0, 1))
align("an output", ALIGNED, ("C", 0, 0, 32, 1))
align(
    "annotation of another kind",
    ALIGNED.replace(
        '        with T.block("B"):',
        '        with T.block("B"):\n            T.block_attr({"buffer_dim_align": [0]})',
    ),
    ("B", 0, 0, 32, 1),
)
align("an offset below zero", ALIGNED, ("B", 0, 0, 32, -1))
align(
    "annotated before",
    ALIGNED.replace(
        '        with T.block("B"):',
        '        with T.block("B"):\n            T.block_attr({"buffer_dim_align": [[0, 0, 128, 127]]})',
    ),
    ("B", 0, 0, 32, 1),
)

CUDA = """
@T.prim_func
def main(A: T.Buffer((64, 64)), B: T.Buffer((64, 64)), C: T.Buffer((64, 64))):
    for by in T.thread_binding(2, thread="blockIdx.y"):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for vy in T.thread_binding(2, thread="vthread.y"):
                for vx in T.thread_binding(2, thread="vthread.x"):
                    for ty in T.thread_binding(4, thread="threadIdx.y"):
                        for tx in T.thread_binding(4, thread="threadIdx.x"):
                            for k0 in range(8):
                                for k1 in T.unroll(8):
                                    for u, i, j in T.grid(1, 4, 4):
                                        with T.block("C"):
                                            vi = T.axis.spatial(64, by * 32 + vy * 16 + ty * 4 + i)
                                            vj = T.axis.spatial(64, bx * 32 + vx * 16 + tx * 4 + j)
                                            vk = T.axis.reduce(64, k0 * 8 + k1)
                                            with T.init():
                                                C[vi, vj] = T.float32(0)
                                            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


@item("read_at/first operand", CUDA)
def _(sch, tvm):
    sch.read_at(sch.get_loops("C")[6], sch.get_block("C"), 0, "shared")


@item("read_at/second operand", CUDA)
def _(sch, tvm):
    sch.read_at(sch.get_loops("C")[6], sch.get_block("C"), 1, "shared")


@item("read_at/both operands", CUDA)
def _(sch, tvm):
    block = sch.get_block("C")
    sch.read_at(sch.get_loops(block)[6], block, 0, "shared")
    sch.read_at(sch.get_loops(block)[6], block, 1, "shared")


@item("read_at/at the threads", CUDA)
def _(sch, tvm):
    sch.read_at(sch.get_loops("C")[5], sch.get_block("C"), 0, "shared")


@item("write_at/at the threads", CUDA)
def _(sch, tvm):
    sch.write_at(sch.get_loops("C")[5], sch.get_block("C"), 0, "shared")


@item("write_at/after both operands", CUDA)
def _(sch, tvm):
    block = sch.get_block("C")
    sch.read_at(sch.get_loops(block)[6], block, 0, "shared")
    sch.read_at(sch.get_loops(block)[6], block, 1, "shared")
    sch.write_at(sch.get_loops(block)[5], block, 0, "shared")


@item("write_at/inside of the reduction", CUDA)
def _(sch, tvm):
    sch.write_at(sch.get_loops("C")[6], sch.get_block("C"), 0, "shared")


@item(
    "read_at/serial tile",
    """
@T.prim_func
def main(A: T.Buffer((32, 32)), B: T.Buffer((32, 32))):
    for io, jo, ii, ji in T.grid(4, 8, 8, 4):
        with T.block("B"):
            vi = T.axis.spatial(32, io * 8 + ii)
            vj = T.axis.spatial(32, jo * 4 + ji)
            B[vi, vj] = A[vj, vi] + T.float32(1)
""",
)
def _(sch, tvm):
    sch.read_at(sch.get_loops("B")[1], sch.get_block("B"), 0, "shared")
