"""ir_builder: programs written by calls; stmt_functor; new variables."""

from __future__ import annotations

import pytest

from mlcnb import te, tir
from mlcnb.core.errors import MLCError
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.script import tir as T
from mlcnb.tir.analysis import verify_ssa


def loops() -> tir.PrimFunc:
    ib = tir.ir_builder.create()
    n = te.size_var("n")
    A = ib.pointer("float32", name="A")
    local = ib.allocate("float32", (4,), name="local", scope="local")
    with ib.for_range(0, n, name="i") as i:
        with ib.if_scope(i < 4):
            local[i] = A[i] + 1
        with ib.else_scope(), ib.for_range(2, 4, kind="unroll") as j:
            A[i] = local[j]
    return tir.PrimFunc([A, n], ib.get())


def test_loops_branches_and_memory():
    lines = loops().script().split("def main(")[1].splitlines()[1:]
    assert [line.strip() for line in lines if line.strip()] == [
        'local = T.allocate([4], "float32", "local")',
        "for i in range(n):",
        "if i < 4:",
        "local_1[i] = A_1[i] + T.float32(1.0)",
        "else:",
        "for i1 in T.unroll(2, 4):",
        "A_1[i] = local_1[i1]",
    ]


def test_threads_marks_and_one_index_into_two_dimensions():
    ib = tir.ir_builder.create()
    buffer = tir.decl_buffer((4, 8), "int32", "B")
    B = ib.buffer_ptr(buffer)
    tx = te.thread_axis("threadIdx.x")
    ib.scope_attr(tx, "thread_extent", 32)
    B[tx] = tx * 2
    func = tir.PrimFunc([buffer], ib.get())

    @T.prim_func(private=True)
    def expected(B: T.Buffer((4, 8), "int32")):
        tx = T.launch_thread("threadIdx.x", 32)
        B[tx // 8, tx % 8] = tx * 2

    assert_structural_equal(func, expected)


def test_what_does_not_fit_is_refused():
    ib = tir.ir_builder.create()
    A = ib.pointer("float32", name="A")
    with pytest.raises(MLCError) as error:
        A[0] = tir.const(1, "int32") + tir.Var("x", "int32")
    assert str(error.value) == (
        "A holds float32, and is given a int32\nhint: cast it: value.astype(…)"
    )
    with pytest.raises(MLCError) as error:
        ib.else_scope()
    assert str(error.value) == (
        "else_scope stands after an if_scope\nhint: no statement in between"
    )
    with pytest.raises(MLCError) as error:
        ib.for_range(0, 4, kind="wave")
    assert str(error.value) == (
        "for_range: no kind 'wave'\n"
        "hint: one of serial, parallel, vectorize, vectorized, unroll, unrolled"
    )


def test_a_variable_that_is_bound_twice_becomes_two():
    x = tir.Var("x", "int32")
    one = tir.LetStmt(x, tir.const(16), tir.Evaluate(x))
    two = tir.LetStmt(x, tir.const(32), tir.SeqStmt((tir.Evaluate(x), one, tir.Evaluate(x))))
    func = tir.PrimFunc((), tir.SeqStmt((one, two)))
    after = tir.transform.ConvertSSA()(IRModule.from_expr(func))["main"]

    @T.prim_func(private=True)
    def expected():
        with T.LetStmt(16) as a:
            T.evaluate(a)
        with T.LetStmt(32) as b:
            T.evaluate(b)
            with T.LetStmt(16) as c:
                T.evaluate(c)
            T.evaluate(b)

    assert_structural_equal(after, expected)
    assert verify_ssa(after) and not verify_ssa(func)


def plain() -> tir.PrimFunc:
    A = te.placeholder((8, 4), name="A")
    B = te.compute((8, 4), lambda i, j: A[i, j] * 2 + 1, name="B")
    return te.create_prim_func([A, B])


def test_functions_that_share_variables_get_their_own_and_a_module_in_form_stays():
    func = plain()
    shared = IRModule.make({"a": func, "b": func})
    after = tir.transform.ConvertSSA()(shared)
    assert after["a"] is func
    assert_structural_equal(after["b"], func)
    assert not set(variables(after["a"])) & set(variables(after["b"]))
    alone = IRModule.make({"a": func})
    assert tir.transform.ConvertSSA()(alone) is alone


def variables(func):
    found = []
    tir.stmt_functor.post_order_visit(func, lambda n: found.append(n))
    return [n for n in found if isinstance(n, tir.Var | tir.Buffer)]


def test_a_renewed_function_is_the_same_and_shares_nothing():
    func = plain()
    copy = tir.stmt_functor.renew_defs(func)
    assert_structural_equal(copy, func)
    assert not set(variables(func)) & set(variables(copy))


def test_a_transform_sees_the_nodes_that_it_names():
    func = plain()

    def unrolled(n):
        return tir.For(n.loop_var, n.min, n.extent, tir.ForKind.UNROLLED, n.body)

    after = tir.stmt_functor.ir_transform(func.body, None, unrolled, ["tir.For"])
    kinds = []
    tir.stmt_functor.pre_order_visit(
        after, lambda n: kinds.append(n.kind) if isinstance(n, tir.For) else None
    )
    assert kinds == [tir.ForKind.UNROLLED] * 2


def test_the_object_of_what_the_builder_gives_is_the_buffer():
    ib = tir.ir_builder.create()
    A = ib.pointer("float32", name="A")
    with ib.for_range(0, 8) as i:
        B = ib.allocate("float32", 4, name="B", scope="shared")
        with ib.new_scope():
            ib.scope_attr(B.asobject().data, "double_buffer_scope", 1)
            B[i % 4] = A[i]
        ib.emit(tir.call_extern("int32", "run", B.asobject().access_ptr("r")))
    func = tir.PrimFunc([A.asobject()], ib.get())
    assert [b.name for b in func.buffers] == ["A"]
    text = func.script()
    assert 'T.attr(B, "double_buffer_scope", 1)' in text
    assert 'T.tvm_access_ptr(T.type_annotation("float32"), B, 0, 4, 1)' in text


def test_a_pointer_to_rows_that_are_padded_reaches_their_end():
    n, m = te.var("n"), te.var("m")
    A = tir.decl_buffer((m, n), "float32", strides=[n + 1, 1])
    pointer = A.access_ptr("rw")
    assert_structural_equal(pointer.args[3], (n + 1) * m)
    assert pointer.args[1] is A.data
    assert pointer.args[4].value == 3
    assert A.access_ptr("w", offset=4).args[2].value == 4
