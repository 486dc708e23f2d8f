"""Programs built by calls are those that a text gives."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import mlcnb
from mlcnb import tir
from mlcnb.core.errors import MLCError
from mlcnb.ir import PrimType, assert_structural_equal
from mlcnb.relax.analysis import well_formed
from mlcnb.script import parse, script
from mlcnb.script.ir_builder import IRBuilder
from mlcnb.script.ir_builder import ir as I
from mlcnb.script.ir_builder import relax as R
from mlcnb.script.ir_builder import tir as T
from mlcnb.tir.analysis import verify_well_formed


def same(builder: IRBuilder, text: str) -> None:
    """What was built prints as the text, and is what the text gives."""
    made = builder.get()
    verify_well_formed(made)
    text = dedent(text).strip("\n")
    assert script(made, header=False) == text
    assert_structural_equal(parse(text), made)


def test_matmul() -> None:
    with IRBuilder() as ib:
        with T.prim_func():
            T.func_name("matmul")
            T.func_attr({"tir.noalias": True})
            A = T.arg("A", T.Buffer((4, 16), "float32"))
            B = T.arg("B", T.Buffer((16, 8), "float32"))
            C = T.arg("C", T.Buffer((4, 8), "float32"))
            D = IRBuilder.name("D", T.alloc_buffer((4, 8)))
            with T.grid(4, 8, 16) as (i, j, k):
                IRBuilder.name_many(["i", "j", "k"], [i, j, k])
                with T.block("D"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    IRBuilder.name_many(["vi", "vj", "vk"], [vi, vj, vk])
                    with T.init():
                        T.buffer_store(D, 0.0, [vi, vj])
                    T.buffer_store(D, D[vi, vj] + A[vi, vk] * B[vk, vj], [vi, vj])
            with T.grid(4, 8) as (i, j):
                with T.block("C"):
                    vi = T.axis.spatial(4, i)
                    vj = T.axis.S((0, 8), j)
                    T.where(i * 8 + j < 31)
                    T.reads(D[vi, vj])
                    T.writes([C[vi, vj]])
                    T.block_attr({"key": 1})
                    T.buffer_store(C, T.max(D[vi, vj], T.float32(0.0)), [vi, vj])
    same(
        ib,
        """
        @T.prim_func
        def matmul(A: T.Buffer((4, 16), "float32"), B: T.Buffer((16, 8), "float32"), C: T.Buffer((4, 8), "float32")):
            T.func_attr({"tir.noalias": True})
            # with T.block("root"):
            D = T.alloc_buffer((4, 8))
            for i, j, k in T.grid(4, 8, 16):
                with T.block("D"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    T.reads(A[vi, vk], B[vk, vj])
                    T.writes(D[vi, vj])
                    with T.init():
                        D[vi, vj] = T.float32(0.0)
                    D[vi, vj] = D[vi, vj] + A[vi, vk] * B[vk, vj]
            for v, v_1 in T.grid(4, 8):
                with T.block("C"):
                    v_2, v_3 = T.axis.remap("SS", [v, v_1])
                    T.where(v * 8 + v_1 < 31)
                    T.reads(D[v_2, v_3])
                    T.writes(C[v_2, v_3])
                    T.block_attr({"key": 1})
                    C[v_2, v_3] = T.max(D[v_2, v_3], T.float32(0.0))
        """,  # noqa: E501
    )


def test_lowered_statements() -> None:
    with IRBuilder() as ib:
        with T.prim_func(private=True):
            A = T.arg("A", T.Buffer((16,), "float32"))
            n = T.arg("n", T.int32)
            T.func_ret("int32")
            with T.Assert(n > 0, "positive"):
                with T.parallel(16) as i:
                    with T.If(i < n):
                        with T.Then():
                            T.buffer_store(A, 1, i)
                        with T.Else():
                            T.buffer_store(A, A[i] + 1.0, [i])
                with T.serial(2, 6, annotations={"key": 1}) as j:
                    with T.LetStmt(j * 2) as x:
                        T.buffer_store(A, 2.5, [T.Ramp(x, 1, 4)])
            with T.attr(A.data, "key", 1):
                with T.launch_thread("threadIdx.x", 4) as tx:
                    T.evaluate(T.call_extern("int32", "f", tx))
            declared = T.decl_buffer((4, 4), data=A.data)
            allocated = T.decl_buffer((4,), "int8", scope="local")
            with declared as D, allocated as E:
                with T.While(A[0] < 3.0):
                    T.buffer_store(D, D[0, 0] + 1.0, [0, 0])
                T.buffer_store(E, 3, [n])
                T.ret(n + 1)
    same(
        ib,
        """
        @T.prim_func(private=True)
        def main(A: T.Buffer((16,), "float32"), n: T.int32) -> T.int32:
            with T.Assert(n > 0, "positive"):
                for v in T.parallel(16):
                    if v < n:
                        A[v] = T.float32(1.0)
                    else:
                        A[v] = A[v] + T.float32(1.0)
                for v in T.serial(2, 6, annotations={"key": 1}):
                    v_1: T.int32 = v * 2
                    A[v_1:v_1 + 4] = T.Broadcast(T.float32(2.5), 4)
            with T.attr(A.data, "key", 1):
                threadIdx_x = T.launch_thread("threadIdx.x", 4)
                T.call_extern("int32", "f", threadIdx_x)
            buffer = T.decl_buffer((4, 4), data=A.data)
            buffer_1 = T.allocate([4], "int8", "local")
            buffer_2 = T.decl_buffer((4,), "int8", data=buffer_1, scope="local")
            while A[0] < T.float32(3.0):
                buffer[0, 0] = buffer[0, 0] + T.float32(1.0)
            buffer_2[n] = T.int8(3)
            return n + 1
        """,
    )


def test_symbolic_shapes_and_modules() -> None:
    with IRBuilder() as ib:
        with I.ir_module():
            I.module_attrs({"key": 1})
            for name in ("first", "second"):
                with T.prim_func():
                    T.func_name(name)
                    handle = T.arg("a", T.handle)
                    n = T.int64(is_size_var=True)
                    A = T.match_buffer(handle, (n,), "int32")
                    with T.serial(n) as i:
                        T.buffer_store(A, T.Cast("int32", i), [i])
    mod = ib.get()
    assert isinstance(mod, mlcnb.IRModule)
    assert [g.name_hint for g in mod.functions] == ["first", "second"]
    assert_structural_equal(parse(mod.script()), mod)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (lambda: T.buffer_store(None, 0, [0]), "'NoneType'"),
        (lambda: T.reads(), "T.reads stands in no block"),
        (lambda: T.axis.spatial(4, 0), "an axis stands in no block"),
        (lambda: T.arg("A", T.int32), "T.arg stands in no function"),
        (lambda: IRBuilder.current().get(), "nothing was built"),
    ],
)
def test_words_that_stand_nowhere(lines, message: str) -> None:
    with IRBuilder(), pytest.raises((MLCError, AttributeError), match=message):
        lines()


def test_a_builder_must_be_open_and_its_frames_closed() -> None:
    with pytest.raises(MLCError, match="no IRBuilder is open"):
        T.evaluate(0)
    assert not IRBuilder.is_in_scope()
    with IRBuilder() as ib:
        with T.prim_func():
            with pytest.raises(MLCError, match="function is still open"):
                ib.get()
            with pytest.raises(MLCError, match=r"T\.If has no T\.Then"):
                with T.If(T.int32() > 0):
                    pass
            with pytest.raises(MLCError, match="parameter x: a T.Buffer, a T.handle or a scalar"):
                T.arg("x", 3.5)
        with pytest.raises(MLCError, match="two functions were built"):
            with T.prim_func():
                pass


def test_a_function_without_a_name_has_no_symbol():
    with IRBuilder() as ib:
        with T.prim_func():
            T.func_ret(PrimType("int64"))
            T.evaluate(0)
    expected = tir.PrimFunc([], tir.Evaluate(0), ret_type=PrimType("int64"))
    assert_structural_equal(ib.get(), expected)
    assert "global_symbol" not in ib.get().attrs


def test_a_thread_that_is_declared_and_launched():
    with IRBuilder() as ib:
        with T.prim_func():
            T.func_name("main")
            block = T.env_thread("blockIdx.y")
            with T.launch_thread(block, 4) as by:
                T.evaluate(by)
    text = """
@T.prim_func
def main():
    blockIdx_y = T.launch_thread("blockIdx.y", 4)
    T.evaluate(blockIdx_y)
"""
    assert_structural_equal(ib.get(), parse(text))


def test_an_empty_module_and_no_builder():
    with IRBuilder() as ib:
        with mlcnb.script.ir_builder.ir_module():
            pass
    assert_structural_equal(ib.get(), mlcnb.IRModule(None, None))
    with pytest.raises(ValueError, match="no IRBuilder is open"):
        IRBuilder.current()


def test_a_graph() -> None:
    with IRBuilder() as ib:
        with R.function():
            R.func_name("main")
            R.func_attr({"mark": 1})
            x = R.arg("x", R.Tensor((2, 3), "float32"))
            before = R.emit(R.exp(x))
            with R.dataflow() as frame:
                lv = R.emit(R.add(before, x))
                cast = R.emit_match_cast(lv, R.Tensor((2, 3), "float32"))
                R.output(R.emit(R.nn.relu(cast * cast)), lv)
            out, seen = frame.output_vars
            R.func_ret_value((out, seen))
    text = """
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        R.func_attr({"mark": 1})
        gv = R.exp(x)
        with R.dataflow():
            lv = R.add(gv, x)
            lv1 = R.match_cast(lv, R.Tensor((2, 3), "float32"))
            lv2 = R.multiply(lv1, lv1)
            lv3 = R.nn.relu(lv2)
            R.output(lv, lv3)
        return (lv3, lv)
    """
    assert_structural_equal(ib.get(), parse(dedent(text)))


def test_a_graph_of_two_functions_and_what_is_refused() -> None:
    with IRBuilder() as ib:
        with I.ir_module():
            with R.function(is_private=True):
                R.func_name("inner")
                y = R.arg("y", R.Tensor((2,), "float32"))
                R.func_ret_value(R.negative(y))
            with R.function(is_pure=False):
                R.func_name("main")
                x = R.arg("x", R.Tensor((2,), "float32"))
                R.func_ret_struct_info(R.Object)
                R.func_ret_value(R.emit(R.add(x, x), R.Object()))
    mod = ib.get()
    assert "global_symbol" not in mod["inner"].attrs
    assert not mod["main"].is_pure
    assert str(mod["main"].ret_struct_info) == "R.Object"
    with pytest.raises(MLCError, match="a graph function has no result"), IRBuilder():
        with R.function():
            R.func_name("main")
    with pytest.raises(MLCError, match="a dataflow block is open already"), IRBuilder():
        with R.function(), R.dataflow(), R.dataflow():
            pass


def test_choices_inside_choices() -> None:
    with IRBuilder() as ib:
        with R.function():
            R.func_name("main")
            c = R.arg("c", R.Tensor((), "bool"))
            x = R.arg("x", R.Tensor((2,), "float32"))
            before = IRBuilder.name("before", R.emit(R.add(x, x)))
            with R.If(R.logical_not(c)) as outer:
                with R.Then():
                    first = IRBuilder.name("first", R.emit(R.exp(before)))
                    IRBuilder.name("y", R.emit(R.multiply(first, x)))
                with R.Else():
                    with R.dataflow() as frame:
                        inner = IRBuilder.name("inner", R.emit(R.negative(R.abs(x))))
                        R.output(inner)
                    (seen,) = frame.output_vars
                    with R.If(c) as nested:
                        with R.Then():
                            R.emit(x)
                        with R.Else():
                            R.emit_match_cast(seen, R.Tensor((2,), "float32"))
                    IRBuilder.name("y", R.emit(R.maximum(nested.var, seen)))
            R.func_ret_value(R.emit(R.add(outer.var, x)))
    text = """
    @R.function
    def main(c: R.Tensor((), dtype="bool"), x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        before: R.Tensor((2,), dtype="float32") = R.add(x, x)
        gv1: R.Tensor((), dtype="bool") = R.logical_not(c)
        if gv1:
            first: R.Tensor((2,), dtype="float32") = R.exp(before)
            y_then: R.Tensor((2,), dtype="float32") = R.multiply(first, x)
            y: R.Tensor((2,), dtype="float32") = y_then
        else:
            with R.dataflow():
                lv: R.Tensor((2,), dtype="float32") = R.abs(x)
                inner: R.Tensor((2,), dtype="float32") = R.negative(lv)
                R.output(inner)
            if c:
                gv6: R.Tensor((2,), dtype="float32") = x
            else:
                gv5: R.Tensor((2,), dtype="float32") = R.match_cast(inner, R.Tensor((2,), dtype="float32"))
                gv6: R.Tensor((2,), dtype="float32") = gv5
            y_else: R.Tensor((2,), dtype="float32") = R.maximum(gv6, inner)
            y: R.Tensor((2,), dtype="float32") = y_else
        gv8: R.Tensor((2,), dtype="float32") = R.add(y, x)
        return gv8
    """  # noqa: E501
    made = ib.get()
    assert well_formed(made)
    assert script(made, header=False) == dedent(text).strip("\n")
    assert_structural_equal(parse(dedent(text)), made)
    values = np.array([-2.0, 0.5], "float32")
    twice = values * 2
    for flag, wanted in ((False, np.exp(twice) * values), (True, np.maximum(values, -abs(values)))):
        got = mlcnb.compile(made, "llvm")(np.array(flag), values)
        np.testing.assert_allclose(got, wanted + values, rtol=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("T", "R.If has no R.Else"),
        ("E", "R.If has no R.Then"),
        ("TT", "R.If has two R.Then"),
        ("Te", "R.Else binds nothing"),
        ("TN", "the branches bind 'y' and 'z', not the same name"),
    ],
)
def test_choices_that_are_refused(words: str, message: str) -> None:
    with IRBuilder(), pytest.raises(MLCError, match=message):
        with R.function():
            c = R.arg("c", R.Tensor((), "bool"))
            with R.If(c):
                for word in words:
                    with R.Then() if word == "T" else R.Else():
                        if word != "e":
                            IRBuilder.name("z" if word == "N" else "y", R.emit(R.logical_not(c)))


def test_words_of_choices_that_stand_elsewhere() -> None:
    with IRBuilder(), pytest.raises(MLCError, match=r"R\.Then stands in no R\.If"):
        with R.function(), R.Then():
            pass
    with IRBuilder(), pytest.raises(MLCError, match=r"R\.If stands in a dataflow block"):
        with R.function():
            c = R.arg("c", R.Tensor((), "bool"))
            with R.dataflow(), R.If(c):
                pass
