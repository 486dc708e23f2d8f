"""tensorize: forms, and what is refused."""

# ruff: noqa: E501

from __future__ import annotations

from tests.tir.schedule.peer.items import item

MATMUL = """
@T.prim_func
def main(A: T.Buffer((32, 32)), B: T.Buffer((32, 32)), C: T.Buffer((32, 32))):
    for i, j, k in T.grid(32, 32, 32):
        with T.block("update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""
BATCHED = """
@T.prim_func
def main(A: T.Buffer((4, 32, 32)), B: T.Buffer((4, 32, 32)), C: T.Buffer((4, 32, 32))):
    for n, i, j in T.grid(4, 32, 32):
        with T.block("init"):
            vn, vi, vj = T.axis.remap("SSS", [n, i, j])
            C[vn, vi, vj] = T.float32(0)
    for n, i, j, k in T.grid(4, 32, 32, 32):
        with T.block("update"):
            vn, vi, vj, vk = T.axis.remap("SSSR", [n, i, j, k])
            C[vn, vi, vj] = C[vn, vi, vj] + A[vn, vi, vk] * B[vn, vj, vk]
"""
HEAD = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, {a}, offset_factor=1{more})
    B = T.match_buffer(b, {b}, offset_factor=1{more})
    C = T.match_buffer(c, {c}, offset_factor=1{more})
    with T.block("root"):
        T.reads({reads})
        T.writes({writes})
"""
CALL = """
        T.evaluate(T.call_extern("{name}", C.data, C.elem_offset, A.data, A.elem_offset, B.data, B.elem_offset, dtype="int32"))
"""
SHAPES = {
    "mma": {
        "a": "(16, 16)",
        "b": "(16, 16)",
        "c": "(16, 16)",
        "more": ", align=64",
        "reads": "C[0:16, 0:16], A[0:16, 0:16], B[0:16, 0:16]",
        "writes": "C[0:16, 0:16]",
    },
    "dot": {
        "a": "(4,)",
        "b": "(4,)",
        "c": "()",
        "more": "",
        "reads": "C[()], A[0:4], B[0:4]",
        "writes": "C[()]",
    },
    "outer": {
        "a": "(16, 1)",
        "b": "(16, 1)",
        "c": "(16, 16)",
        "more": "",
        "reads": "C[0:16, 0:16], A[0:16, 0:1], B[0:16, 0:1]",
        "writes": "C[0:16, 0:16]",
    },
}
BODIES = {
    "mma": """
        for i, j, k in T.grid(16, 16, 16):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
""",
    "dot": """
        for i in range(4):
            with T.block("update"):
                vi = T.axis.remap("R", [i])
                C[()] = C[()] + A[vi] * B[vi]
""",
    "outer": """
        for i, j in T.grid(16, 16):
            with T.block("update"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = C[vi, vj] + A[vi, 0] * B[vj, 0]
""",
}


def described(kind: str) -> tuple[str, str]:
    """Description and implementation."""
    head = HEAD.format(**SHAPES[kind]).rstrip("\n")
    return head + BODIES[kind], head + CALL.format(name=kind)


def tensorized(name: str, text: str, kind: str, steps) -> None:
    """Steps that end with a loop to tensorize."""

    @item(f"tensorize/{name}", text)
    def _(sch, tvm):
        from tests.tir.schedule.peer.register import registered

        word = registered(tvm, f"peer_{kind}", *described(kind))
        sch.tensorize(steps(sch), word)


def tiles(sch, decompose: bool = True):
    """Tiles of 16 by 16 by 16."""
    update = sch.get_block("update")
    i, j, k = sch.get_loops(update)[-3:]
    io, ii = sch.split(i, factors=[None, 16])
    jo, ji = sch.split(j, factors=[None, 16])
    ko, ki = sch.split(k, factors=[None, 16])
    sch.reorder(io, jo, ko, ii, ji, ki)
    if decompose:
        sch.decompose_reduction(update, ko)
    return ii


def four(sch, decompose: bool = False):
    """Four products."""
    update = sch.get_block("update")
    ko, ki = sch.split(sch.get_loops(update)[-1], factors=[None, 4])
    if decompose:
        sch.decompose_reduction(update, ko)
    return ki


def column(sch):
    """One column times one row."""
    i, j, k = sch.get_loops("update")[-3:]
    io, ii = sch.split(i, factors=[None, 16])
    jo, ji = sch.split(j, factors=[None, 16])
    sch.reorder(io, jo, k, ii, ji)
    return ii


WIDE = MATMUL.replace("(32, 32)", "(T.int64(32), T.int64(32))").replace(
    "T.grid(32, 32, 32)", "T.grid(T.int64(32), T.int64(32), T.int64(32))"
)
tensorized("matmul", MATMUL, "mma", tiles)
tensorized("matmul of int64 sizes", WIDE, "mma", tiles)
tensorized("matmul with its init", MATMUL, "mma", lambda sch: tiles(sch, False))
tensorized("batched matmul", BATCHED, "mma", lambda sch: tiles(sch, False))
tensorized("batched dots", BATCHED, "dot", four)
tensorized("batched outer products", BATCHED, "outer", column)
tensorized("dots", MATMUL, "dot", lambda sch: four(sch, True))
tensorized(
    "annotated",
    MATMUL.replace(
        "            with T.init", '            T.block_attr({"mark": 1})\n            with T.init'
    ),
    "dot",
    lambda sch: four(sch, True),
)
tensorized(
    "another size",
    BATCHED,
    "dot",
    lambda sch: sch.split(sch.get_loops("update")[-1], factors=[None, 8])[1],
)
tensorized(
    "other operands",
    BATCHED.replace("B[vn, vj, vk]", "B[vn, vk, vj]"),
    "mma",
    lambda sch: tiles(sch, False),
)
