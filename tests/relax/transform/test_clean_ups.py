"""Normalize, CanonicalizeBindings, DeadCodeElimination, EliminateCommonSubexpr, SimplifyOps."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import PassError, TypeInferError
from mlcnb.ir import assert_structural_equal
from mlcnb.ir.module import IRModule
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.expr import (
    BindingBlock,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    Var,
    VarBinding,
    tensor_info,
)
from mlcnb.relax.operator import called
from mlcnb.relax.transform import (
    BindParams,
    CanonicalizeBindings,
    DeadCodeElimination,
    EliminateCommonSubexpr,
    Normalize,
    SimplifyOps,
)
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from tests.relax.harness import as_module, check_pass


def test_normalize_makes_nested_calls_flat_and_infers() -> None:
    x = Var("x", tensor_info((2, 3), "float32"))
    y = Var("y")
    nested = VarBinding(y, op.nn.relu(op.permute_dims(op.add(x, x))))
    body = SeqExpr((BindingBlock((nested,)), BindingBlock(())), op.exp(y))
    func = Function((x,), body)

    @R.function(private=True)
    def expected(x: R.Tensor((2, 3), "float32")) -> R.Tensor((3, 2), "float32"):
        a = R.add(x, x)
        b = R.permute_dims(a)
        c = R.nn.relu(b)
        d = R.exp(c)
        return d

    got = Normalize()(IRModule.make({"main": func}))
    assert_structural_equal(got["main"], expected)
    assert Normalize()(got) is got


def test_normalize_says_what_does_not_fit() -> None:
    x = Var("x", tensor_info((2, 3), "float32"))
    func = Function((x,), SeqExpr((), op.matmul(x, x)))
    with pytest.raises(TypeInferError) as caught:
        Normalize()(IRModule.make({"main": func}))
    assert caught.value.message.startswith("matmul: ")
    assert caught.value.where is not None


def test_aliases_go() -> None:
    @R.function
    def before(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = x
        z = y
        with R.dataflow():
            lv = R.add(z, y)
            lv1 = lv
            lv2 = R.exp(lv1)
            gv = lv2
            R.output(gv)
        w = gv
        return w

    @R.function
    def after(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        with R.dataflow():
            lv = R.add(x, x)
            gv = R.exp(lv)
            R.output(gv)
        return gv

    got = check_pass(CanonicalizeBindings(), before, after)
    assert [b.var.name_hint for b in got["main"].body.bindings] == ["lv", "gv"]


def test_one_local_value_as_two_outputs() -> None:
    @R.function
    def before(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            lv = R.exp(x)
            lv1 = R.add(lv, x)
            a = lv
            b = lv
            R.output(a, b, lv1)
        return (a, b, lv1)

    @R.function
    def after(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            lv1 = R.add(a, x)
            R.output(a, lv1)
        return (a, a, lv1)

    check_pass(CanonicalizeBindings(), before, after)


def test_tuples_are_not_taken_apart_and_put_together() -> None:
    @R.function
    def before(
        x: R.Tensor((2,), "float32"),
        t: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")),
    ):
        a = R.exp(x)
        pair = (a, x)
        b = pair[0]
        c = pair[1]
        d = R.add(b, c)
        e = t[0]
        f = t[1]
        again = (e, f)
        swapped = (f, e)
        return (d, again, swapped)

    got = check_pass(CanonicalizeBindings(), before)
    cleaned = check_pass(DeadCodeElimination(), got)

    @R.function
    def after(
        x: R.Tensor((2,), "float32"),
        t: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")),
    ):
        a = R.exp(x)
        d = R.add(a, x)
        e = t[0]
        f = t[1]
        swapped = (f, e)
        return (d, t, swapped)

    assert_structural_equal(cleaned, as_module(after))


def test_casts_to_what_is_known_go_and_others_stay() -> None:
    @R.function
    def before(x: R.Tensor(("n", 2), "float32"), y: R.Tensor(dtype="float32", ndim=2)):
        n = T.int64()
        m = T.int64()
        a = R.match_cast(x, R.Tensor((n, 2), "float32"))
        b = R.match_cast(y, R.Tensor((m, 2), "float32"))
        c = R.exp(a)
        d = R.exp(b)
        return (c, d)

    args = [np.ones((3, 2), np.float32), np.ones((4, 2), np.float32)]
    got = check_pass(CanonicalizeBindings(), before, args=args)
    kinds = [type(b).__name__ for b in got["main"].body.bindings]
    assert kinds == ["MatchCast", "VarBinding", "VarBinding"]


def test_sizes_have_one_name() -> None:
    @R.function
    def before(
        x: R.Tensor(("m", 4), "float32"),
        t: R.Tuple(R.Tensor((3,), "float32"), R.Shape((2, 5))),
        y: R.Tensor(dtype="float32", ndim=1),
    ):
        m, o, p, q, r, s, u = (
            T.int64(), T.int64(), T.int64(), T.int64(), T.int64(), T.int64(), T.int64()
        )  # fmt: skip
        a = R.match_cast(x, R.Tensor((o, p), "float32"))
        b = R.match_cast(t, R.Tuple(R.Tensor((q,), "float32"), R.Shape((r, s))))
        c = R.match_cast(y, R.Tensor((u,), "float32"))
        d = R.reshape(a, R.shape([o * p]))
        e = R.full(R.shape([q, r + s, u]), R.const(1.0))
        return (d, e, b)

    @R.function
    def after(
        x: R.Tensor(("m", 4), "float32"),
        t: R.Tuple(R.Tensor((3,), "float32"), R.Shape((2, 5))),
        y: R.Tensor(dtype="float32", ndim=1),
    ):
        m, u = T.int64(), T.int64()
        c = R.match_cast(y, R.Tensor((u,), "float32"))
        d = R.reshape(x, R.shape([m * 4]))
        e = R.full(R.shape([3, 7, u]), R.const(1.0))
        return (d, e, t)

    x, three, y = (np.ones(s, "float32") for s in ((2, 4), (3,), (5,)))
    check_pass(CanonicalizeBindings(), before, after, args=[x, (three, (2, 5)), y])


def test_a_size_that_two_casts_give_keeps_its_name_where_they_differ() -> None:
    @R.function
    def branches(
        c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32"), y: R.Tensor((3,), "float32")
    ):
        n = T.int64()
        if c:
            a = R.match_cast(x, R.Tensor((n,), "float32"))
            z = R.sum(a)
        else:
            a = R.match_cast(y, R.Tensor((n,), "float32"))
            z = R.sum(a)
        return z

    @R.function
    def never(x: R.Tensor((2,), "float32"), y: R.Tensor((3,), "float32")):
        n = T.int64()
        a = R.match_cast(x, R.Tensor((n,), "float32"))
        b = R.match_cast(y, R.Tensor((n,), "float32"))
        return R.add(a, b)

    @R.function
    def told(x: R.Tensor((2,), "float32"), y: R.Tensor(dtype="float32", ndim=1)):
        n = T.int64()
        a = R.match_cast(x, R.Tensor((n,), "float32"))
        b = R.match_cast(y, R.Tensor((n,), "float32"))
        return R.add(a, b)

    for func in (branches, never, told):
        mod = as_module(func)
        assert CanonicalizeBindings()(mod) is mod


def test_a_constant_that_comes_out_of_a_block_keeps_its_name() -> None:
    @R.function
    def before(x: R.Tensor((), "int32")):
        with R.dataflow():
            one = R.const(1)
            n = R.match_cast(one, R.Tensor((), "int32"))
            two = R.const(2)
            m = two
            s = R.add(two, x)
            R.output(n, m, s)
        return (n, m, s)

    @R.function
    def after(x: R.Tensor((), "int32")):
        with R.dataflow():
            n = R.const(1)
            m = R.const(2)
            s = R.add(m, x)
            R.output(n, m, s)
        return (n, m, s)

    check_pass(CanonicalizeBindings(), before, after)


def test_unused_bindings_and_functions_go() -> None:
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def used(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
            for i in range(2):
                with T.block("B"):
                    vi = T.axis.spatial(2, i)
                    B[vi] = A[vi] + T.float32(1)

        @T.prim_func(private=True)
        def unused(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
            for i in range(2):
                with T.block("B"):
                    vi = T.axis.spatial(2, i)
                    B[vi] = A[vi] + T.float32(2)

        @R.function(private=True)
        def helper(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            y = R.exp(x)
            return y

        @R.function
        def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(
            (2,), "float32"
        ):
            R.func_attr({"global_symbol": "main"})
            cls = Before
            with R.dataflow():
                lv = R.call_tir(cls.used, (x,), out_sinfo=R.Tensor((2,), "float32"))
                lv1 = R.call_tir(cls.unused, (x,), out_sinfo=R.Tensor((2,), "float32"))
                gv = R.exp(lv1)
                gv1 = R.exp(lv)
                R.output(gv, gv1)
            if c:
                a = R.exp(gv1)
                b = R.exp(x)
                z = b
            else:
                z = x
            dead = cls.helper(x)
            return z

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(
            (2,), "float32"
        ):
            R.func_attr({"global_symbol": "main"})
            if c:
                b = R.exp(x)
                z = b
            else:
                z = x
            return z

    check_pass(DeadCodeElimination(), Before, After)


def test_effects_stay() -> None:
    @R.function(pure=False)
    def before(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.exp(x)
        a = R.call_packed("test.dead_code", y, sinfo_args=(R.Tuple,))
        b = R.call_pure_packed("test.dead_code", y, sinfo_args=(R.Tuple,))
        return x

    got = check_pass(DeadCodeElimination(), before, args=False)
    assert len(got["main"].body.bindings) == 2


def test_a_cast_stays_while_its_symbol_is_used() -> None:
    @R.function
    def before(x: R.Tensor(dtype="float32", ndim=1)):
        n = T.int64()
        m = T.int64()
        a = R.match_cast(x, R.Tensor((n,), "float32"))
        b = R.match_cast(x, R.Tensor((m,), "float32"))
        c = R.zeros(R.shape([n]), dtype="float32")
        return c

    import numpy as np

    got = check_pass(DeadCodeElimination(), before, args=[np.ones(3, np.float32)])
    assert len(got["main"].body.bindings) == 2


def test_entry_functions_are_kept() -> None:
    f = Function((x := Var("x", tensor_info((2,), "float32")),), SeqExpr((), x), x.struct_info)
    mod = IRModule.make({"main": f, "other": f, "third": f})
    assert len(DeadCodeElimination()(mod)) == 1
    assert set(DeadCodeElimination(("other",))(mod)) == {
        mod.get_global_var("main"),
        mod.get_global_var("other"),
    }
    exposed = mod.with_function("third", f.with_attr("global_symbol", "third"))
    assert [k.name_hint for k in DeadCodeElimination()(exposed)] == ["third"]


def test_what_is_computed_twice_is_computed_once() -> None:
    @R.function
    def before(x: R.Tensor((2, 2), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.exp(x)
            c = R.add(a, R.const(1.0, "float32"))
            d = R.add(b, R.const(1.0, "float32"))
            e = R.permute_dims(c, axes=[1, 0])
            f = R.permute_dims(d, axes=[0, 1])
            t = (e, f)
            u = (e, f)
            g = t[1]
            h = u[1]
            i = R.add(g, h)
            gv = R.exp(x)
            R.output(gv, i)
        k = R.add(x, i)
        l = R.add(x, i)
        m = R.multiply(k, l)
        return (m, gv)

    @R.function
    def after(x: R.Tensor((2, 2), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = a
            c = R.add(a, R.const(1.0, "float32"))
            d = c
            e = R.permute_dims(c, axes=[1, 0])
            f = R.permute_dims(c, axes=[0, 1])
            t = (e, f)
            u = t
            g = t[1]
            h = g
            i = R.add(g, g)
            gv = a
            R.output(gv, i)
        k = R.add(x, i)
        l = k
        m = R.multiply(k, k)
        return (m, gv)

    check_pass(EliminateCommonSubexpr(), before, after)
    calls = check_pass(EliminateCommonSubexpr(call_only=True), before)
    kinds = [type(b.value).__name__ for b in calls["main"].body.bindings]
    assert (kinds.count("Tuple"), kinds.count("TupleGetItem")) == (2, 2)


def test_a_value_of_a_dataflow_block_is_seen_after_it_by_the_name_that_it_gives_out() -> None:
    @R.function
    def before(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.exp(x)
            c = R.add(a, b)
            R.output(b, c)
        d = R.exp(x)
        return (b, c, d)

    @R.function
    def after(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = a
            c = R.add(a, a)
            R.output(b, c)
        d = b
        return (b, c, b)

    check_pass(EliminateCommonSubexpr(), before, after)


def test_branches_do_not_share_with_what_follows() -> None:
    @R.function
    def before(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((2,), "float32"):
        if c:
            a = R.exp(x)
            z = R.add(a, x)
        else:
            z = R.exp(x)
        w = R.exp(x)
        v = R.add(w, z)
        return v

    mod = as_module(before)
    assert check_pass(EliminateCommonSubexpr(), mod) is mod


def test_effects_and_randomness_are_not_shared() -> None:
    @R.function(pure=False)
    def before(x: R.Tensor((2,), "float32")):
        a = R.call_packed("test.cse", x, sinfo_args=(R.Tensor((2,), "float32"),))
        b = R.call_packed("test.cse", x, sinfo_args=(R.Tensor((2,), "float32"),))
        c = R.builtin.alloc_tensor(
            R.shape([2]), R.dtype("float32"), R.prim_value(0), R.str("global")
        )
        d = R.builtin.alloc_tensor(
            R.shape([2]), R.dtype("float32"), R.prim_value(0), R.str("global")
        )
        return (a, b, c, d)

    check_pass(EliminateCommonSubexpr(), before, before, args=False)


def test_what_does_nothing_goes() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            a = R.nn.dropout(x, rate=0.3)
            b = a[0]
            c = R.multiply(b, R.const(1.0, "float32"))
            d = R.add(R.const([[0.0, 0.0, 0.0]], "float32"), c)
            e = R.permute_dims(d, axes=[1, 0])
            f = R.permute_dims(e, axes=[1, 0])
            g = R.reshape(f, R.shape([6]))
            h = R.reshape(g, R.shape([3, 2]))
            i = R.reshape(h, R.shape([2, 3]))
            j = R.nn.relu(i)
            k = R.nn.relu(j)
            l = R.astype(k, "float32")
            m = R.strided_slice(l, axes=[0], begin=[0], end=[2])
            n = R.divide(m, R.const(1.0, "float32"))
            o = R.concat((n,), axis=0)
            gv = R.exp(o)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            j = R.nn.relu(x)
            gv = R.exp(j)
            R.output(gv)
        return gv

    check_pass(SimplifyOps(), before, after)


def test_what_does_something_stays() -> None:
    @R.function
    def before(x: R.Tensor((1, 3), "float32")):
        a = R.multiply(x, R.const([[1.0], [1.0]], "float32"))
        b = R.subtract(R.const(0.0, "float32"), x)
        c = R.strided_slice(x, axes=[1], begin=[2], end=[-4], strides=[-1])
        d = R.permute_dims(x, axes=[1, 0])
        e = R.astype(x, "float16")
        f = R.divide(R.const(1.0, "float32"), x)
        return (a, b, c, d, e, f)

    check_pass(SimplifyOps(), before, before, tolerance=1e-2)


@pytest.mark.parametrize(
    "mode", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
)
@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
def test_images_that_have_the_size_are_not_resized(method: str, mode: str) -> None:
    def program(size: tuple[int, int], **attrs: object) -> IRModule:
        x = Var("x", tensor_info((1, 2, 5, 7), "float32"))
        bb = BlockBuilder()
        with bb.function("main", [x]):
            attrs = {"coordinate_transformation_mode": mode, "method": method, **attrs}
            bb.emit_func_output(bb.emit(op.image.resize2d(x, size, **attrs)))
        return bb.finalize()

    def is_kept(mod: IRModule) -> bool:
        return "resize2d" in check_pass(SimplifyOps(), mod, tolerance=1e-6)["main"].script()

    assert not is_kept(program((5, 7)))
    assert is_kept(program((5, 8)))
    if mode != "align_corners":
        assert not is_kept(program((5, 7), scales=(1.0, 1.0)))
        assert is_kept(program((5, 7), scales=(1.0, 1.1)))
    assert is_kept(program((5, 7), out_dtype="float64"))
    other = {"coordinate_transformation_mode": "tf_half_pixel_for_nn"}
    assert is_kept(program((5, 7), **other))


def test_permutations_are_composed() -> None:
    @R.function
    def before(x: R.Tensor((2, 3, 4), "float32")):
        a = R.permute_dims(x, axes=[1, 2, 0])
        b = R.permute_dims(a, axes=[0, 2, 1])
        return b

    @R.function
    def after(x: R.Tensor((2, 3, 4), "float32")):
        b = R.permute_dims(x, axes=[1, 0, 2])
        return b

    check_pass(SimplifyOps(), before, after)


def test_binding_parameters() -> None:
    import numpy as np

    @R.function
    def before(
        x: R.Tensor((2, "k"), "float32"),
        w: R.Tensor(("k", "m"), "float32"),
        b: R.Tensor(("m",), "float32"),
    ):
        k = T.int64()
        m = T.int64()
        R.func_attr({"num_input": 1})
        lv = R.matmul(x, w)
        gv = R.add(lv, b)
        return gv

    rng = np.random.default_rng(0)
    w = rng.standard_normal((3, 4)).astype("float32")
    b = rng.standard_normal(4).astype("float32")
    mod = IRModule.make({"main": before})
    got = BindParams("main", {"w": w, "b": b})(mod)
    func = got["main"]
    assert [p.name_hint for p in func.params] == ["x"]
    assert [int(d) for d in func.params[0].struct_info.dims] == [2, 3]
    assert [int(d) for d in func.ret_struct_info.dims] == [2, 4]
    from mlcnb.testing import evaluate

    x = rng.standard_normal((2, 3)).astype("float32")
    np.testing.assert_allclose(evaluate(got, x), evaluate(mod, x, w, b), rtol=1e-6)
    with pytest.raises(PassError) as caught:
        BindParams("main", {"v": w})(mod)
    assert caught.value.message == "BindParams: no parameter 'v'"
    assert caught.value.hint == "there are x, w, b"
    with pytest.raises(PassError) as caught:
        BindParams("main", {"b": w})(mod)
    assert caught.value.message == (
        "BindParams: b is Tensor((m,), float32), the value is Tensor((3, 4), float32)"
    )
    with pytest.raises(PassError, match="no function 'other' in the module"):
        BindParams("other", {})(mod)


def test_what_a_block_gives_out_for_itself_is_local() -> None:
    @R.function
    def before(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")):
        with R.dataflow():
            a = R.exp(x)
            b = R.add(a, x)
            R.output(a, b)
        if c:
            with R.dataflow():
                d = R.exp(b)
                e = R.add(d, d)
                R.output(d, e)
            f = e
        else:
            f = x
        return f

    @R.function
    def after(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")):
        with R.dataflow():
            a = R.exp(x)
            b = R.add(a, x)
            R.output(b)
        if c:
            with R.dataflow():
                d = R.exp(b)
                e = R.add(d, d)
                R.output(e)
            f = e
        else:
            f = x
        return f

    check_pass(CanonicalizeBindings(), before, after)


def test_normalize_puts_neighbouring_blocks_and_bound_sequences_together() -> None:
    info = tensor_info((), "int32")
    x, y, z, q, u = (Var(name, info) for name in "xyzqu")
    w = DataflowVar("w", info)
    inner = SeqExpr(
        (
            BindingBlock((VarBinding(q, op.add(x, x)),)),
            DataflowBlock((VarBinding(w, op.add(q, q)),)),
            DataflowBlock((VarBinding(u, q),)),
        ),
        op.add(u, u),
    )
    outer = BindingBlock((VarBinding(y, inner), VarBinding(z, op.add(y, y))))
    func = Function((x,), SeqExpr((outer,), z), info)

    @R.function(private=True)
    def expected(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        q = R.add(x, x)
        with R.dataflow():
            w = R.add(q, q)
            u = q
            R.output(u)
        y = R.add(u, u)
        z = R.add(y, y)
        return z

    made = Normalize()(as_module(func))["main"]
    assert_structural_equal(made.without_attr("global_symbol"), expected)


@pytest.mark.parametrize(("count", "axis"), [(65, 0), (200, 1), (10_000, 0)])
def test_many_tensors_are_put_together_some_at_a_time(count: int, axis: int) -> None:
    """10,000 compile in about a second; asked one by one, each element would ask 10,000 times."""
    parts = [np.full((2, 3), i, "float32") for i in range(count)]
    params = [Var(f"x{i}", tensor_info((2, 3), "float32")) for i in range(count)]
    bb = BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(op.concat(params, axis=axis))
        bb.emit_func_output(out)
    mod = bb.get()
    calls = [
        b.value
        for b in bindings_of(SimplifyOps()(mod)["main"])
        if called(b.value).op_name == "relax.concat"
    ]
    assert max(len(c.args[0].fields) for c in calls) <= 64
    np.testing.assert_array_equal(mlc.compile(mod)(*parts), np.concatenate(parts, axis))


@pytest.mark.parametrize("reduction", ["update", "add", "mul", "min", "max"])
@pytest.mark.parametrize("tail", [(4,), (3, 5)])
def test_one_index_for_whole_rows_is_one_of_scatter_nd(reduction, tail) -> None:
    dims = (6, *tail)
    bb = BlockBuilder()
    x, u = (Var(name, tensor_info((n, *tail), "float32")) for name, n in (("x", 6), ("u", 9)))
    i = Var("i", tensor_info((9,), "int64"))
    with bb.function("main", [x, i, u]):
        column = bb.emit(op.reshape(i, (9, *(1 for _ in tail))))
        wide = bb.emit(op.broadcast_to(column, (9, *tail)))
        bb.emit_func_output(bb.emit(op.scatter_elements(x, wide, u, axis=0, reduction=reduction)))
    mod = bb.get()
    text = SimplifyOps()(mod).script()
    assert "R.scatter_nd" in text and "scatter_elements" not in text
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((n, *tail)).astype("float32") for n in (6, 9))
    places = rng.integers(-6, 6, 9)
    expected, combine = a.copy(), {"add": np.add, "mul": np.multiply, "min": np.minimum}
    for place, row in zip(places, b, strict=True):
        old = expected[place]
        expected[place] = (
            row if reduction == "update" else combine.get(reduction, np.maximum)(old, row)
        )
    found = mlc.compile(mod, target="llvm")(a, places, b)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.shape == dims


def test_an_index_for_a_part_of_the_rows_stays() -> None:
    @R.function
    def part(
        x: R.Tensor((6, 4), "float32"),
        i: R.Tensor((9, 1), "int64"),
        u: R.Tensor((9, 3), "float32"),
    ):
        with R.dataflow():
            wide = R.broadcast_to(i, (9, 3))
            gv = R.scatter_elements(x, wide, u, axis=0)
            R.output(gv)
        return gv

    check_pass(SimplifyOps(), part, part)
