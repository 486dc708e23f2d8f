"""A module edited in place: what this object names changes, and nothing that was made of it."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb import relax
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T


def module() -> tvm.IRModule:
    @I.ir_module
    class Module:
        @T.prim_func
        def one(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(4, i)
                    B[vi] = A[vi] + T.float32(1)

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            gv = R.call_tir(Module.one, (x,), out_sinfo=R.Tensor((4,), "float32"))
            return gv

    return Module


@T.prim_func
def two(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] + T.float32(2)


X = np.arange(4, dtype="float32")


def test_functions_are_put_added_and_taken_away():
    mod = module()
    old = mod["one"]
    gv = mod.get_global_var("one")
    mod.update_func(gv, two.with_attr("global_symbol", "one"))
    mod["again"] = mod["one"]
    assert [v.name_hint for v in mod] == ["one", "main", "again"]
    assert mod["one"] is mod["again"] and mod[gv] is not old
    del mod["again"]
    assert "again" not in mod
    other = module()
    mod.update(other)
    assert mod["one"] is other["one"]
    mod.update({"main": mod["main"]})
    np.testing.assert_array_equal(tvm.compile(mod)(X), X + 1)


def test_what_is_no_function_is_refused_and_nothing_changes():
    mod = module()
    before = mod.functions
    with pytest.raises(tvm.MLCError) as error:
        mod["one"] = 3
    assert str(error.value) == (
        "'one' is to become an int\n"
        "hint: a module holds functions: relax.Function, tir.PrimFunc, relax.ExternFunc"
    )
    assert mod.functions is before


def test_a_compiled_module_stays_what_it_was():
    mod = module()
    ex = tvm.compile(mod, relax_pipeline=None, schedule=None)
    mod["one"] = two.with_attr("global_symbol", "one")
    np.testing.assert_array_equal(ex(X), X + 1)
    np.testing.assert_array_equal(tvm.compile(mod)(X), X + 2)
    assert ex.mod["one"] is not mod["one"]


def test_a_trace_keeps_its_steps():
    mod = module()
    run = tvm.transform.trace([relax.transform.DeadCodeElimination(["main"])], mod)
    assert run[0].before is mod
    text = mod.script()
    mod["one"] = two.with_attr("global_symbol", "one")
    assert run[0].before is not mod and run[0].before.script() == text
    assert not run[0].changed and run.result is run[0].before
    assert mod.script() != text


def test_a_schedule_keeps_its_history():
    mod = module()
    sch = tvm.tir.Schedule(mod)
    sch.work_on("one")
    text = sch.mod.script()
    (i,) = sch.get_loops(sch.get_block("B"))
    sch.split(i, [2, 2])
    mod["one"] = two.with_attr("global_symbol", "one")
    later = sch.mod.script()
    sch.mod["one"] = two.with_attr("global_symbol", "one")
    assert sch.mod.script() == later
    sch.undo()
    assert sch.mod.script() == text


def test_a_pass_of_ones_own_may_edit_what_it_is_given():
    mod = module()
    given = []

    @tvm.transform.module_pass(opt_level=0, name="Two")
    class Two:
        def transform_module(self, mod, ctx):
            given.append(mod)
            mod["one"] = two.with_attr("global_symbol", "one")
            return mod

    @tvm.transform.module_pass(opt_level=0)
    def idle(mod, ctx):
        return mod

    text = mod.script()
    made = Two()(mod)
    assert mod.script() == text and made is given[0] and made["one"] is not mod["one"]
    assert idle(mod) is mod


def test_copies_and_attributes():
    mod = module().with_attr({"a": 1, "b": 2})
    copy = mod.clone()
    copy["one"] = two.with_attr("global_symbol", "one")
    assert mod["one"] is not copy["one"] and mod["main"] is copy["main"]
    assert (mod.get_attr("a"), mod.get_attr("c")) == (1, None)
    assert dict(mod.without_attr("a").with_attrs({"c": 3}).attrs) == {"b": 2, "c": 3}
    assert dict(mod["main"].with_attrs({"k": 1}).attrs)["k"] == 1
    mod.update_global_info("vdevice", [tvm.ir.VDevice("llvm")])
    assert mod.global_infos["vdevice"] == (tvm.ir.VDevice("llvm"),)
    assert "vdevice" not in copy.global_infos


def test_functions_of_one_class():
    mod = module()
    assert mod.of_kind(tvm.tir.PrimFunc) == {mod.get_global_var("one"): mod["one"]}
    assert [*mod.of_kind(relax.Function)] == [mod.get_global_var("main")]
    assert mod.of_kind(relax.ExternFunc) == {}
