"""Every construct of graph programs: printed, read back, verified, run by both machines."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb import relax
from mlcnb.script import parse

X = np.arange(6, dtype="float32").reshape(2, 3)


@pytest.fixture(autouse=True)
def functions() -> None:
    tvm.register_func("tests.constructs.triple", lambda a: a * 3, override=True)
    tvm.register_func("tests.constructs.inc", lambda a: np.add(a, 1, out=a), override=True)
    tvm.register_func("tests.constructs.into", lambda a, out: np.copyto(out, a + 1), override=True)

    def both(a: Any, b: Any) -> None:
        a += 1
        b -= 1

    tvm.register_func("tests.constructs.both", both, override=True)


T23 = 'R.Tensor((2, 3), dtype="float32")'
ADD_ONE = """
    @T.prim_func
    def one(A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32")):
        for i, j in T.grid(2, 3):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    @T.prim_func
    def inplace(A: T.Buffer((2, 3), "float32")):
        for i, j in T.grid(2, 3):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] * T.float32(2)

    @T.prim_func
    def size(B: T.Buffer((2,), "int64"), n: T.int64):
        for i in range(2):
            with T.block("b"):
                vi = T.axis.spatial(2, i)
                B[vi] = n + vi
"""
#: name -> (functions of a module in text, arguments, result)
CASES: dict[str, tuple[str, tuple[Any, ...], Any]] = {
    "a local function sees what is around it": (
        """
    @R.function
    def main(x: T23):
        @R.function
        def inner(y: T23):
            z = R.add(y, x)
            return z
        r = inner(x)
        return r
        """,
        (X,),
        X + X,
    ),
    "a local function calls itself": (
        """
    @R.function
    def main(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        @R.function
        def loop(i: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            c = R.less(i, R.const(5, "int32"))
            if c:
                y = R.add(i, R.const(1, "int32"))
                r = loop(y)
            else:
                r = i
            return r
        r = loop(x)
        return r
        """,
        (np.array(1, "int32"),),
        np.array(5, "int32"),
    ),
    "a function of the module calls itself": (
        """
    @R.function
    def main(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        c = R.less(x, R.const(5, "int32"))
        if c:
            y = R.add(x, R.const(2, "int32"))
            r = cls.main(y)
        else:
            r = x
        return r
        """,
        (np.array(0, "int32"),),
        np.array(6, "int32"),
    ),
    "a function that is a result": (
        """
    @R.function
    def main(x: T23):
        @R.function
        def make(y: T23) -> R.Callable((T23,), T23):
            @R.function
            def inner(z: T23) -> T23:
                w = R.subtract(z, y)
                return w
            return inner
        f = make(x)
        d = R.add(x, x)
        r = f(d)
        return r
        """,
        (X,),
        X,
    ),
    "closures": (
        """
    @R.function
    def minus(y: T23, x: T23) -> T23:
        z = R.subtract(y, x)
        return z

    @R.function(pure=False)
    def main(x: T23) -> T23:
        d = R.multiply(x, R.const(4, "float32"))
        f = R.make_closure(cls.minus, (x,))
        r = R.invoke_pure_closure(f, (d,), sinfo_args=(T23,))
        s = R.invoke_closure(f, (r,), sinfo_args=(T23,))
        return s
        """,
        (X,),
        X * 2,
    ),
    "loop functions": (
        ADD_ONE
        + """
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), y: T23):
        n = T.int64()
        a = R.call_tir(cls.one, (y,), out_sinfo=T23)
        b = R.call_tir_inplace(cls.inplace, (a,), out_sinfo=T23, inplace_indices=[0])
        g = R.call_tir_with_grad(
            cls.one, (b,), out_sinfo=T23, te_grad_name="g", te_grad_kwargs={"k": 1.0}
        )
        s = R.call_tir(cls.size, R.tuple(), out_sinfo=R.Tensor((2,), dtype="int64"),
                       tir_vars=R.shape([n]))
        return (g, s)
        """,
        (np.zeros((5, 3), "float32"), X),
        ((X + 1) * 2 + 1, np.array([5, 6])),
    ),
    "functions of the environment": (
        """
    ext = R.ExternFunc("tests.constructs.triple")

    @R.function(pure=False)
    def main(x: T23) -> R.Tuple(T23, T23):
        a = cls.ext(x)
        b = R.call_packed("tests.constructs.triple", a, sinfo_args=(T23,))
        c = R.call_pure_packed("tests.constructs.triple", b, sinfo_args=(T23,))
        d = R.call_dps_packed("tests.constructs.into", (c,), out_sinfo=T23)
        e = R.call_inplace_packed(
            "tests.constructs.inc", d, inplace_indices=[0], sinfo_args=(T23,)
        )
        f = R.call_inplace_packed(
            "tests.constructs.both", x, e, inplace_indices=[0, 1], sinfo_args=(T23, T23)
        )
        return f
        """,
        (X,),
        (X + 1, X * 27 + 1),
    ),
    "tuples, shapes, scalars": (
        """
    I.module_attrs({"a": 1, "b": [1, 2]})

    @R.function
    def main(
        x: R.Tuple(T23, R.Shape(["n", 4]), R.Prim("int64")), s: R.Shape(["n", 4])
    ):
        R.func_attr({"num_input": 1})
        n = T.int64()
        a = x[0]
        b = x[1]
        one = (a,)
        t = (one, (b, R.prim_value(3)), R.tuple(), R.str("text"), R.dtype("float16"))
        return t
        """,
        ((X, (5, 4), 7), (5, 4)),
        ((X,), ((5, 4), 3), (), "text", "float16"),
    ),
    "casts that bring in sizes": (
        """
    @R.function
    def main(x: R.Tensor(dtype="float32", ndim=2), y: R.Object):
        m = T.int64()
        k = T.int64()
        a = R.match_cast(x, R.Tensor((m, 3), "float32"))
        b = R.match_cast(y, R.Shape([m, k]))
        z = R.add(a, a)
        return (z, R.shape([m * k]))
        """,
        (X, (2, 7)),
        (X * 2, (14,)),
    ),
    "branches inside of branches": (
        """
    @R.function
    def main(x: T23, c: R.Tensor((), "bool"), d: R.Tensor((), "bool")) -> T23:
        if c:
            if d:
                with R.dataflow():
                    lv = R.negative(x)
                    gv = R.exp(lv)
                    R.output(gv)
                r = R.negative(gv)
            else:
                r = x
        else:
            r = R.add(x, x)
        return r
        """,
        (X, np.array(True), np.array(True)),
        -np.exp(-X),
    ),
    "memory by hand": (
        """
    @R.function(pure=False)
    def main(x: T23) -> T23:
        s = R.memory.alloc_storage(
            R.shape([24]), R.prim_value(0), R.str("global"), R.dtype("uint8")
        )
        t = R.memory.alloc_tensor(s, R.prim_value(0), R.shape([2, 3]), R.dtype("float32"))
        u = R.builtin.alloc_tensor(
            R.shape([2, 3]), R.dtype("float32"), R.prim_value(0), R.str("global")
        )
        v = R.add(t, u)
        w = R.add(v, x)
        _ = R.memory.kill_tensor(t)
        _1 = R.memory.kill_storage(s)
        return w
        """,
        (X,),
        X,
    ),
}


def module(text: str) -> tvm.IRModule:
    """The module of these functions; T23 stands for a tensor of (2, 3)."""
    body = dedent(text.strip("\n")).replace("T23", T23)
    lines = ["@I.ir_module", "class Module:", *("    " + line for line in body.split("\n"))]
    return parse("\n".join(lines))


def assert_same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            assert_same(a, b)
    elif isinstance(wanted, np.ndarray):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    else:
        assert str(found) == str(wanted)


@pytest.mark.parametrize("name", CASES)
def test_construct(name):
    text, args, wanted = CASES[name]
    mod = module(text)
    relax.analysis.assert_well_formed(mod)
    for dialect in ("0.21", "0.27"):
        printed = mod.script(dialect=dialect)
        again = parse(printed)
        tvm.ir.assert_structural_equal(again, mod)
        assert again.script(dialect=dialect) == printed
    tvm.ir.assert_structural_equal(tvm.ir.load_json(tvm.ir.save_json(mod)), mod)
    for target in ("llvm", "interp"):
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        ex = tvm.compile(mod, target)
        for _ in range(2):
            assert_same(ex(*given), wanted)
        for before, after in zip(args, given, strict=True):
            assert_same(after, before)


def test_a_cast_that_does_not_hold_names_the_dimension():
    mod = module(CASES["casts that bring in sizes"][0])
    for target in ("llvm", "interp"):
        with pytest.raises(tvm.MLCError) as error:
            tvm.compile(mod, target)(X.T.copy(), (2, 7))
        assert str(error.value) == (
            "match_cast of a: dimension 1 is 2, expected 3 (shape (3, 2) against (m, 3))"
        )
        with pytest.raises(tvm.MLCError, match="match_cast of b: dimension 0 is 3, expected 2"):
            tvm.compile(mod, target)(X, (3, 7))


def calling(name):
    return module(f"""
    @R.function(pure=False)
    def main(x: T23) -> T23:
        r = R.call_py_func("{name}", (x, R.const(2.0)), out_sinfo=T23)
        return r
    """)


def test_python_functions_are_called_by_name():
    mod, wrong = calling("tests.constructs.scaled"), calling("tests.constructs.short")
    tvm.register_func("tests.constructs.scaled", lambda a, b: np.tanh(a) * b, override=True)
    tvm.register_func("tests.constructs.short", lambda a, b: a[:1], override=True)
    relax.analysis.assert_well_formed(mod)
    tvm.ir.assert_structural_equal(parse(mod.script()), mod)
    for target in ("llvm", "interp"):
        got = tvm.compile(mod, target)(X)
        np.testing.assert_allclose(got, np.tanh(X) * 2, rtol=1e-6)
        with pytest.raises(tvm.MLCError, match="the result of tests.constructs.short: dimension 0"):
            tvm.compile(wrong, target)(X)
    with pytest.raises(tvm.MLCError) as error:
        tvm.compile(calling("tests.constructs.nowhere"))(X)
    assert str(error.value) == (
        "call_py_func of 'tests.constructs.nowhere': no Python function of that name is "
        "registered\n"
        "hint: @mlcnb.register_func('tests.constructs.nowhere') above a function of the arguments"
    )


def test_what_is_no_function_is_not_called():
    mod = module("""
    @R.function(pure=False)
    def main(x: T23) -> T23:
        r = R.invoke_closure(x, (x,), sinfo_args=(T23,))
        return r
    """)
    with pytest.raises(tvm.MLCError, match="a ndarray is called, which is no function"):
        tvm.compile(mod)(X)


def test_a_list_of_one_result_is_that_result():
    t23, t3 = (relax.TensorStructInfo(s, "float32") for s in ((2, 3), (3,)))
    x, f = relax.Var("x", t23), relax.GlobalVar("f")
    for call in (relax.call_tir, relax.call_dps_packed):
        func = f if call is relax.call_tir else "f"
        tvm.ir.assert_structural_equal(call(func, [x], [t23]), call(func, [x], t23))
        assert isinstance(call(func, [x], [t23, t3]).struct_info, relax.TupleStructInfo)
        assert call(func, [x], []).struct_info.fields == ()
    pair = relax.call_pure_packed("g", x, sinfo_args=[t23, t3])
    assert isinstance(pair.struct_info, relax.TupleStructInfo)
    mod = module("""
    @R.function
    def main(x: T23) -> T23:
        one = R.call_dps_packed("tests.constructs.into", (x,), out_sinfo=[T23])
        two = R.call_dps_packed("tests.constructs.into", (one,), out_sinfo=R.Tuple(T23))
        return two[0]
    """)
    one, two, _ = (b.var.struct_info for b in mod["main"].body.blocks[0].bindings)
    assert (type(one), len(two.fields)) == (relax.TensorStructInfo, 1)
    tvm.ir.assert_structural_equal(parse(mod.script()), mod)
    for target in ("llvm", "interp"):
        np.testing.assert_array_equal(tvm.compile(mod, target)(X), X + 2)


def test_a_function_that_is_made_of_one_expression() -> None:
    """As TVM's, the body is a sequence, whatever is given: it goes into JSON and text."""
    constant = relax.const(np.arange(4, dtype="float32"))
    info = relax.TensorStructInfo([4], "float32")
    func = relax.Function([], constant, info, attrs={"global_symbol": "main"})
    assert isinstance(func.body, relax.SeqExpr) and func.body.body is constant
    mod = tvm.IRModule({"main": func})
    tvm.ir.assert_structural_equal(tvm.ir.load_json(tvm.ir.save_json(mod)), mod)
    tvm.ir.assert_structural_equal(parse(mod.script(show_meta=True)), mod)
    np.testing.assert_array_equal(tvm.compile(mod, target="llvm")(), np.arange(4))
