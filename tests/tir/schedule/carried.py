"""Programs whose loops carry dependences: scans, updates in place, buffers used twice."""

from __future__ import annotations

from mlcnb.script import tir as T


@T.prim_func
def scan(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] + T.if_then_else(v > 0, B[T.max(v - 1, 0)], T.float32(0))


@T.prim_func
def scan_rows(A: T.Buffer((6, 4), "float32"), B: T.Buffer((6, 4), "float32")):
    for i, j in T.grid(6, 4):
        with T.block("B"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[v, w] + T.if_then_else(v > 0, B[T.max(v - 1, 0), 3 - w], T.float32(0))


@T.prim_func
def in_place(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            A[v] = A[v] * T.float32(2)
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[7 - v]


@T.prim_func
def in_place_shift(A: T.Buffer((9,), "float32"), B: T.Buffer((9,), "float32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            A[v] = A[v + 1] + T.float32(1)
    for i in range(9):
        with T.block("B"):
            v = T.axis.spatial(9, i)
            B[v] = A[v] * T.float32(3)


@T.prim_func
def window_in_one_loop(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    C = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v] * T.float32(2)
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = C[v] + T.if_then_else(v > 0, C[T.max(v - 1, 0)], T.float32(0))


@T.prim_func
def buffer_used_twice(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    C = T.alloc_buffer((8,))
    D = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v] * T.float32(2)
    for i in range(8):
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = C[v] + T.float32(1)
    for i in range(8):
        with T.block("C2"):
            v = T.axis.spatial(8, i)
            C[v] = A[v] * T.float32(3)
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = C[v] + D[v]


@T.prim_func
def last_one_wins(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v // 2] = A[v]


@T.prim_func
def last_one_wins_later(A: T.Buffer((8,), "float32"), B: T.Buffer((4,), "float32")):
    C = T.alloc_buffer((4,))
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v % 4] = A[v]
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            B[v] = C[v] + T.float32(1)


@T.prim_func
def partial_sums(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    C = T.alloc_buffer((1,))
    for i in range(8):
        with T.block("C"):
            v = T.axis.reduce(8, i)
            with T.init():
                C[0] = T.float32(0)
            C[0] = C[0] + A[v]
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = C[0]


@T.prim_func
def half_and_half(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    C = T.alloc_buffer((8,))
    for i in range(4):
        with T.block("low"):
            v = T.axis.spatial(4, i)
            C[v] = A[v] * T.float32(2)
    for i in range(4):
        with T.block("high"):
            v = T.axis.spatial(4, i)
            C[v + 4] = C[v] * T.float32(3)
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = C[v] + T.float32(1)


@T.prim_func
def reversed_reduction(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            r = T.axis.reduce(6, 5 - k)
            with T.init():
                B[v] = T.float32(0)
            B[v] = B[v] + A[v, r]


@T.prim_func
def start_from_something(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("B"):
            v, r = T.axis.remap("SR", [i, k])
            with T.init():
                B[v] = T.float32(7)
            B[v] = B[v] + A[v, r]


@T.prim_func
def every_instance_twice(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(8, 6):
        with T.block("B"):
            v = T.axis.spatial(4, i // 2)
            r = T.axis.reduce(6, k)
            with T.init():
                B[v] = T.float32(0)
            B[v] = B[v] + A[v, r]


@T.prim_func
def triangle(A: T.Buffer((6, 6), "float32"), B: T.Buffer((6, 6), "float32")):
    for i, j in T.grid(6, 6):
        with T.block("zero"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = T.float32(0)
    for i in range(6):
        for j in range(i + 1):
            with T.block("B"):
                v, w = T.axis.remap("SS", [i, j])
                B[v, w] = A[v, w] * T.float32(2)


@T.prim_func
def written_once(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((1,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.where(i < 1)
            B[0] = A[0] * T.float32(2)
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v] + B[0]


@T.prim_func
def written_in_part(
    A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")
):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.where(i < 5)
            B[v] = A[v] * T.float32(2)
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v] + B[v]


CARRIED = {
    f.attrs["global_symbol"]: f for f in list(globals().values()) if hasattr(f, "buffer_map")
}
