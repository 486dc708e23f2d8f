"""Layouts, reindex, set_scope, unsafe_set_dtype: forms, and what is refused."""

# ruff: noqa: E501

from __future__ import annotations

from tests.tir.schedule.peer.items import item

TWO = """
@T.prim_func
def main(A: T.Buffer((32, 32)), C: T.Buffer((32, 32))):
    B = T.alloc_buffer((32, 32))
    for i, j in T.grid(32, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(32, 32):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""
VIEWS = """
@T.prim_func
def main(A: T.Buffer((32, 32)), C: T.Buffer((32, 32))):
    B = T.alloc_buffer((32, 32))
    for i, j in T.grid(32, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            V = T.match_buffer(B[vi, vj], (), offset_factor=1)
            V[()] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(32, 32):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            W = T.match_buffer(B[vi, vj], (), offset_factor=1)
            C[vi, vj] = W[()] + T.float32(1)
"""
CONV = """
@T.prim_func
def main(X: T.Buffer((1, 12, 12, 3)), W: T.Buffer((3, 3, 3, 8)), Y: T.Buffer((1, 5, 5, 8))):
    P = T.alloc_buffer((1, 14, 14, 3))
    for a, b, c, d in T.grid(1, 14, 14, 3):
        with T.block("P"):
            va, vb, vc, vd = T.axis.remap("SSSS", [a, b, c, d])
            P[va, vb, vc, vd] = T.if_then_else(
                1 <= vb and vb < 13 and 1 <= vc and vc < 13, X[va, vb - 1, vc - 1, vd], T.float32(0))
    for n, h, w, co, rh, rw, rc in T.grid(1, 5, 5, 8, 3, 3, 3):
        with T.block("Y"):
            vn, vh, vw, vc, vrh, vrw, vrc = T.axis.remap("SSSSRRR", [n, h, w, co, rh, rw, rc])
            with T.init():
                Y[vn, vh, vw, vc] = T.float32(0)
            Y[vn, vh, vw, vc] = Y[vn, vh, vw, vc] + P[vn, vh * 2 + vrh, vw * 2 + vrw, vc // 8 * 3 + vrc] * W[vrh, vrw, vrc, vc]
"""


def packed(i, j):
    """Tiles of 16 by 8."""
    return [i // 16, j // 8, i % 16, j % 8]


def layout(name: str, text: str, block: str, buffer, index_map, **options) -> None:
    """One transform_layout."""

    @item(f"transform_layout/{name}", text)
    def _(sch, tvm):
        sch.transform_layout(block, buffer, index_map, **options)


layout("between", TWO, "B", "B", packed)
layout("between, by index", TWO, "B", ("write", 0), packed)
layout("input", TWO, "B", "A", packed)
layout("input, by index", TWO, "B", ("read", 0), packed)
layout("output", TWO, "C", "C", packed)
layout("output, by index", TWO, "C", ("write", 0), packed)
layout("transposed", TWO, "B", "B", lambda i, j: [j, i])
layout("flat", TWO, "B", "B", lambda i, j: [i * 32 + j])
layout("views", VIEWS, "B", "B", lambda i, j: [j, i])
UNIT = TWO.replace("T.grid(32, 32)", "T.grid(1, 32)").replace("(32, 32)", "(1, 32)")
layout("unit dimension", UNIT, "B", "B", lambda i, j: [i, j])
layout("unit dimension, by index", UNIT, "B", ("write", 0), lambda i, j: [i, j])
layout("of padding in a convolution", CONV, "P", "P", lambda n, h, w, c: [n, c, h, w])
layout("of weights", CONV, "Y", "W", lambda a, b, c, d: [d // 4, a, b, c, d % 4])


@item("transform_layout/drawn tile", TWO)
def _(sch, tvm):
    loop = sch.get_loops("B")[-1]
    _j0, j1, j2 = sch.sample_perfect_tile(loop, 3, decision=[2, 4, 4])
    sch.transform_layout("B", ("write", 0), lambda i, j: (i, j // (j1 * j2), j % (j1 * j2)))


@item("transform_layout/cache of a tile", TWO)
def _(sch, tvm):
    i, j = sch.get_loops("C")
    i, ii = sch.split(i, factors=[None, 16])
    j, ji = sch.split(j, factors=[None, 16])
    sch.reorder(i, j, ii, ji)
    outer = sch.blockize(ii)
    cached = sch.cache_read(outer, 0, "global")
    sch.transform_layout(cached, ("write", 0), lambda i, j: (i // 16, j // 16, i % 16, j % 16))


@item(
    "transform_layout/rest of the indices",
    """
@T.prim_func
def main(A: T.Buffer((6, 4, 8)), B: T.Buffer((6, 4, 8))):
    for i, j, k in T.grid(6, 4, 8):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] + T.float32(1)
""",
)
def _(sch, tvm):
    sch.transform_layout("B", "A", lambda *rest, k: [*rest, k // 4, k % 4])


def one(n: int, body: str = "A[vi] = 0", index: str = "int32") -> str:
    """A block that writes an allocated buffer."""
    extent = f"T.int64({n})" if index == "int64" else n
    return f"""
@T.prim_func
def main(S: T.Buffer(({n},), "int32")):
    A = T.alloc_buffer(({extent},), "int32")
    for i in T.serial({extent}):
        with T.block("block"):
            vi = T.axis.remap("S", [i])
            {body}
"""


def quarters(i):
    """Rows of four."""
    return [i // 4, i % 4]


for _pad in (None, 42):
    layout(f"no padding, pad_value={_pad}", one(16), "block", "A", quarters, pad_value=_pad)
    layout(
        f"no padding, two blocks, pad_value={_pad}",
        """
@T.prim_func
def main():
    A = T.alloc_buffer((16,), "int32")
    B = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("block"):
            vi = T.axis.remap("S", [i])
            A[vi] = 0
    for i in range(16):
        with T.block("other"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi]
""",
        "block",
        "A",
        quarters,
        pad_value=_pad,
    )
    layout(
        f"no padding, opaque block, pad_value={_pad}",
        """
@T.prim_func
def main():
    A = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("block"):
            A[i] = 0
""",
        "block",
        "A",
        quarters,
        pad_value=_pad,
    )

layout("padding is not allowed", one(14), "block", "A", quarters)
layout("padding is implied", one(14), "block", "A", quarters, assume_injective_transform=True)
layout(
    "padding of another dtype",
    one(14).replace("int32", "float32").replace("= 0", "= T.float32(0)"),
    "block",
    "A",
    quarters,
    pad_value=0,
)
layout("padded copy", one(14, "A[vi] = S[vi]"), "block", "A", quarters, pad_value=0)
layout(
    "padded copy of int8",
    one(14, "A[vi] = S[vi]").replace("int32", "int8"),
    "block",
    "A",
    quarters,
    pad_value=0,
)
layout("padded constant", one(14), "block", "A", quarters, pad_value=7)
layout(
    "padded by a function",
    one(14, "A[vi] = S[vi]"),
    "block",
    "A",
    quarters,
    pad_value=lambda i, j: i + j,
)
layout("padded int64", one(58, index="int64"), "block", "A", lambda h: [h // 8, h % 8], pad_value=0)
layout(
    "padded input",
    """
@T.prim_func
def main(A: T.Buffer((14,), "int32"), B: T.Buffer((14,), "int32")):
    for i in range(14):
        with T.block("block"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi]
""",
    "block",
    "A",
    quarters,
    pad_value=42,
)
layout(
    "padded, without a loop",
    """
@T.prim_func
def main(A: T.Buffer((14,), "int32")):
    with T.block("root"):
        T.reads()
        T.writes()
        with T.block("block"):
            A[0] = 0
""",
    "block",
    "A",
    quarters,
    pad_value=0,
)
layout(
    "padded, with another effect",
    """
@T.prim_func
def main(A: T.Buffer((14,), "int32")):
    B = T.alloc_buffer((14,), "int32")
    C = T.alloc_buffer((14,), "int32")
    for i in range(14):
        with T.block("block"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi]
            C[vi] = 0
""",
    "block",
    "B",
    quarters,
    pad_value=0,
)
layout(
    "padded reduction",
    """
@T.prim_func
def main(A: T.Buffer((14, 8), "int32")):
    B = T.alloc_buffer((14,), "int32")
    for i, k in T.grid(14, 8):
        with T.block("block"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
""",
    "block",
    "B",
    quarters,
    pad_value=0,
)
layout(
    "padded reduction, opaque",
    """
@T.prim_func
def main(A: T.Buffer((14, 8), "int32")):
    B = T.alloc_buffer((14,), "int32")
    for i in range(14):
        B[i] = 0
        for k in range(8):
            with T.block("block"):
                B[i] = B[i] + A[i, k]
""",
    "block",
    "B",
    quarters,
    pad_value=0,
)
layout(
    "output of blocks, opaque, padded",
    """
@T.prim_func
def main(a: T.handle):
    A = T.match_buffer(a, (14,), "int32")
    for i in range(14):
        with T.block("block"):
            A[i] = 42
""",
    "block",
    "A",
    quarters,
    pad_value=0,
)


@item(
    "transform_layout/by a parameter",
    """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), n: T.int32):
    B = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("block"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi]
""",
)
def _(sch, tvm):
    n = sch.mod["main"].params[1]
    sch.transform_layout("block", "B", lambda i: [i // n, i % n], pad_value=0)


@item(
    "transform_layout/open bound",
    """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (T.int64(1), T.int64(8), T.int64(1), T.int64(16)))
    B = T.match_buffer(b, (T.int64(1), T.int64(8), n, T.int64(16)))
    C = T.match_buffer(c, (T.int64(1), T.int64(8), T.int64(1), n))
    for i0, i1, i2, i3, k in T.grid(T.int64(1), T.int64(8), T.int64(1), n, T.int64(16)):
        with T.block("C"):
            v0, v1, v2, v3, vk = T.axis.remap("SSSSR", [i0, i1, i2, i3, k])
            with T.init():
                C[v0, v1, v2, v3] = T.float32(0)
            C[v0, v1, v2, v3] = C[v0, v1, v2, v3] + A[v0, v1, v2, vk] * B[v0, v1, v3, vk]
""",
)
def _(sch, tvm):
    func = sch.mod["main"]
    n = func.buffer_map[func.params[1]].shape[2]
    sch.transform_layout(
        "C",
        ("write", 0),
        lambda x, y, z, w: x * 8 * n + y * n + z * n + w,
        assume_injective_transform=True,
    )


@item(
    "transform_block_layout/open bound",
    """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (T.int64(1), T.int64(8), T.int64(1), T.int64(16)))
    B = T.match_buffer(b, (T.int64(1), T.int64(8), n, T.int64(16)))
    C = T.match_buffer(c, (n * T.int64(8),))
    for i0, i1, i2, i3, k in T.grid(T.int64(1), T.int64(8), T.int64(1), n, T.int64(16)):
        with T.block("C"):
            v0, v1, v2, v3, vk = T.axis.remap("SSSSR", [i0, i1, i2, i3, k])
            with T.init():
                C[v1 * n + v3] = T.float32(0)
            C[v1 * n + v3] = C[v1 * n + v3] + A[v0, v1, v2, vk] * B[v0, v1, v3, vk]
""",
)
def _(sch, tvm):
    func = sch.mod["main"]
    n = func.buffer_map[func.params[1]].shape[2]
    sch.transform_block_layout("C", lambda x, y, z, w, k: (x * 8 * n + y * n + z * n + w, k))


@item("transform_layout/constant output and shift", one(16, index="int64"))
def _(sch, tvm):
    sch.transform_layout("block", "A", lambda i: [i * 0, (i + 1) // 8, (i + 1) % 8], pad_value=0)


def block_layout(name: str, text: str, block: str, index_map) -> None:
    """One transform_block_layout."""

    @item(f"transform_block_layout/{name}", text)
    def _(sch, tvm):
        sch.transform_block_layout(block, index_map)


block_layout("fused", TWO, "B", lambda i, j: (i * 32 + j,))
block_layout(
    "convolution",
    CONV,
    "Y",
    lambda n, h, w, co, a, b, c: (n * 25 + h * 5 + w, co, a * 9 + b * 3 + c),
)
block_layout("swapped unit", UNIT, "B", lambda i, j: (j, i))
block_layout("not one to one", TWO, "B", lambda i, j: (i + j,))
block_layout(
    "mixed kinds",
    CONV,
    "Y",
    lambda n, h, w, co, a, b, c: (n * 25 + h * 5 + w, co * 3 + a, b * 3 + c),
)
block_layout(
    "int64", TWO.replace("(32, 32)", "(T.int64(32), T.int64(32))"), "B", lambda i, j: (i * 32 + j,)
)

MATMUL = """
@T.prim_func
def main(A: T.Buffer((12, 16)), B: T.Buffer((16, 8)), C: T.Buffer((12, 8))):
    for i, j, k in T.grid(12, 8, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
TRANSPOSED = """
@T.prim_func
def main(A: T.Buffer((16, 12)), B: T.Buffer((12, 16))):
    for i, j in T.grid(12, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] * T.float32(2)
"""


def reindex(name: str, text: str, block: str, *buffers) -> None:
    """reindex by each way to name the buffer."""
    for buffer in buffers:
        word = buffer if isinstance(buffer, str) else " ".join(map(str, buffer))

        @item(f"reindex/{name}, {word}", text)
        def _(sch, tvm, buffer=buffer):
            sch.reindex(sch.get_block(block), buffer)


reindex("transposed", TRANSPOSED, "B", "A", ("read", 0))
reindex("weights", CONV, "Y", "W", ("read", 1))
reindex("data", CONV, "Y", "P", ("read", 0))
reindex("output", MATMUL, "C", "C", ("write", 0))
reindex("input", MATMUL, "C", "B")
reindex(
    "read twice",
    TRANSPOSED.replace("A[vj, vi] * T.float32(2)", "A[vj, vi] + A[vj, 0]"),
    "B",
    "A",
    ("read", 0),
)
reindex(
    "mixed widths",
    MATMUL.replace("(12, 16)", "(T.int64(12), 16)")
    .replace("(12, 8)", "(T.int64(12), 8)")
    .replace("T.grid(12, 8, 16)", "T.grid(T.int64(12), 8, 16)")
    .replace(
        'vi, vj, vk = T.axis.remap("SSR", [i, j, k])',
        'vi = T.axis.spatial(T.int64(12), i)\n            vj, vk = T.axis.remap("SR", [j, k])',
    ),
    "C",
    "C",
    ("write", 0),
)
reindex("unit dimensions", MATMUL.replace("12", "1").replace("8", "1"), "C", "C", ("write", 0))
reindex(
    "single point",
    """
@T.prim_func
def main(A: T.Buffer((16, 4)), B: T.Buffer((16,))):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi, 3] + T.float32(1)
""",
    "B",
    "A",
)
reindex(
    "single point of all",
    """
@T.prim_func
def main(A: T.Buffer((4,)), B: T.Buffer((16,))):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[2] + T.float32(1)
""",
    "B",
    "A",
)
reindex(
    "sum to a point",
    """
@T.prim_func
def main(A: T.Buffer((16,)), B: T.Buffer((1,))):
    for k in range(16):
        with T.block("B"):
            vk = T.axis.remap("R", [k])
            with T.init():
                B[0] = T.float32(0)
            B[0] = B[0] + A[vk]
""",
    "B",
    "B",
    "A",
)
reindex(
    "sum to a scalar",
    """
@T.prim_func
def main(A: T.Buffer((16,)), B: T.Buffer(())):
    for k in range(16):
        with T.block("B"):
            vk = T.axis.remap("R", [k])
            with T.init():
                B[()] = T.float32(0)
            B[()] = B[()] + A[vk]
""",
    "B",
    "B",
)


def dtype(name: str, text: str, block: str, index: int, to: str) -> None:
    """One unsafe_set_dtype."""

    @item(f"unsafe_set_dtype/{name}", text)
    def _(sch, tvm):
        sch.unsafe_set_dtype(block, index, to)


dtype("float16", TWO, "B", 0, "float16")
dtype("an output", TWO, "C", 0, "float16")
dtype("no such buffer", TWO, "B", 1, "float64")
dtype("no such buffer, negative", TWO, "B", -1, "float64")
dtype("views", VIEWS, "B", 0, "float16")


@item("set_scope/views", VIEWS)
def _(sch, tvm):
    sch.set_scope("B", 0, "shared")


@item("set_scope/plain", TWO)
def _(sch, tvm):
    sch.set_scope("B", 0, "shared")


@item("set_scope/an output", TWO)
def _(sch, tvm):
    sch.set_scope("C", 0, "shared")


@item("set_scope/no such buffer", TWO)
def _(sch, tvm):
    sch.set_scope("B", 1, "shared")


@item("set_scope/no such scope", TWO)
def _(sch, tvm):
    sch.set_scope("B", 0, "nowhere")
