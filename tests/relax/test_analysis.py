"""Variables, uses, purity, struct info relations, costs."""

from __future__ import annotations

import numpy as np
import pytest

from mlcnb import relax, tir
from mlcnb.core.errors import TypeInferError
from mlcnb.ir import assert_structural_equal
from mlcnb.ir.expr import SizeVar
from mlcnb.ir.module import IRModule
from mlcnb.relax import analysis as A
from mlcnb.relax.analysis.struct_info import (
    definable_vars,
    match_vars,
    same_info,
    substitute,
    symbolic_vars,
)
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.expr import Call, Function, GlobalVar, Op, Var, shape_expr, tensor_info
from mlcnb.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TupleStructInfo,
)
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T

n, m = SizeVar("n", "int64"), SizeVar("m", "int64")


def info(*shape: object, dtype: str | None = "float32"):
    return tensor_info(shape, dtype)


@I.ir_module
class Mod:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")) -> R.Tensor:
        n = T.int64()
        cls = Mod
        with R.dataflow():
            lv = R.nn.relu(x)
            lv1 = R.add(lv, lv)
            gv = R.add(lv1, x)
            R.output(gv)
        y = cls.helper(gv)
        if c:
            z = R.exp(y)
        else:
            w = R.exp(y)
            z = R.add(w, y)
        return z

    @R.function(private=True)
    def helper(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        n = T.int64()
        y = R.exp(x)
        return y

    @R.function(private=True)
    def loop(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        cls = Mod
        y: R.Tensor((), "int32") = cls.loop(x)
        return y


MAIN = Mod["main"]


def names(found) -> list[str]:
    return [v.name_hint for v in found]


def test_bound_used_and_free_variables() -> None:
    outer = names(A.bound_vars(MAIN))
    assert outer[:5] == ["x", "c", "lv", "lv1", "gv"] and {"y", "z", "w"} <= set(outer)
    assert set(names(A.all_vars(MAIN))) == set(outer)
    assert A.free_vars(MAIN) == []
    stray = Var("stray", info(2))
    func = Function((), R_seq(stray))
    assert A.free_vars(func) == [stray]


def R_seq(body):
    from mlcnb.relax.expr import SeqExpr

    return SeqExpr((), body)


def test_uses_are_counted_and_chained() -> None:
    counts = {v.name_hint: k for v, k in A.use_counts(MAIN).items()}
    assert (counts["x"], counts["lv"], counts["lv1"], counts["gv"]) == (2, 2, 1, 1)
    assert counts["c"] == 1 and counts["y"] == 3
    chain = {v.name_hint: names(users) for v, users in A.udchain(MAIN).items()}
    assert chain["x"] == ["lv", "gv"] and chain["lv"] == ["lv1"] and chain["z"] == []
    block = MAIN.body.blocks[0]
    assert {v.name_hint for v in A.udchain(block)} == {"x", "lv", "lv1", "gv"}


def test_bindings_by_variable_and_by_name() -> None:
    values = {v.name_hint: value for v, value in A.get_var2val(MAIN).items()}
    assert values["lv"].op.name == "relax.nn.relu"
    assert [b.var.name_hint for b in A.name_to_binding(MAIN)["gv"]] == ["gv"]
    assert A.name_to_binding(MAIN)["gv"][0].value.op.name == "relax.add"
    assert "nope" not in A.name_to_binding(MAIN)


def test_global_variables_and_recursion() -> None:
    assert names(A.all_global_vars(MAIN)) == ["helper"]
    assert names(A.topological_functions(Mod)) == ["helper", "main", "loop"]
    assert A.detect_recursion(Mod) == [[GlobalVar("loop")]]


def test_symbolic_variables() -> None:
    assert [v.name for v in A.defined_symbolic_vars(MAIN)] == ["n"]
    assert A.free_symbolic_vars(MAIN) == []
    free = Function((Var("x", info(n * 2)),), R_seq(shape_expr([n, m])))
    assert [v.name for v in A.free_symbolic_vars(free)] == ["n"]
    assert symbolic_vars(info(n * 2, m, n)) == (n, m)
    assert definable_vars(TupleStructInfo((info(n * 2, m), ShapeStructInfo((n,), 1)))) == (m, n)
    assert definable_vars(PrimStructInfo("int64", m)) == (m,)


def test_post_order_sees_parts_before_the_whole() -> None:
    seen: list[object] = []
    A.post_order_visit(Mod["helper"], seen.append)
    kinds = [type(s).__name__ for s in seen]
    assert kinds == ["Op", "Var", "Call", "Var", "Function"]


def test_purity() -> None:
    assert not A.is_impure_op(Op("relax.add"))
    assert A.is_impure_op(Op("relax.builtin.alloc_tensor"))
    assert not A.contains_impure_call(MAIN, functions=Mod.functions)

    @R.function(pure=False)
    def prints(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.call_packed("test.print", x, sinfo_args=(R.Tensor((2,), "float32"),))
        return y

    assert A.contains_impure_call(prints)
    loop = Mod["loop"]
    impure = IRModule.make({"loop": Function(loop.params, loop.body, loop.ret_struct_info, False)})
    assert A.contains_impure_call(impure["loop"], functions=impure.functions)
    own = A.contains_impure_call(impure["loop"], GlobalVar("loop"), impure.functions)
    assert not own


@pytest.mark.parametrize(
    ("base", "derived", "level"),
    [
        (ObjectStructInfo(), info(2), 3),
        (info(2), ObjectStructInfo(), 1),
        (info(2, 3), info(2, 3), 3),
        (info(2, 3), info(2, 4), 0),
        (info(2, 3), info(2), 0),
        (info(n, 4), info(n, 4), 3),
        (info(n * 2), info(n + n), 3),
        (info(n, 4), info(m, 4), 2),
        (info(n), info(4), 2),
        (tensor_info(None, None), info(n, 4), 3),
        (tensor_info(None, "float32", 2), info(n, 4), 3),
        (tensor_info(None, "float32", 2), info(4), 0),
        (info(n, 4), tensor_info(None, "float32", 2), 2),
        (info(n, 4), tensor_info(None, "float32"), 1),
        (info(4), info(4, dtype="int32"), 0),
        (info(4), info(4, dtype=None), 1),
        (ShapeStructInfo(None, 2), ShapeStructInfo((n, m), 2), 3),
        (ShapeStructInfo((n, m), 2), ShapeStructInfo(None, 2), 2),
        (ShapeStructInfo((n,), 1), ShapeStructInfo((n, m), 2), 0),
        (PrimStructInfo("int64"), PrimStructInfo("int64", n), 3),
        (PrimStructInfo("int64", n), PrimStructInfo("int64"), 2),
        (PrimStructInfo("int64"), PrimStructInfo("int32"), 0),
        (TupleStructInfo((info(2), info(n))), TupleStructInfo((info(2), info(m))), 2),
        (TupleStructInfo((info(2),)), TupleStructInfo(()), 0),
        (info(2), ShapeStructInfo(None, 1), 0),
        (FuncStructInfo((info(n),), info(n)), FuncStructInfo((info(m),), info(m)), 3),
        (FuncStructInfo((info(2),), info(2)), FuncStructInfo((info(2), info(2)), info(2)), 0),
        (FuncStructInfo(None, info(2)), FuncStructInfo((info(2),), info(2)), 3),
        (FuncStructInfo(None, info(2)), FuncStructInfo(None, info(2), False), 0),
    ],
)  # fmt: skip
def test_base_check(base, derived, level: int) -> None:
    assert A.struct_info_base_check(base, derived) == level


@pytest.mark.parametrize(
    ("a", "b", "lca"),
    [
        (info(2, 3), info(2, 3), info(2, 3)),
        (info(2, 3), info(4, 3), tensor_info(None, "float32", 2)),
        (info(2), info(2, 3), tensor_info(None, "float32")),
        (info(2), info(2, dtype="int32"), info(2, dtype=None)),
        (info(n * 2), info(n + n), info(n * 2)),
        (ShapeStructInfo((n,), 1), ShapeStructInfo((m,), 1), ShapeStructInfo(None, 1)),
        (PrimStructInfo("int64", n), PrimStructInfo("int64", m), PrimStructInfo("int64")),
        (TupleStructInfo((info(2),)), TupleStructInfo((info(3),)),
         TupleStructInfo((tensor_info(None, "float32", 1),))),
        (TupleStructInfo((info(2),)), TupleStructInfo(()), ObjectStructInfo()),
        (info(2), ShapeStructInfo(None, 1), ObjectStructInfo()),
    ],
)  # fmt: skip
def test_lowest_common_ancestor(a, b, lca) -> None:
    assert same_info(A.struct_info_lca(a, b), lca)
    assert same_info(A.struct_info_lca(b, a), lca) or not same_info(a, b)
    assert A.struct_info_base_check(lca, a) == A.struct_info_base_check(lca, b) == 3


def test_erasing_and_substituting() -> None:
    erased = A.erase_to_well_defined(TupleStructInfo((info(n, 4), info(m, 4))), [n])
    assert same_info(erased, TupleStructInfo((info(n, 4), tensor_info(None, "float32", 2))))
    assert A.erase_to_well_defined(erased, [n]) is erased
    shape = A.erase_to_well_defined(ShapeStructInfo((m, n), 2), [n])
    assert same_info(shape, ShapeStructInfo(None, 2))
    one = SizeVar("k", "int64")
    assert same_info(substitute(info(n * 2, m), {n: one}), info(one * 2, m))
    kept = info(m)
    assert substitute(kept, {n: one}) is kept
    found: dict = {}
    match_vars(
        TupleStructInfo((info(n, 4), info(n, m))),
        TupleStructInfo((info(6, 4), info(6, one))),
        found,
    )
    assert int(found[n]) == 6 and found[m] is one


def test_costs() -> None:
    @R.function
    def main(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
        with R.dataflow():
            lv = R.nn.conv2d(x, w, padding=1)
            lv1 = R.nn.relu(lv)
            lv2 = R.nn.relu(lv1)
            gv = R.add(lv2, lv)
            R.output(gv)
        return gv

    mod = IRModule.make({"main": main})
    conv = main.body.bindings[0].value
    assert A.call_flops(conv) == 2 * 4 * 64 * 27
    assert A.flops(main) >= 2 * 4 * 64 * 27 + 4 * 64
    assert A.call_bytes(conv) == 4 * (3 * 64 + 4 * 27 + 4 * 64)
    (estimate,) = A.estimate_memory_usage(mod)
    assert (estimate.name, estimate.constants, estimate.intermediates) == ("main", 0, 4096)
    assert estimate.inputs == 4 * (3 * 64 + 4 * 27) and estimate.peak == 3 * 1024
    assert repr(estimate) == (
        "main: 1200 B inputs, 0 B constants, 4096 B intermediates, 3072 B peak"
    )
    from mlcnb.relax.transform import LegalizeOps

    lowered = LegalizeOps()(mod)
    assert A.flops(lowered["main"], lowered.functions) >= 2 * 4 * 64 * 27
    unknown = Call(Op("relax.add"), (Var("a", info(n)), Var("b", info(n))), struct_info=info(n))
    assert A.call_bytes(unknown) is None


def test_static_sizes() -> None:
    assert A.static_shape(info(2, 3)) == (2, 3) and A.static_shape(info(n)) is None
    assert A.nbytes(TupleStructInfo((info(2, 3), info(4, dtype="int8")))) == 28
    assert A.nbytes(info(n)) is None and A.nbytes(info()) == 4


def test_bindings_of_branches_come_before_their_if() -> None:
    order = [b.var.name_hint for b in bindings_of(MAIN)]
    assert order.index("w") < len(order) - 1 and order[-1].startswith("z")
    assert np.all([isinstance(name, str) for name in order])


def test_what_a_call_gives_follows_from_the_struct_info_of_the_function() -> None:
    n, m = (tir.Var(name, "int64") for name in "nm")
    of_any = relax.TensorStructInfo((n, 4), "float32")
    func = relax.FuncStructInfo((of_any,), relax.TensorStructInfo((n * 2,), "float32"))
    x = relax.Var("x", relax.TensorStructInfo((m, 4), "float32"))
    call = relax.Call(relax.Var("f", func), [x])
    ret = A.derive_call_ret_struct_info(func, call, None)
    assert_structural_equal(ret, relax.TensorStructInfo((m * 2,), "float32"))
    y = relax.Var("y", relax.TensorStructInfo((m, 5), "float32"))
    with pytest.raises(TypeInferError):
        A.derive_call_ret_struct_info(func, relax.Call(call.op, [y]))
    with pytest.raises(TypeInferError):
        A.derive_call_ret_struct_info(of_any, call)


def test_what_is_known_before_a_run_and_the_sizes_that_weights_tell() -> None:
    @R.function
    def main(x: R.Tensor(("n",), "int32"), w: R.Tensor(("m",), "int32"), v: R.Tensor(ndim=1)):
        R.func_attr({"num_input": 1})
        n, m, k = T.int64(), T.int64(), T.int64()
        a = R.add(w, w)
        b = R.ones((m,), "int32")
        c = R.ones((n,), "int32")
        d = R.match_cast(v, R.Tensor((k,)))
        e = R.zeros((k,), "int32")
        f = R.add(x, x)
        g = (a, b, c, e)
        return (f, g)

    known = [var.name_hint for var in A.computable_at_compile_time(main)]
    assert known == ["w", "v", "a", "b", "d", "e"]
    plain = main.without_attr("num_input")
    assert [var.name_hint for var in A.computable_at_compile_time(plain)] == []
