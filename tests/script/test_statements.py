"""Every statement of a loop program in its printed form, and back."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import MLCError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Var
from mlcnb.script import parse, script
from mlcnb.tir import stmt as s
from tests.script.roundtrip import PRIM_FUNC, assert_lines, assert_round_trip, assert_text

OLD_ONLY = ("0.21",)


def test_loops_of_every_kind() -> None:
    assert_lines("""
        for i in range(16):
            A[i] = T.float32(0.0)
        for i in range(2, 5):
            A[i] = T.float32(0.0)
        for i in range(n, n + 4):
            A[i] = T.float32(0.0)
        for i, j in T.grid(4, 8):
            for k in range(i):
                B[i, j] = T.float32(0.0)
        for i in T.parallel(16):
            for j in T.vectorized(n, n + 4):
                for k in T.unroll(3):
                    A[i] = T.float32(1.0)
        for i in T.serial(4, annotations={"key": [1, "two"], "other": T.int64(3)}):
            A[i] = T.float32(0.0)
        for i in T.thread_binding(8, thread="blockIdx.x"):
            for j in T.thread_binding(2, 6, thread="threadIdx.x", annotations={"a": 1}):
                A[i] = T.float32(0.0)
        for i in range(T.int64(8)):
            B[i, m] = T.float32(0.0)
    """)


def test_grids_without_sugar_are_loops() -> None:
    func = parse(PRIM_FUNC + "    for i, j in T.grid(4, 8):\n        B[i, j] = T.float32(0.0)")
    assert script(func, header=False, syntax_sugar=False).split("\n")[2:] == [
        "    for i in range(4):",
        "        for j in range(8):",
        "            B[i, j] = T.float32(0.0)",
    ]


def test_branches_and_while() -> None:
    assert_lines("""
        if n < 3:
            A[0] = T.float32(0.0)
        if n < 3:
            T.evaluate(0)
        elif n < 4:
            A[1] = T.float32(0.0)
        elif n < 5:
            A[2] = T.float32(0.0)
        else:
            A[3] = T.float32(0.0)
        while n < 8:
            A[n] = A[n] + T.float32(1.0)
    """)


def test_lets_assertions_and_attributes_at_the_end_of_a_body() -> None:
    assert_lines(
        """
        x: T.int32 = n + 1
        assert x > 0, "x is \\"positive\\""
        T.attr(A.data, "storage_alignment", 128)
        T.attr(T.int32(0), "pragma", "unroll")
        p: T.handle("float32", "global") = T.address_of(A[x])
        tx = T.launch_thread("threadIdx.x", 32)
        A[tx] = T.float32(0.0)
        """,
        OLD_ONLY,
    )


def test_the_same_in_0_27() -> None:
    func = parse(
        PRIM_FUNC
        + '    x: T.int32 = n + 1\n    assert x > 0, "positive"\n    A[x] = T.float32(0.0)'
    )
    text = script(func, dialect="0.27", header=False)
    assert text.split("\n")[2:] == [
        "    x: T.let[T.int32] = n + 1",
        '    assert x > 0, ("RuntimeError", ["positive"])',
        "    A[x] = T.float32(0.0)",
    ]


def test_lets_assertions_and_attributes_inside_a_body() -> None:
    assert_lines(
        """
        with T.LetStmt(n + 1) as x:
            A[x] = T.float32(0.0)
        with T.LetStmt(T.address_of(A[0]), T.handle("float32", "global")) as p:
            T.call_extern("int32", "f", p)
        with T.Assert(n > 0, "positive"):
            A[n] = T.float32(0.0)
        with T.attr(A.data, "pragma", 1):
            A[n] = T.float32(0.0)
        with T.launch_thread("blockIdx.x", 4) as bx:
            A[bx] = T.float32(0.0)
        with T.allocate([4], "float32", "local") as v:
            C = T.decl_buffer((4,), data=v, scope="local")
            C[0] = T.float32(0.0)
        A[0] = T.float32(0.0)
        """,
        OLD_ONLY,
    )


def test_0_27_has_flat_lets_only_with_names_of_their_own() -> None:
    func = parse(
        PRIM_FUNC
        + "    with T.LetStmt(n + 1) as x:\n        A[x] = T.float32(0.0)\n"
        + "    with T.LetStmt(n + 2) as x:\n        A[x] = T.float32(0.0)\n"
    )
    assert script(func, dialect="0.27", header=False).split("\n")[2:] == [
        "    x: T.let[T.int32] = n + 1",
        "    A[x] = T.float32(0.0)",
        "    x_1: T.let[T.int32] = n + 2",
        "    A[x_1] = T.float32(0.0)",
    ]


def test_0_27_names_memory_anew_that_one_variable_stands_for_twice() -> None:
    """The parts of a loop that was partitioned hold one allocation each, of one variable."""
    func = parse(
        PRIM_FUNC
        + "    for i in range(4):\n"
        + '        v = T.allocate([4], "float32", "local")\n'
        + '        C = T.decl_buffer((4,), data=v, scope="local")\n'
        + "        C[0] = T.float32(1.0)\n        A[0] = C[0]\n"
    )
    loop = func.body
    assert isinstance(loop, s.For)
    twice = func.with_body(s.seq(loop, loop.body, loop.body, loop))
    assert_round_trip(twice.with_body(s.seq(loop, loop)), OLD_ONLY)
    text = script(twice, dialect="0.27", header=False)
    assert text.count("T.alloc_buffer((4,), scope=") == 4
    assert "data=" not in text
    once = parse(text, dialect="0.27")
    assert_round_trip(once)
    assert script(once, dialect="0.27", header=False) == text
    one = s.seq(s.LetStmt(x := Var("x", "int32"), p.const(1), loop.body), loop)
    again = s.LetStmt(x, p.const(2), s.Evaluate(x))
    lets = func.with_body(s.seq(one, again, s.Evaluate(p.const(0))))
    assert "x_1: T.let[T.int32] = 2" in script(lets, dialect="0.27")


def test_memory_and_views_of_it() -> None:
    assert_lines(
        """
        v = T.allocate([4, n], "int8", "shared", condition=n > 0, annotations={"a": 1})
        C = T.decl_buffer((4, n), "int8", data=v, scope="shared", align=16)
        D = T.decl_buffer((16,), "int8", data=v, elem_offset=n, scope="shared", offset_factor=4)
        C[0, 0] = D[0]
        """,
        OLD_ONLY,
    )


def test_memory_in_0_27() -> None:
    lines = [
        '    C = T.alloc_buffer((4, n), "int8", scope="shared")',
        '    D = T.decl_buffer((16,), "int8", data=C.data, elem_offset=n, scope="shared")',
        "    C[0, 0] = D[0]",
    ]
    head = "# from tvm.script import tirx as T\n@T.prim_func\ndef main(n: T.int32):"
    func = parse("\n".join([head, *lines]))
    assert isinstance(func.body, s.Allocate)
    assert isinstance(func.body.body, s.DeclBuffer)
    assert script(func, dialect="0.27", header=False).split("\n")[2:] == lines
    old = script(func, header=False).split("\n")[2:4]
    assert old == [
        '    C = T.allocate([4, n], "int8", "shared")',
        '    C_1 = T.decl_buffer((4, n), "int8", data=C, scope="shared")',
    ]


def test_stores_and_loads_of_elements_and_vectors() -> None:
    assert_lines("""
        B[n, n + 1] = A[n]
        A[0:4] = T.Broadcast(T.float32(1.0), 4)
        A[n * 4:n * 4 + 4] = T.Broadcast(A[n], 4)
        A[T.Ramp(n, 2, 4)] = T.Broadcast(T.float32(1.0), 4)
        B[n, T.int64(0):T.int64(4)] = T.Broadcast(T.float32(1.0), 4)
    """)
    assert_lines("A[0:4] = A[n:n + 4] * B[0, 0:4]", OLD_ONLY)


def test_masked_vectors() -> None:
    assert_lines("""
        A.vstore([T.Ramp(0, 1, 4)], T.Broadcast(A[0], 4), predicate=T.Broadcast(n < 3, 4))
        A[0:4] = A.vload([T.Ramp(4, 1, 4)], predicate=T.Broadcast(n < 3, 4))
    """)


def test_a_buffer_without_dimensions() -> None:
    assert_text("""
        @T.prim_func
        def main(S: T.Buffer((), "float32")):
            S[()] = S[()] + T.float32(1.0)
    """)


def test_a_function_that_returns() -> None:
    assert_text("""
        @T.prim_func
        def main(n: T.int32) -> T.int32:
            if n < 3:
                return n + 1
            return 0
    """)


def test_numbers_take_the_dtype_of_the_buffer() -> None:
    func = parse(PRIM_FUNC + "    A[0] = 1\n    A[0:4] = 2.5\n    A[1] = n\n    A[2] += 1")
    assert script(func, header=False).split("\n")[2:] == [
        "    A[0] = T.float32(1.0)",
        "    A[0:4] = T.Broadcast(T.float32(2.5), 4)",
        '    A[1] = T.Cast("float32", n)',
        "    A[2] = A[2] + T.float32(1.0)",
    ]


def test_assigning_a_scalar_is_a_let() -> None:
    func = parse(PRIM_FUNC + "    x = n + 1\n    y = 2\n    A[x] = A[y]")
    assert script(func, header=False).split("\n")[2:] == [
        "    x: T.int32 = n + 1",
        "    A[x] = A[2]",
    ]


def test_a_python_condition_is_decided_at_once() -> None:
    func = parse(PRIM_FUNC + "    if 2 > 1:\n        A[0] = 1.0\n    else:\n        A[1] = 1.0")
    assert script(func, header=False).split("\n")[2:] == ["    A[0] = T.float32(1.0)"]


def test_names_are_free_again_after_their_scope() -> None:
    i, j = Var("i"), Var("i")

    def loop(v: Var, body: s.Stmt) -> s.Stmt:
        return s.For(v, p.const(0), p.const(4), s.ForKind.SERIAL, body)

    nested = loop(i, loop(j, s.Evaluate(i + j)))
    after = loop(Var("i"), s.Evaluate(p.const(1)))
    assert repr(s.seq(nested, after)).split("\n") == [
        "for i, i_1 in T.grid(4, 4):",
        "    T.evaluate(i + i_1)",
        "for i in range(4):",
        "    T.evaluate(1)",
    ]


def test_a_chain_of_ten_thousand_lets_prints() -> None:
    body: s.Stmt = s.Evaluate(p.const(0))
    for _ in range(10_000):
        body = s.LetStmt(Var("x"), p.const(1), body)
    lines = script(body).split("\n")
    assert len(lines) == 10_001
    assert lines[0] == "x: T.int32 = 1"
    assert lines[-2] == "x_9999: T.int32 = 1"


def test_env_threads() -> None:
    func = parse(
        PRIM_FUNC
        + '    tx = T.env_thread("threadIdx.x")\n    T.launch_thread(tx, 8)\n    A[tx] = 1.0'
    )
    assert script(func, header=False).split("\n")[2:] == [
        '    tx = T.launch_thread("threadIdx.x", 8)',
        "    A[tx] = T.float32(1.0)",
    ]


@pytest.mark.parametrize("dialect", ["0.21", "0.27"])
def test_a_reducer_prints(dialect: str) -> None:
    x, y = Var("x", p.const(0.0).dtype), Var("y", p.const(0.0).dtype)
    reducer = s.CommReducer((x,), (y,), (x + y,), (p.const(0.0),))
    text = script(reducer, dialect=dialect)
    assert text == "T.comm_reducer(lambda x, y: x + y, [T.float32(0.0)])"


def test_loops_with_a_step_count_their_rounds() -> None:
    func = parse(
        PRIM_FUNC
        + "    for i in range(2, 16, 4):\n        A[i] = 1.0\n"
        + "    for i in T.parallel(n, n + 9, step=2):\n        A[i] = 1.0\n"
        + "    for i in T.serial(8, 0, step=-3):\n        A[i] = 1.0\n"
        + "    for i, j in T.grid((1, 4), 2):\n        A[i] = 1.0"
    )
    assert assert_round_trip(func).split("\n")[2:] == [
        "    for i in range(4):",
        "        A[2 + i * 4] = T.float32(1.0)",
        "    for i in T.parallel(5):",
        "        A[n + i * 2] = T.float32(1.0)",
        "    for i in range(3):",
        "        A[8 + i * -3] = T.float32(1.0)",
        "    for i in range(1, 4):",
        "        for j in range(2):",
        "            A[i] = T.float32(1.0)",
    ]


def test_loops_are_left_early() -> None:
    func = parse(
        PRIM_FUNC
        + "    for i in range(16):\n        if i == n:\n            break\n        A[i] = 1.0\n"
        + "    while True:\n        continue"
    )
    assert assert_round_trip(func).split("\n")[2:] == [
        "    for i in range(16):",
        "        if i == n:",
        "            T.break_loop()",
        "        A[i] = T.float32(1.0)",
        "    while T.bool(True):",
        "        T.continue_loop()",
    ]


NEW = "# from tvm.script import tirx as T\n"


def test_0_27_keeps_scalars_in_memory() -> None:
    func = parse(
        NEW
        + PRIM_FUNC
        + "    x: T.int32 = n + 1\n    y = T.float32(0.0)\n    z: T.int64\n"
        + "    for i in range(x):\n        x = x + i\n        y += A[i]\n        z = 5\n"
        + "    p: T.let[T.int32] = n * 2\n    A[x] = y"
    )
    assert assert_round_trip(func, ("0.27",)).split("\n")
    assert script(func, dialect="0.27", header=False).split("\n")[2:] == [
        '    x = T.alloc_buffer((1,), "int32", scope="local")',
        "    x[0] = n + 1",
        '    y = T.alloc_buffer((1,), scope="local")',
        "    y[0] = T.float32(0.0)",
        '    z = T.alloc_buffer((1,), "int64", scope="local")',
        "    for i in range(x[0]):",
        "        x[0] = x[0] + i",
        "        y[0] = y[0] + A[i]",
        "        z[0] = T.int64(5)",
        "    p: T.let[T.int32] = n * 2",
        "    A[x[0]] = y[0]",
    ]


def test_views_of_memory() -> None:
    func = parse(
        PRIM_FUNC
        + "    C = A.view(4, 4)\n    D = A.view('uint8')\n    E = B.view([m * 0 + 2, 128])\n"
        + "    F = T.Buffer((8,), data=A.data, elem_offset=8)\n"
        + "    C[0, 1] = E[0, 0]\n    D[0] = T.uint8(1)\n    F[0] = 1.0",
    )
    assert assert_round_trip(func, ("0.21",)).split("\n")[2:6] == [
        "    C = T.decl_buffer((4, 4), data=A.data)",
        '    D = T.decl_buffer((64,), "uint8", data=A.data)',
        "    E = T.decl_buffer((m * T.int64(0) + T.int64(2), 128), data=B.data)",
        "    F = T.decl_buffer((8,), data=A.data, elem_offset=8)",
    ]


def test_python_functions_of_scalars_are_words() -> None:
    func = parse(PRIM_FUNC + "    A[min(n, 3)] = abs(A[max(n, 1, 2)])")
    assert script(func, header=False).split("\n")[2:] == [
        "    A[T.min(n, 3)] = T.fabs(A[T.max(T.max(n, 1), 2)])"
    ]


def test_what_is_returned_without_a_dtype_in_the_signature() -> None:
    """`return` says the dtype of the result too; `T.ret` does not."""
    func = parse(PRIM_FUNC + "    T.ret(n)")
    assert func.ret_type is None
    assert assert_round_trip(func).splitlines()[-1] == "    T.ret(n)"
    func = parse(PRIM_FUNC + "    return n")
    assert func.ret_type == "int32"
    assert assert_round_trip(func).splitlines()[-1] == "    return n"


@pytest.mark.parametrize("axis", ["T.axis.spatial(16, i, 3)", 'T.axis.remap("S", [i], 3)'])
def test_the_dtype_of_an_axis_is_one(axis: str) -> None:
    body = f'    for i in range(16):\n        with T.block("b"):\n            v = {axis}\n'
    with pytest.raises(MLCError, match="int 3 is no dtype"):
        parse(PRIM_FUNC + body + "            A[v] = 1.0")
