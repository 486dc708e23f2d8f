"""Every construct of a loop program as a row: its lines, and what NumPy says they do.

A program has the parameters of `HEAD` (or its own); `after` gets them as arrays and numbers, and
does to the arrays what the program does. `returns` is what it gives back. A row without `after` is
not run: GPUs, calls of functions that are not there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent, indent
from typing import Any

import numpy as np

from mlcnb.ir.dtype import dtype

HEAD = (
    'A: T.Buffer((16,), "float32"), B: T.Buffer((16, 16), "float32"), '
    'C: T.Buffer((16,), "float32"), I: T.Buffer((16,), "int32"), n: T.int32, m: T.int64'
)


@dataclass(frozen=True)
class Row:
    """One construct."""

    name: str
    lines: str
    after: Callable[..., Any] | None = None
    head: str = HEAD
    returns: str = ""
    dialect: str | None = None
    #: what the LLVM backend says where it cannot
    llvm: str | None = None
    #: it ends names in the middle of a body; 0.27 cannot, and its text reads back without the ends
    scoped: bool = False

    @property
    def text(self) -> str:
        """The whole program."""
        result = f" -> T.{self.returns}" if self.returns else ""
        lines = indent(dedent(self.lines).strip("\n"), "    ")
        return f"@T.prim_func\ndef main({self.head}){result}:\n{lines}\n"


ROWS: list[Row] = []


def row(name: str, lines: str, **more: Any) -> Callable[[Callable], Callable]:
    """Decorator of `after`."""

    def keep(after: Callable) -> Callable:
        ROWS.append(Row(name, lines, after, **more))
        return after

    return keep


def text_only(name: str, lines: str, **more: Any) -> None:
    """A row that is not run."""
    ROWS.append(Row(name, lines, **more))


def expression(text: str, value: Callable[..., Any]) -> None:
    """A row that stores one scalar to C[0]."""

    def after(A, B, C, I, n, m):
        C[0] = np.float32(value(A, B, C, I, n, m))

    ROWS.append(Row(text, f"C[0] = {text}", after))


# loops -------------------------------------------------------------------------------------------

for kind in ("range", "T.serial", "T.parallel", "T.vectorized", "T.unroll"):

    @row(kind, f"for i in {kind}(2, 10):\n    C[i] = A[i]")
    def _(A, B, C, I, n, m):
        C[2:10] = A[2:10]

    @row(f"{kind} with a step", f"for i in {kind}(1, 14, {'' if kind == 'range' else 'step='}4):\n"
         "    C[i] = A[i]")  # fmt: skip
    def _(A, B, C, I, n, m):
        C[1:14:4] = A[1:14:4]


@row("a loop backwards", "for i in range(15, 0, -1):\n    C[i] = C[i - 1]")
def _(A, B, C, I, n, m):
    C[1:] = C[:-1].copy()


@row("symbolic bounds", "for i in range(n, n + 4):\n    C[i] = A[i]")
def _(A, B, C, I, n, m):
    C[n : n + 4] = A[n : n + 4]


@row("no round at all", "for i in range(5, 2):\n    C[i] = 1.0")
def _(A, B, C, I, n, m):
    pass


@row("grid", "for i, j in T.grid(4, (2, 8)):\n    C[i] = B[i, j]")
def _(A, B, C, I, n, m):
    C[:4] = B[:4, 7]


@row("annotations", 'for i in T.serial(2, annotations={"pragma_x": [1, "y"]}):\n    C[i] = A[i]')
def _(A, B, C, I, n, m):
    C[:2] = A[:2]


@row("int64 loops", "for i in range(T.int64(16)):\n    C[i] = A[i] + T.Cast('float32', m)")
def _(A, B, C, I, n, m):
    C[:] = A + np.float32(m)


text_only(
    "targets",
    """
    T.func_attr({"target": T.target({"kind": "cuda", "arch": "sm_80"}, {"kind": "llvm"}),
                 "other": T.target("llvm -num-cores=4")})
    T.evaluate(0)
""",
)
text_only(
    "threads",
    """
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for j in T.thread_binding(4, thread="threadIdx.x"):
            C[i * 4 + j] = A[i * 4 + j]
""",
)
text_only(
    "launched threads",
    """
    bx = T.env_thread("blockIdx.x")
    T.launch_thread(bx, 4)
    tx = T.launch_thread("threadIdx.x", 4)
    C[bx * 4 + tx] = A[bx * 4 + tx]
""",
)


@row("while", "I[0] = 0\nwhile I[0] < 5:\n    I[0] = I[0] + 2")
def _(A, B, C, I, n, m):
    I[0] = 6


@row(
    "break",
    """
    for i in range(16):
        for j in range(16):
            if j > i:
                break
            C[i] = B[i, j]
        if i == n + 2:
            break
""",
)
def _(A, B, C, I, n, m):
    for i in range(n + 3):
        C[i] = B[i, i]


@row(
    "continue",
    """
    for i in range(16):
        if i % 3 == 0:
            continue
        C[i] = 1.0
""",
)
def _(A, B, C, I, n, m):
    C[np.arange(16) % 3 != 0] = 1


@row(
    "continue in a parallel loop",
    """
    for i in T.parallel(16):
        if i % 3 == 0:
            continue
        C[i] = 1.0
""",
)
def _(A, B, C, I, n, m):
    C[np.arange(16) % 3 != 0] = 1


@row(
    "break of while True",
    """
    I[0] = 0
    while True:
        D = T.alloc_local((20000,))
        D[0] = 2.0
        I[0] = I[0] + 1
        if I[0] > 7:
            break
        if I[0] % 2 == 0:
            continue
        C[I[0]] = D[0]
""",
    dialect="0.27",
)
def _(A, B, C, I, n, m):
    C[1:8:2] = 2
    I[0] = 8


@row(
    "branches",
    """
    for i in range(16):
        if i < 3:
            C[i] = 1.0
        elif i < 9 and not i == 5:
            C[i] = 2.0
        else:
            C[i] = 3.0
""",
)
def _(A, B, C, I, n, m):
    C[:] = 3
    C[:9] = 2
    C[:3], C[5] = 1, 3


@row("assert", 'assert n > 0, "n must be positive"\nwith T.Assert(n < 9, "small"):\n    C[0] = 1.0')
def _(A, B, C, I, n, m):
    C[0] = 1


@row("assert of 0.27", 'assert n > 0, ("ValueError", ["n must be", " positive"])\nC[0] = 1.0')
def _(A, B, C, I, n, m):
    C[0] = 1


# blocks ------------------------------------------------------------------------------------------


@row(
    "block with its regions found",
    """
    for i, j in T.grid(16, 16):
        with T.block("sum"):
            vi = T.axis.S(16, i)
            vj = T.axis.R(16, j)
            with T.init():
                C[vi] = 0.0
            C[vi] += B[vi, vj]
""",
)
def _(A, B, C, I, n, m):
    total = np.zeros(16, "float32")
    for j in range(16):
        total += B[:, j]
    C[:] = total


@row(
    "sblock",
    """
    D = T.sblock_alloc_buffer((16,), "float16", scope="local")
    for i in range(16):
        with T.sblock("D"):
            vi = T.axis.remap("S", [i])
            T.sblock_attr({"key": [1, None, True, 1.5, {"x": "y"}]})
            D[vi] = T.Cast("float16", A[vi])
    for i in range(16):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = T.Cast("float32", D[vi])
""",
)
def _(A, B, C, I, n, m):
    C[:] = A.astype("float16")


@row(
    "predicate",
    """
    for i, j in T.grid(4, 5):
        with T.block("C"):
            vi = T.axis.spatial(16, i * 5 + j)
            T.where(i * 5 + j < 16)
            C[vi] = A[vi]
""",
)
def _(A, B, C, I, n, m):
    C[:] = A


@row(
    "axes that scan, are opaque, start elsewhere",
    """
    for i in range(1, 16):
        with T.block("scan"):
            vi = T.axis.scan((1, 16), i)
            C[vi] = C[vi - 1] + A[vi]
    for i in range(16):
        with T.block("opaque"):
            vi = T.axis.opaque(16, i)
            I[vi] = T.Cast("int32", A[vi])
""",
)
def _(A, B, C, I, n, m):
    for i in range(1, 16):
        C[i] = C[i - 1] + A[i]
    I[:] = A.astype("int32")


@row(
    "opaque block",
    """
    with T.block("b"):
        T.reads(A[0:16])
        T.writes([C[0:2], C[4]])
        C[4] = A[0]
        with T.block():
            C[0] = A[1]
""",
)
def _(A, B, C, I, n, m):
    C[4], C[0] = A[0], A[1]


@row(
    "a buffer of a block with strides",
    """
    for i in range(4):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            D = T.alloc_buffer((2, 4), strides=(6, 1), scope="local", align=16)
            D[1, 3] = A[vi]
            D[1, 2] = A[vi] + A[vi]
            C[vi] = D[1, 3] + D[1, 2]
""",
)
def _(A, B, C, I, n, m):
    C[:4] = A[:4] + (A[:4] + A[:4])


@row(
    "match_buffer of a region",
    """
    for i in range(4):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            E = T.match_buffer(A[vi * 4:vi * 4 + 4], (4,), offset_factor=4)
            C[vi] = E[3]
""",
)
def _(A, B, C, I, n, m):
    C[:4] = A[3::4]


@row(
    "match_buffer with strides",
    """
    for i, j in T.grid(4, 4):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            E = T.match_buffer(B[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4], (4, 4),
                               strides=("s0", "s1"), elem_offset="off", offset_factor=4)
            C[vi * 4 + vj] = E[1, 2]
            I[vi * 4 + vj] = T.Cast("int32", E.strides[0] + E.elem_offset)
""",
)
def _(A, B, C, I, n, m):
    C[:] = B[1::4, 2::4].reshape(-1)
    I[:] = [16 + i * 64 + j * 4 for i in range(4) for j in range(4)]


@row(
    "match_buffer without some dimensions",
    """
    for i in range(16):
        with T.block("b"):
            vi = T.axis.spatial(16, i)
            s = T.int32()
            E = T.match_buffer(B[vi, 0:16], (16,), strides=(s,))
            C[vi] = E[15]
""",
)
def _(A, B, C, I, n, m):
    C[:] = B[:, 15]


# buffers -----------------------------------------------------------------------------------------


@row("no dimensions", "Z[()] += 1.0", head='Z: T.Buffer((), "float32")')
def _(Z):
    Z[()] += 1


@row(
    "symbolic shapes",
    """
    k = T.int64()
    D = T.match_buffer(d, (k,), "float32")
    for i in range(k):
        D[i] = D[i] + T.Cast("float32", k)
""",
    head="d: T.handle",
)
def _(D):
    D[:] = D + np.float32(D.shape[0])


@row("symbolic shapes in the signature", "for i in range(k):\n    D[i] = E[i, k - 1]",
     head='D: T.Buffer(("k",), "float32"), E: T.Buffer(("k", "k"), "float32")')  # fmt: skip
def _(D, E):
    D[:] = E[:, -1]


@row(
    "views of one memory",
    """
    D = T.decl_buffer((4, 4), data=A.data)
    E = A.view(2, 8)
    F = T.Buffer((8,), data=A.data, elem_offset=8)
    G = A.view("int32")
    C[0] = D[1, 1]
    C[1] = E[1, 2]
    C[2] = F[7]
    I[0] = G[3]
""",
)
def _(A, B, C, I, n, m):
    C[:3] = A[[5, 10, 15]]
    I[0] = A.view("int32")[3]


@row(
    "allocated memory",
    """
    v = T.allocate([16], "float32", "global")
    D = T.decl_buffer((16,), data=v)
    D[0] = A[0]
    with T.allocate([n], "int32", "local") as w:
        E = T.decl_buffer((n,), "int32", data=w, scope="local")
        E[2] = 5
        C[1] = D[0] + T.Cast("float32", E[2])
    C[0] = D[0]
""",
    scoped=True,
)
def _(A, B, C, I, n, m):
    C[0], C[1] = A[0], A[0] + np.float32(5)


@row(
    "memory of 0.27",
    """
    D = T.alloc_buffer((4, 4))
    E = T.alloc_shared((4,), "float16")
    F = T.alloc_local((4,), "int8")
    D[1, 1] = A[0]
    E[0] = 1.5
    F[3] = 7
    C[0] = D[1, 1] + T.Cast("float32", E[0]) + T.Cast("float32", F[3])
""",
    dialect="0.27",
)
def _(A, B, C, I, n, m):
    C[0] = A[0] + np.float32(1.5) + np.float32(7)


@row(
    "scalars of 0.27",
    """
    x: T.float32 = 0
    k = 0
    for i in range(16):
        if A[i] > 4.0:
            x += A[i]
            k = k + 1
    C[0] = x
    I[0] = k
""",
    dialect="0.27",
)
def _(A, B, C, I, n, m):
    total = np.float32(0)
    for a in A[A > 4]:
        total += a
    C[0], I[0] = total, (A > 4).sum()


text_only(
    "options of a buffer",
    """
    D = T.match_buffer(d, (4, 4), "int32", strides=[8, 1], elem_offset=8, scope="shared", align=128,
                       offset_factor=8, axis_separators=[1])
    D[0, 1] = 1
""",
    head="d: T.handle",
)


@row(
    "elements that are vectors",
    """
    v = T.allocate([2], "float32x4", "local")
    D = T.decl_buffer((2,), "float32x4", data=v, scope="local")
    D[1] = X[1] + T.Broadcast(T.float32(1), 4)
    X[0] = D[1] * X[2]
""",
    head='X: T.Buffer((3,), "float32x4")',
)
def _(X):
    X[0] = (X[1] + np.float32(1)) * X[2]


# names -------------------------------------------------------------------------------------------


@row(
    "lets",
    """
    x: T.int32 = n + 1
    y: T.let[T.int32] = x * 2
    z = y + x
    with T.LetStmt(A[0] * A[0]) as w:
        C[z] = w
    with T.LetStmt(T.float32(2.0)) as w:
        C[0] = w
""",
    scoped=True,
)
def _(A, B, C, I, n, m):
    C[3 * (n + 1)] = A[0] * A[0]
    C[0] = 2


@row(
    "names for Python values",
    """
    size = T.meta_var(4)
    pair = (n, n + 1)
    first, second = pair
    T.static_assert(size == 4)
    C[size] = T.Cast("float32", first * second)
""",
)
def _(A, B, C, I, n, m):
    C[4] = n * (n + 1)


@row(
    "macros",
    """
    @T.macro
    def put(at, value=1.0):
        C[at] = value
    for i in range(4):
        put(i)
        put(i + 8, A[i])
""",
)
def _(A, B, C, I, n, m):
    C[:4] = 1
    C[8:12] = A[:4]


@row(
    "attributes",
    """
    T.func_attr({"tir.noalias": True, "key": {"a": [1, T.int64(2), "x"]}})
    T.attr(A.data, "storage_alignment", 128)
    with T.attr(0, "pragma", "unroll"):
        C[0] = 1.0
    T.attr({"other": 1})
    C[1] = 2.0
""",
)
def _(A, B, C, I, n, m):
    C[:2] = 1, 2


@row("return", "if n > 1:\n    return A[1] + 1.0\nreturn T.float32(0)", returns="float32")
def _(A, B, C, I, n, m):
    return float(A[1] + np.float32(1))


for kind in ("int8", "uint64", "bool", "float16", "bfloat16", "float64", "float8_e5m2"):

    @row(f"return {kind}", f"return T.{kind}(1)", returns=kind)
    def _(A, B, C, I, n, m):
        return 1


@row(
    "return from a loop",
    """
    D = T.allocate([n * 100000], "float32", "global")
    for i in range(16):
        if I[i] == 3:
            T.ret(i)
    return -1
""",
    returns="int32",
)
def _(A, B, C, I, n, m):
    found = np.flatnonzero(I == 3)
    return int(found[0]) if len(found) else -1


# vectors -----------------------------------------------------------------------------------------


@row(
    "vectors",
    """
    C[0:4] = A[4:8] + T.Broadcast(T.float32(1), 4)
    C[T.Ramp(4, 2, 4)] = A[T.Ramp(7, -1, 4)]
    C[12:16:2] = A[0:2]
""",
)
def _(A, B, C, I, n, m):
    C[0:4] = A[4:8] + np.float32(1)
    C[4:12:2] = A[7:3:-1]
    C[12:16:2] = A[0:2]


@row(
    "masked vectors",
    """
    C.vstore([T.Ramp(0, 1, 8)], A.vload([T.Ramp(8, 1, 8)],
             predicate=T.Ramp(0, 1, 8) < T.Broadcast(n, 8)),
             predicate=T.Ramp(0, 1, 8) < T.Broadcast(5, 8))
""",
)
def _(A, B, C, I, n, m):
    C[:n] = A[8 : 8 + n]
    C[n:5] = 0


@row("gathered vectors", "C[0:4] = A[I[0:4]]\nC[I[8:10] // 8 + T.Ramp(8, 1, 2)] = A[0:2]")
def _(A, B, C, I, n, m):
    C[0:4] = A[I[0:4]]
    C[8:10] = A[0:2]


@row(
    "shuffled vectors",
    """
    C[0:4] = T.Shuffle([A[0:2], A[4:6]], [3, 0, 1, 2])
    C[4] = T.Shuffle([A[0:4]], [2])
    C[5:7] = T.vectorhigh("float32x2", A[0:4])
    C[7:9] = T.vectorlow("float32x2", A[0:4])
    C[9:13] = T.vectorcombine("float32x4", A[0:2], A[4:6])
""",
)
def _(A, B, C, I, n, m):
    C[0:4] = A[[5, 0, 1, 4]]
    C[4] = A[2]
    C[5:7], C[7:9], C[9:13] = A[2:4], A[0:2], A[[0, 1, 4, 5]]


@row(
    "choices of vectors",
    """
    C[0:4] = T.Select(A[0:4] > A[4:8], A[0:4], A[4:8])
    C[4:8] = T.if_then_else(n > 2, A[0:4], A[4:8])
    C[8:12] = T.Cast("float32x4", I[0:4])
    C[12:16] = T.Select(T.get_active_lane_mask("boolx4", n, 5), A[0:4], A[4:8])
""",
)
def _(A, B, C, I, n, m):
    C[0:4] = np.maximum(A[0:4], A[4:8])
    C[4:8] = A[0:4] if n > 2 else A[4:8]
    C[8:12] = I[0:4]
    C[12:16] = np.where(n + np.arange(4) < 5, A[0:4], A[4:8])


# expressions -------------------------------------------------------------------------------------

expression("n // -2 + n % -2 * 100", lambda A, B, C, I, n, m: n // -2 + n % -2 * 100)
expression(
    "T.Div(-n, 2) + T.truncmod(-n, 2) * 100", lambda A, B, C, I, n, m: -(n // 2) - n % 2 * 100
)
expression(
    "T.ceildiv(n, 2) + T.indexdiv(n, 2) * T.indexmod(n, 2)",
    lambda A, B, C, I, n, m: -(-n // 2) + n // 2 * (n % 2),
)
expression("n << 2 | n & 5 ^ n >> 1 ^ ~n", lambda A, B, C, I, n, m: n << 2 | n & 5 ^ n >> 1 ^ ~n)
expression("T.popcount(n) + T.clz(n)", lambda A, B, C, I, n, m: n.bit_count() + 32 - n.bit_length())
expression(
    "T.min(n, 2) + T.max(n, 7) - abs(-n)", lambda A, B, C, I, n, m: min(n, 2) + max(n, 7) - n
)
expression("T.Select(n > 2 and n < 9, n, 0)", lambda A, B, C, I, n, m: n if 2 < n < 9 else 0)
expression("n if 0 < n < 9 or n == 100 else 0", lambda A, B, C, I, n, m: n if 0 < n < 9 else 0)
expression("T.Let(x * x, where={x: n + 1})", lambda A, B, C, I, n, m: (n + 1) ** 2)
expression("T.likely(n > 2)", lambda A, B, C, I, n, m: n > 2)
expression("T.all(n > 1, n < 9, n != 4)", lambda A, B, C, I, n, m: 1 < n < 9 and n != 4)
expression("T.any(n < 1, n > 9)", lambda A, B, C, I, n, m: n < 1 or n > 9)
expression("T.pow(n, 4)", lambda A, B, C, I, n, m: n**4)
expression("T.Cast('int8', n + 255)", lambda A, B, C, I, n, m: np.int32(n + 255).astype("int8"))
expression("T.reinterpret('int32', A[0])", lambda A, B, C, I, n, m: A.view("int32")[0])
expression("T.reinterpret('uint16', T.bfloat16(1.5))", lambda A, B, C, I, n, m: 0x3FC0)
expression("T.large_uint_imm(5, 3)", lambda A, B, C, I, n, m: (3 << 32) + 5)
expression("T.isnullptr(A.data)", lambda A, B, C, I, n, m: False)
expression(
    "T.fma(A[0], A[1], A[2])",
    lambda A, B, C, I, n, m: np.float64(A[0]) * np.float64(A[1]) + np.float64(A[2]),
)
expression("T.ldexp(A[0], n)", lambda A, B, C, I, n, m: np.ldexp(A[0], n))
expression("T.nextafter(A[0], A[1])", lambda A, B, C, I, n, m: np.nextafter(A[0], A[1]))
expression("T.hypot(A[0], A[1])", lambda A, B, C, I, n, m: np.hypot(A[0], A[1]))
expression("T.exp10(A[0] / 8.0)", lambda A, B, C, I, n, m: 10.0 ** (np.float64(A[0]) / 8))
expression("T.isnan(A[0] / T.float32(0) * T.float32(0))", lambda A, B, C, I, n, m: True)
expression("T.isinf(A[0] / T.float32(0))", lambda A, B, C, I, n, m: True)
expression("T.isfinite(A[0])", lambda A, B, C, I, n, m: True)
expression("T.min_value('int8') + T.max_value('int8')", lambda A, B, C, I, n, m: -1)
expression("T.infinity('float32')", lambda A, B, C, I, n, m: np.inf)
expression("T.round(A[1] - 4.5)", lambda A, B, C, I, n, m: np.rint(A[1] - np.float32(4.5)))
expression("T.nearbyint(A[1] - 4.5)", lambda A, B, C, I, n, m: np.rint(A[1] - np.float32(4.5)))
expression("T.trunc(A[1] - 4.5)", lambda A, B, C, I, n, m: np.trunc(A[1] - np.float32(4.5)))
expression("T.floor(A[1] - 4.5)", lambda A, B, C, I, n, m: np.floor(A[1] - np.float32(4.5)))
expression("T.ceil(A[1] - 4.5)", lambda A, B, C, I, n, m: np.ceil(A[1] - np.float32(4.5)))
expression("T.abs(A[1] - 4.5)", lambda A, B, C, I, n, m: np.abs(A[1] - np.float32(4.5)))
expression('T.call_extern("float32", "sqrtf", A[0])', lambda A, B, C, I, n, m: np.sqrt(A[0]))
expression('T.call_pure_extern("float64", "sqrt", T.float64(4))', lambda A, B, C, I, n, m: 2)
expression(
    'T.call_llvm_pure_intrin("float32", "llvm.sqrt", A[0])', lambda A, B, C, I, n, m: np.sqrt(A[0])
)
expression('T.call_llvm_intrin("float32", "llvm.fabs.f32", -A[0])', lambda A, B, C, I, n, m: A[0])
expression('T.call_intrin("float32", "tirx.sqrt", A[0])', lambda A, B, C, I, n, m: np.sqrt(A[0]))


@row(
    "if_then_else reads one side only",
    """
    for i in range(16):
        C[i] = T.if_then_else(i < 8 and A[i * 2] > T.float32(1), A[i * 2], T.float32(0))
        I[i] = T.if_then_else(i > 0, 64 // i, 0)
""",
)
def _(A, B, C, I, n, m):
    C[:] = [A[i * 2] if i < 8 and A[i * 2] > 1 else 0 for i in range(16)]
    I[:] = [64 // i if i else 0 for i in range(16)]


text_only(
    "calls of functions outside",
    """
    T.call_packed("f", n, A[0])
    T.call_cpacked("g", n)
    T.evaluate(T.tvm_call_packed_lowered("h", n))
    p: T.let[T.handle("float32", "global")] = T.address_of(A[2])
    T.call_extern("int32", "k", p, A.data, A.access_ptr("rw"), "text")
    T.tvm_access_ptr(T.type_annotation("float32"), A.data, 0, 4, 1)
""",
)
text_only(
    "words of GPUs",
    """
    T.tvm_storage_sync("shared")
    T.tvm_load_matrix_sync(C.data, 16, 16, 16, 0, A.data, 16, "row_major")
    T.tvm_mma_sync(C.data, 0, A.data, 0, B.data, 0, C.data, 0)
    T.tvm_store_matrix_sync(C.data, 16, 16, 16, 0, A.data, 16, "row_major")
    T.tvm_fill_fragment(C.data, 16, 16, 16, 0, T.float32(0.0))
    T.evaluate(T.tvm_warp_shuffle(T.tvm_warp_activemask(), A[0], 0, 32, 32))
    T.evaluate(T.tvm_warp_shuffle_up(T.tvm_warp_activemask(), A[0], 1, 32, 32))
    T.evaluate(T.tvm_warp_shuffle_down(T.tvm_warp_activemask(), A[0], 1, 32, 32))
    with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0.0)]), "reduce_scope",
                T.reinterpret("handle", T.uint64(0))):
        T.tvm_thread_allreduce(T.uint32(1), A[0], T.bool(True), C[0], n)
""",
)
text_only(
    "reducers of pairs",
    """
    T.attr(T.comm_reducer(lambda i, v, j, w: (T.Select(v < w, j, i), T.max(v, w)),
           [T.int32(-1), T.float32(0)]), "reducer", 0)
    T.evaluate(0)
""",
)


@row("promises", "T.assume(n > 0)\nT.prefetch(T.address_of(A[0]), 0, 3, 1)\nC[0] = 1.0")
def _(A, B, C, I, n, m):
    C[0] = 1


# dtypes ------------------------------------------------------------------------------------------

INTEGERS = "int2 uint2 int4 uint4 int8 uint8 int16 uint16 int32 uint32 int64 uint64".split()
FLOATS = (
    "float16 bfloat16 float32 float64 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn "
    "float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float6_e2m3fn float6_e3m2fn "
    "float4_e2m1fn"
).split()
_NO_TYPE = "the llvm backend has no type for float8_e8m0fnu"


def _every_position(kind: str) -> None:
    """A dtype as parameter, buffer, local memory, constant, operand, vector, cast and let."""
    lines = f"""
        D = T.alloc_buffer((16,), "{kind}", scope="local")
        for i in range(16):
            with T.block("D"):
                vi = T.axis.spatial(16, i)
                x: T.{kind} = T.max(X[vi], s)
                D[vi] = T.Select(x < T.{kind}(1), x, T.min(x, X[15 - vi]))
        for i in range(4):
            with T.block("Y"):
                vi = T.axis.spatial(4, i)
                v = D[vi * 4:vi * 4 + 4] * T.Broadcast(s, 4)
                Y[vi * 4:vi * 4 + 4] = v + X[vi * 4:vi * 4 + 4]
        for i in range(16):
            with T.block("Z"):
                vi = T.axis.spatial(16, i)
                Z[vi] = T.Cast("float32", Y[vi]) + T.Cast("float32", T.Cast("{kind}", W[vi]))
    """
    head = (
        f'X: T.Buffer((16,), "{kind}"), Y: T.Buffer((16,), "{kind}"), '
        f'Z: T.Buffer((16,), "float32"), W: T.Buffer((16,), "float64"), s: T.{kind}'
    )

    def after(X, Y, Z, W, s):
        s = X.dtype.type(s)
        with np.errstate(all="ignore"):
            x = np.maximum(X, s)
            d = np.where(x < X.dtype.type(1), x, np.minimum(x, X[::-1]))
            Y[:] = (d * s).astype(X.dtype) + X
            most = dtype(kind).max_value if kind in INTEGERS else np.inf  # too big is the end
            Z[:] = Y.astype("float32") + np.minimum(W, most).astype(X.dtype).astype("float32")

    llvm = _NO_TYPE if kind == "float8_e8m0fnu" else None
    ROWS.append(Row(f"dtype {kind}", lines, after, head, llvm=llvm))


for kind in INTEGERS + FLOATS:
    _every_position(kind)


@row("dtype bool", """
    D = T.alloc_buffer((16,), "bool", scope="local")
    for i in range(16):
        D[i] = X[i] and (s or not X[15 - i])
    for i in range(4):
        Y[i * 4:i * 4 + 4] = T.Select(D[i * 4:i * 4 + 4], X[i * 4:i * 4 + 4], T.Broadcast(s, 4))
""", head='X: T.Buffer((16,), "bool"), Y: T.Buffer((16,), "bool"), s: T.bool')  # fmt: skip
def _(X, Y, s):
    d = X & (s | ~X[::-1])
    Y[:] = np.where(d, X, s)
