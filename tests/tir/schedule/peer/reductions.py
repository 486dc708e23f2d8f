"""rfactor and decompose_reduction: forms, and what is refused."""

# ruff: noqa: E501

from __future__ import annotations

from tests.tir.schedule.peer.items import item

TILED = """
@T.prim_func
def main(A: T.Buffer((24, 32)), B: T.Buffer((16, 32)), C: T.Buffer((24, 16))):
    for i, j, ko, km, ki in T.grid(24, 16, 2, 4, 4):
        with T.block("update"):
            vi, vj = T.axis.remap("SS", [i, j])
            vk = T.axis.reduce(32, ko * 16 + km * 4 + ki)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""
LET = TILED.replace(
    "            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]",
    "            new: T.float32 = C[vi, vj] + A[vi, vk] * B[vj, vk]\n            C[vi, vj] = new",
)
SQUARES = """
@T.prim_func
def main(A: T.Buffer((4, 8, 12)), C: T.Buffer((4,))):
    for b, i, j in T.grid(4, 8, 12):
        with T.block("C"):
            vb, vi, vj = T.axis.remap("SRR", [b, i, j])
            with T.init():
                C[vb] = T.float32(0)
            C[vb] = C[vb] + A[vb, vi, vj] * A[vb, vi, vj]
"""
ANNOTATED = SQUARES.replace(
    "            vb, vi", '            T.block_attr({"mark": 1})\n            vb, vi'
)


def rooted(outer: int, inner: int, digits: str) -> str:
    """Squares summed over one fused loop, then their root."""
    return f"""
@T.prim_func
def main(A: T.Buffer((4, 8, 12)), D: T.Buffer((4,))):
    C = T.alloc_buffer((4,))
    for b, fo, fi in T.grid(4, {outer}, {inner}):
        with T.block("C"):
            vb = T.axis.spatial(4, b)
            vi = T.axis.reduce(8, {digits} // 12)
            vj = T.axis.reduce(12, {digits} % 12)
            with T.init():
                C[vb] = T.float32(0)
            C[vb] = C[vb] + A[vb, vi, vj] * A[vb, vi, vj]
    for b in range(4):
        with T.block("D"):
            vb = T.axis.spatial(4, b)
            D[vb] = T.sqrt(C[vb])
"""


ROWS = """
@T.prim_func
def main(A: T.Buffer((16, 16)), B: T.Buffer((16,))):
    for i, k in T.grid(16, 16):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""
ALL = """
@T.prim_func
def main(A: T.Buffer((20,)), B: T.Buffer(())):
    for k in range(20):
        with T.block("B"):
            vk = T.axis.reduce(20, k)
            with T.init():
                B[()] = T.float32(0)
            B[()] = B[()] + A[vk]
"""
GUARDED = """
@T.prim_func
def main(A: T.Buffer((16, 16)), B: T.Buffer((16,))):
    for i, ko, ki in T.grid(16, 3, 6):
        with T.block("B"):
            T.where(ko * 6 + ki < 16)
            vi = T.axis.spatial(16, i)
            vk = T.axis.reduce(16, ko * 6 + ki)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""
TWO_IN_A_LOOP = """
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8)), C: T.Buffer((8, 8)), D: T.Buffer((8, 8))):
    for k, i, j in T.grid(8, 8, 8):
        with T.block("C"):
            vk, vi, vj = T.axis.remap("RSS", [k, i, j])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        with T.block("D"):
            vk, vi, vj = T.axis.remap("RSS", [k, i, j])
            with T.init():
                D[vi, vj] = T.float32(0)
            D[vi, vj] = D[vi, vj] + B[vi, vk] * A[vk, vj]
"""
CHAIN = """
@T.prim_func
def main(A: T.Buffer((6, 6, 8)), F: T.Buffer((6, 6))):
    C = T.alloc_buffer((6, 6))
    D = T.alloc_buffer((6, 6))
    for i in range(6):
        for j in range(6):
            for co, ci in T.grid(4, 2):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    vk = T.axis.reduce(8, co * 2 + ci)
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vj, vk]
            for do, di in T.grid(4, 2):
                with T.block("D"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    vk = T.axis.reduce(8, do * 2 + di)
                    with T.init():
                        D[vi, vj] = T.float32(0)
                    D[vi, vj] = D[vi, vj] + A[vi, vj, vk] + C[vi, vj]
        for j in range(6):
            for fo, fi in T.grid(4, 2):
                with T.block("F"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    vk = T.axis.reduce(8, fo * 2 + fi)
                    with T.init():
                        F[vi, vj] = T.float32(0)
                    F[vi, vj] = F[vi, vj] + A[vi, vj, vk] + D[vi, vj]
"""
POOL = """
@T.prim_func
def main(A: T.Buffer((1, 10, 3, 3)), B: T.Buffer((1, 10, 1, 1))):
    for n, c, h, w, r, s in T.grid(1, 10, 1, 1, 9, 1):
        with T.block("acc"):
            v0 = T.axis.spatial(1, 0)
            v1 = T.axis.spatial(10, c)
            v2 = T.axis.spatial(1, 0)
            v3 = T.axis.spatial(1, 0)
            vr = T.axis.reduce(3, r // 3)
            vs = T.axis.reduce(3, r % 3)
            T.reads(A[v0, v1, v2 * 3 + vr, v3 * 3 + vs])
            T.writes(B[v0, v1, v2, v3])
            with T.init():
                B[v0, v1, v2, v3] = T.float32(0)
            B[v0, v1, v2, v3] = B[v0, v1, v2, v3] + A[v0, v1, v2 * 3 + vr, v3 * 3 + vs]
"""


def extremum(
    compare: str, start: str, init: str, lets: str, stores: str, dtype: str = "float32"
) -> str:
    """The place and the value of the largest or smallest of each row."""
    lines = "\n".join(
        ["            with T.init():"]
        + [f"                {x}" for x in init.replace("START", start).split("; ")]
        + [f"            {x}" for x in lets.replace("?", compare).split("; ") if x]
        + [f"            {x}" for x in stores.replace("?", compare).split("; ")]
    )
    return f"""
@T.prim_func
def main(idx: T.Buffer((12, 16), "int32"), val: T.Buffer((12, 16), "{dtype}"),
         v0: T.Buffer((12,), "int32"), v1: T.Buffer((12,), "{dtype}")):
    for i, ko, ki in T.grid(12, 2, 8):
        with T.block("arg"):
            vi = T.axis.spatial(12, i)
            vk = T.axis.reduce(16, ko * 8 + ki)
            T.reads(idx[vi, vk], val[vi, vk])
            T.writes(v0[vi], v1[vi])
{lines}
"""


L0 = "x0: T.int32 = T.Select(v1[vi] ? val[vi, vk], v0[vi], idx[vi, vk])"
L1 = "x1: T.float32 = T.Select(v1[vi] ? val[vi, vk], v1[vi], val[vi, vk])"
I0, I1, S0, S1 = "v0[vi] = -1", "v1[vi] = START", "v0[vi] = x0", "v1[vi] = x1"
LOW, HIGH = 'T.min_value("float32")', 'T.max_value("float32")'
ARGMAX = extremum(">=", LOW, f"{I0}; {I1}", f"{L0}; {L1}", f"{S0}; {S1}")
ARGMIN = extremum("<=", HIGH, f"{I1}; {I0}", f"{L0}; {L1}", f"{S1}; {S0}")
L1i = L1.replace("float32", "int32")
LOWi = 'T.min_value("int32")'


def rfactor(name: str, text: str, block: str, loop: int, axis: int) -> None:
    """One rfactor of the loop at that place around the block."""

    @item(f"rfactor/{name}", text)
    def _(sch, tvm):
        sch.rfactor(sch.get_loops(sch.get_block(block))[loop], axis)


rfactor("inner", TILED, "update", 4, 0)
rfactor("middle", TILED, "update", 3, 2)
rfactor("outer", TILED, "update", 2, 1)
rfactor("from the end", TILED, "update", 4, -3)
rfactor("let", LET, "update", 4, 0)
rfactor("squares, last axis", SQUARES, "C", 2, 1)
rfactor("squares, first reduce axis", SQUARES, "C", 1, 0)
rfactor("annotated", ANNOTATED, "C", 2, 1)
rfactor("unit loop inside is factored", rooted(96, 1, "fo"), "C", 2, 0)
rfactor("unit loop outside is factored", rooted(1, 96, "fi"), "C", 1, 1)
rfactor("whole fused loop, unit inside", rooted(96, 1, "fo"), "C", 1, 0)
rfactor("whole fused loop, unit outside", rooted(1, 96, "fi"), "C", 2, 1)
rfactor("all of one axis", ROWS, "B", 1, 0)
rfactor("all to a scalar", ALL, "B", 0, 0)
rfactor("guarded", GUARDED, "B", 1, 1)
rfactor("guarded, inner", GUARDED, "B", 2, 1)
rfactor("two blocks in the loop", TWO_IN_A_LOOP, "C", 0, 0)
rfactor("chain, first", CHAIN, "C", 2, 2)
rfactor("chain, second", CHAIN, "D", 2, 0)
rfactor("chain, second inner", CHAIN, "D", 3, 0)
rfactor("chain, third", CHAIN, "F", 2, 0)
rfactor("chain, third inner", CHAIN, "F", 3, 0)
rfactor("pool of constants", POOL, "acc", 4, 4)
rfactor("axis too far", TILED, "update", 4, 3)
rfactor("axis too far from the end", TILED, "update", 4, -4)
rfactor("spatial loop", ROWS, "B", 0, 0)
rfactor("starts at one", ROWS.replace("T.float32(0)", "T.float32(1)"), "B", 1, 0)
rfactor("subtracts", ROWS.replace("B[vi] + A", "B[vi] - A"), "B", 1, 0)
rfactor(
    "init by a let",
    ROWS.replace(
        "                B[vi] = T.float32(0)",
        "                z: T.float32 = T.float32(0)\n                B[vi] = z",
    ),
    "B",
    1,
    0,
)
rfactor(
    "parallel",
    ROWS.replace(
        "    for i, k in T.grid(16, 16):\n        with",
        "    for i in range(16):\n      for k in T.parallel(16):\n        with",
    ),
    "B",
    1,
    0,
)
rfactor(
    "other elements",
    TILED.replace("C[vi, vj] = C[vi, vj] +", "C[vj, vi] = C[vj, vi] +").replace("24", "16"),
    "update",
    4,
    0,
)
rfactor(
    "not affine",
    ROWS.replace(
        'vi, vk = T.axis.remap("SR", [i, k])',
        "vi = T.axis.spatial(16, i)\n            vk = T.axis.reduce(16, k * k // 16)",
    ),
    "B",
    1,
    0,
)
rfactor(
    "elementwise",
    """
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
""",
    "B",
    0,
    0,
)
rfactor(
    "writes by the reduce axis",
    ROWS.replace("B[vi]", "B[vi, vk]").replace("T.Buffer((16,))", "T.Buffer((16, 16))"),
    "B",
    1,
    0,
)
rfactor(
    "mixed loop",
    """
@T.prim_func
def main(A: T.Buffer((16, 16)), B: T.Buffer((16,))):
    for io, f, ki in T.grid(4, 16, 4):
        with T.block("B"):
            vi = T.axis.spatial(16, io * 4 + f // 4)
            vk = T.axis.reduce(16, f % 4 * 4 + ki)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
""",
    "B",
    2,
    0,
)
rfactor(
    "part is read outside",
    """
@T.prim_func
def main(A: T.Buffer((16, 16)), B: T.Buffer((16, 16)), D: T.Buffer((16, 16))):
    C = T.alloc_buffer((16, 16))
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(16, 16):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj]
""",
    "C",
    2,
    0,
)
rfactor("argmax", ARGMAX, "arg", 2, 1)
rfactor("argmax, outer", ARGMAX, "arg", 1, 0)
rfactor("argmin, stores in another order", ARGMIN, "arg", 2, 1)
rfactor(
    "argmax of other shapes",
    ARGMAX.replace("v0: T.Buffer((12,)", "v0: T.Buffer((24,)"),
    "arg",
    2,
    1,
)
rfactor(
    "argmax at other indices",
    ARGMAX.replace("                v1[vi] =", "                v1[vi + 1] =")
    .replace("            v1[vi] = x1", "            v1[vi + 1] = x1")
    .replace("v1: T.Buffer((12,)", "v1: T.Buffer((13,)")
    .replace("T.writes(v0[vi], v1[vi])", "T.writes(v0[vi], v1[vi + 1])"),
    "arg",
    2,
    1,
)
rfactor(
    "argmax, init by a let",
    extremum(">=", LOW, f"{I0}; z: T.float32 = START; v1[vi] = z", f"{L0}; {L1}", f"{S0}; {S1}"),
    "arg",
    2,
    1,
)
rfactor(
    "argmax, init of one twice",
    extremum(">=", LOW, f"{I0}; {I0}", f"{L0}; {L1}", f"{S0}; {S1}"),
    "arg",
    2,
    1,
)
rfactor(
    "argmax, one let less",
    extremum(
        ">=",
        LOW,
        f"{I0}; {I1}",
        L0,
        f"{S0}; v1[vi] = T.Select(v1[vi] ? val[vi, vk], v1[vi], val[vi, vk])",
    ),
    "arg",
    2,
    1,
)
rfactor("argmax, one init less", extremum(">=", LOW, I0, f"{L0}; {L1}", f"{S0}; {S1}"), "arg", 2, 1)
rfactor(
    "argmax, stores nothing",
    extremum(">=", LOW, f"{I0}; {I1}", f"{L0}; {L1}", "T.evaluate(0)"),
    "arg",
    2,
    1,
)
rfactor(
    "argmax, one store more",
    extremum(">=", LOW, f"{I0}; {I1}", f"{L0}; {L1}", f"{S0}; {S1}; {S1}"),
    "arg",
    2,
    1,
)
rfactor(
    "argmax, one store is none",
    extremum(">=", LOW, f"{I0}; {I1}", f"{L0}; {L1}", f"{S0}; T.evaluate(0)"),
    "arg",
    2,
    1,
)
rfactor(
    "argmax, stores no let",
    extremum(
        ">=",
        LOW,
        f"{I0}; {I1}",
        f"{L0}; {L1}",
        f"v0[vi] = T.Select(v1[vi] ? val[vi, vk], v0[vi], idx[vi, vk]); {S1}",
    ),
    "arg",
    2,
    1,
)
rfactor(
    "argmax, one let for both",
    extremum(">=", LOWi, f"{I0}; {I1}", f"{L0}; {L1i}", f"{S0}; v1[vi] = x0", "int32"),
    "arg",
    2,
    1,
)
rfactor(
    "argmax, one buffer for both",
    extremum(">=", LOWi, f"{I0}; {I1}", f"{L0}; {L1i}", f"{S0}; v0[vi] = x1", "int32"),
    "arg",
    2,
    1,
)
rfactor(
    "argmax, of int32",
    extremum(">=", LOWi, f"{I0}; {I1}", f"{L0}; {L1i}", f"{S0}; {S1}", "int32"),
    "arg",
    2,
    1,
)
rfactor(
    "argmax, first of equal ones",
    extremum(
        ">",
        LOWi,
        f"{I0}; {I1}",
        "x0: T.int32 = T.Select(v1[vi] > val[vi, vk] or (v1[vi] == val[vi, vk] and v0[vi] < idx[vi, vk]), v0[vi], idx[vi, vk]); "
        + L1i,
        f"{S0}; {S1}",
        "int32",
    ),
    "arg",
    2,
    1,
)

DECOMPOSED = {
    "outermost": (ROWS, "B", 0),
    "at the reduction": (ROWS, "B", 1),
    "of a tile": (TILED, "update", 1),
    "inner tile loop": (TILED, "update", 2),
    "below the reduction": (
        ROWS.replace("for i, k in T.grid(16, 16)", "for k, i in T.grid(16, 16)"),
        "B",
        1,
    ),
    "annotated": (ANNOTATED, "C", 0),
    "guarded": (GUARDED, "B", 1),
    "squares in the middle": (SQUARES, "C", 1),
}
for _name, (_text, _block, _loop) in DECOMPOSED.items():

    @item(f"decompose_reduction/{_name}", _text)
    def _(sch, tvm, block=_block, loop=_loop):
        block = sch.get_block(block)
        sch.decompose_reduction(block, sch.get_loops(block)[loop])


@item(
    "decompose_reduction/tiles with a guard",
    TILED.replace(
        "for i, j, ko, km, ki in T.grid(24, 16, 2, 4, 4)", "for i, j, k in T.grid(24, 16, 32)"
    ).replace("ko * 16 + km * 4 + ki", "k"),
)
def _(sch, tvm):
    C = sch.get_block("update")
    i, j, k = sch.get_loops(C)
    io, ii = sch.split(i, factors=[6, 4])
    ko, ki = sch.split(k, factors=[5, 7])
    sch.decompose_reduction(C, ii)


@item(
    "decompose_reduction/blockized",
    """
@T.prim_func
def main(A: T.Buffer((8, 4, 24)), B: T.Buffer((8, 4))):
    for i, ko in T.grid(8, 3):
        with T.block("tile"):
            io, vo = T.axis.remap("SR", [i, ko])
            with T.init():
                for j in range(4):
                    with T.block("B_init"):
                        vj = T.axis.spatial(4, j)
                        B[io, vj] = T.float32(0)
            for j, ki in T.grid(4, 8):
                with T.block("B"):
                    vj = T.axis.spatial(4, j)
                    vk = T.axis.reduce(24, vo * 8 + ki)
                    B[io, vj] = B[io, vj] + A[io, vj, vk]
""",
)
def _(sch, tvm):
    tile = sch.get_block("tile")
    sch.decompose_reduction(tile, sch.get_loops(tile)[0])


@item(
    "decompose_reduction/vector loop",
    """
@T.prim_func
def main(A: T.Buffer((16, 8)), B: T.Buffer((8,))):
    for k in range(16):
        for i in T.vectorized(8):
            with T.block("B"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vk, vi]
""",
)
def _(sch, tvm):
    sch.decompose_reduction("B", sch.get_loops("B")[0])


@item(
    "decompose_reduction/nested blocks",
    """
@T.prim_func
def main(A: T.Buffer((1, 24)), B: T.Buffer((1,))):
    for i, ko in T.grid(1, 2):
        with T.block("outer"):
            vi, vo = T.axis.remap("SR", [i, ko])
            C = T.alloc_buffer((12,))
            with T.init():
                B[vi] = T.float32(0)
            for ki in range(12):
                with T.block("first"):
                    vk = T.axis.spatial(12, ki)
                    C[vk] = A[vi, vo * 12 + vk]
            for ki in range(12):
                with T.block("second"):
                    vk = T.axis.reduce(12, ki)
                    B[vi] = B[vi] + C[vk]
""",
)
def _(sch, tvm):
    sch.decompose_reduction("outer", sch.get_loops("outer")[1])


@item(
    "decompose_reduction/threads",
    """
@T.prim_func
def main(A: T.Buffer((8, 6)), B: T.Buffer((8,))):
    for t in T.thread_binding(8, thread="threadIdx.x"):
        for r in range(6):
            with T.block("B"):
                vi, vr = T.axis.remap("SR", [t, r])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vr]
""",
)
def _(sch, tvm):
    sch.decompose_reduction("B", sch.get_loops("B")[0])
