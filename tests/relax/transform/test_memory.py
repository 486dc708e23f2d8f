"""The memory plan, and the passes that make memory explicit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError, PassError
from mlcnb.ir import assert_structural_equal
from mlcnb.ir.memory import ALIGNMENT
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import Sequential
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.analysis.memory_lives import ARENA, PlannedTensor
from mlcnb.relax.analysis.memory_plan import assign_offsets, reads_where_it_writes
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.relax.transform import (
    AttachGlobalSymbol,
    CallTIRRewrite,
    ConvertToDataflow,
    KillAfterLastUse,
    LegalizeOps,
    RemovePurityChecking,
    StaticPlanBlockMemory,
    ToNonDataflow,
    plan_memory,
)
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import evaluate
from mlcnb.tir.transform.overlap_tiles import PRAGMA
from tests.relax.harness import as_module, check_pass, same_numbers

LOWER = Sequential([LegalizeOps(), ToNonDataflow(), RemovePurityChecking(), CallTIRRewrite()])


def chain(length: int, *shape: int, kind=op.exp) -> IRModule:
    bb = BlockBuilder()
    x = Var("x", tensor_info(shape, "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = x
            for _ in range(length - 1):
                y = bb.emit(kind(y))
            gv = bb.emit_output(kind(y))
        bb.emit_func_output(gv)
    return bb.get()


# the plan ----------------------------------------------------------------------------------------


def test_lives_and_places_of_a_chain() -> None:
    mod = chain(4, 16, kind=lambda x: op.permute_dims(op.reshape(x, (4, 4)), axes=[1, 0]))
    plan = plan_memory(mod["main"], in_place=False)
    found = {t.name: (t.kind, t.first, t.last, t.offset) for t in plan.tensors}
    assert found["x"][0] == "param" and found["gv"][0] == "output"
    names = [t.name for t in plan.tensors if t.kind == ARENA]
    assert names == ["lv1", "lv3", "lv5"]  # lv, lv2, lv4 are views
    assert [found[n][3] for n in names] == [0, 64, 0]
    assert (plan.arena_bytes, plan.total_bytes, plan.steps) == (128, 192, 8)
    assert [t.name for t in plan.alive(3)] == ["lv1", "lv3"]


def test_elementwise_results_take_over_places() -> None:
    mod = LegalizeOps()(chain(5, 100))
    plan = plan_memory(mod["main"], mod.functions)
    assert plan.arena_bytes == 448 and plan.total_bytes == 4 * 448
    lv1 = plan.place(mod["main"].body.bindings[1].var)
    assert lv1.shares.name == "lv" and lv1.root.name == "lv" and lv1.offset == 0
    apart = plan_memory(mod["main"], mod.functions, in_place=False)
    assert apart.arena_bytes == 2 * 448
    assert "lv1" in repr(plan) and "in place of lv" in repr(plan)
    with pytest.raises(PassError, match="the memory plan has no tensor 'other'"):
        plan.place(Var("other"))


def test_an_operand_that_is_read_again_keeps_its_place() -> None:
    @R.function
    def before(x: R.Tensor((64,), "float32")):
        a = R.exp(x)
        b = R.exp(a)
        c = R.add(b, b)
        d = R.add(a, c)
        e = R.exp(d)
        return e

    mod = LegalizeOps()(as_module(before))
    plan = plan_memory(mod["main"], mod.functions)
    places = {t.name: t for t in plan.tensors}
    assert places["b"].shares is None
    assert places["c"].shares is None  # both operands are b
    assert places["d"].shares.name in ("a", "c")


def test_tuples_views_and_outputs() -> None:
    @R.function
    def before(x: R.Tensor((4, 8), "float32")):
        parts = R.split(x, 2, axis=0)
        a = parts[0]
        b = R.reshape(a, R.shape([16]))
        c = R.exp(b)
        t = (c, a)
        d = t[0]
        e = R.reshape(d, R.shape([4, 4]))
        return (e, x)

    func = as_module(before)["main"]
    plan = plan_memory(func)
    bindings = {b.var.name_hint: b.var for b in func.body.bindings}
    assert plan.place(bindings["b"]) is plan.place(bindings["parts"], 0)
    assert plan.place(bindings["e"]) is plan.place(bindings["c"])
    assert plan.place(bindings["c"]).kind == "output"
    assert plan.place(func.params[0]).kind == "param"
    assert [t.name for t in plan.tensors if t.kind == ARENA] == ["parts.0", "parts.1"]


def test_symbolic_sizes_are_planned_for_given_numbers() -> None:
    @R.function
    def before(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        a = R.exp(x)
        b = R.exp(a)
        c = R.exp(b)
        return c

    func = as_module(before)["main"]
    n = func.params[0].struct_info.dims[0]
    unknown = plan_memory(func)
    assert unknown.arena_bytes == 0 and {t.kind for t in unknown.tensors} == {
        "param",
        "dynamic",
        "output",
    }
    assert plan_memory(func, dims={n: 8}).arena_bytes == 2 * 128
    assert plan_memory(func, dims={n: 100}).arena_bytes == 2 * 1600


def test_what_happens_in_branches_is_left_to_run_time() -> None:
    @R.function
    def before(x: R.Tensor((16,), "float32"), c: R.Tensor((), "bool")):
        a = R.exp(x)
        if c:
            b = R.exp(a)
            z = R.exp(b)
        else:
            z = a
        w = R.exp(z)
        return w

    plan = plan_memory(as_module(before)["main"])
    places = {t.name: t for t in plan.tensors}
    assert places["a"].last == 1 and "b" not in places


@given(
    st.lists(
        st.tuples(st.integers(1, 500), st.integers(0, 20), st.integers(0, 8)),
        min_size=1,
        max_size=25,
    )
)
@settings(max_examples=150, deadline=None)
def test_no_two_living_tensors_overlap(spec: list[tuple[int, int, int]]) -> None:
    tensors = [
        PlannedTensor(f"t{i}", None, ARENA, size * ALIGNMENT, first, first + life)
        for i, (size, first, life) in enumerate(spec)
    ]
    end = assign_offsets(tensors)
    for i, a in enumerate(tensors):
        assert a.offset >= 0 and a.offset % ALIGNMENT == 0 and a.offset + a.nbytes <= end
        for b in tensors[:i]:
            if a.lives_with(b):
                assert a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
    steps = range(max(t.last for t in tensors) + 1)
    peak = max(sum(t.nbytes for t in tensors if t.first <= s <= t.last) for s in steps)
    assert peak <= end <= sum(t.nbytes for t in tensors)


@T.prim_func(private=True)
def reverse(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[7 - vi]


@T.prim_func(private=True)
def two_steps(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    C = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = C[7 - vi]


def test_only_elementwise_functions_work_in_place() -> None:
    add = LegalizeOps()(chain(1, 8, kind=lambda x: op.add(x, x)))["add"]
    assert reads_where_it_writes(add, 0) and reads_where_it_writes(add, 1)
    assert not reads_where_it_writes(reverse, 0)
    assert not reads_where_it_writes(two_steps, 0)


@T.prim_func(private=True)
def open_rows(a: T.handle, b: T.handle):
    m = T.int64()
    n = T.int64()
    A = T.match_buffer(a, (m, n))
    B = T.match_buffer(b, (m, n))
    for i, j in T.grid(m, n):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func(private=True)
def open_batch(a: T.handle, b: T.handle):
    m = T.int64()
    A = T.match_buffer(a, (m, 40))
    B = T.match_buffer(b, (m, 40))
    for i, j in T.grid(m, 40):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


def test_no_row_of_open_length_is_written_over() -> None:
    """Its last tile begins early, and would read what the tile before it wrote."""
    target = mlc.target.Target("llvm")
    for func, begins_early in ((open_rows, True), (open_batch, False)):
        assert reads_where_it_writes(func, 0) is not begins_early
        made = mlc.dlight.cpu.schedule_cpu(func, target).mod.script()
        assert (PRAGMA in made) is begins_early


# the passes --------------------------------------------------------------------------------------


@I.ir_module
class Chain:
    @T.prim_func(private=True)
    def relu(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("y"):
                vi = T.axis.spatial(4, i)
                y[vi] = T.max(x[vi], T.float32(0))

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"global_symbol": "main"})
        cls = Chain
        with R.dataflow():
            lv = R.call_tir(cls.relu, (x,), out_sinfo=R.Tensor((4,), "float32"))
            lv1 = R.call_tir(cls.relu, (lv,), out_sinfo=R.Tensor((4,), "float32"))
            gv = R.call_tir(cls.relu, (lv1,), out_sinfo=R.Tensor((4,), "float32"))
            R.output(gv)
        return gv


def test_dataflow_blocks_come_and_go() -> None:
    plain = check_pass(ToNonDataflow(), Chain)
    assert [type(b).__name__ for b in plain["main"].body.blocks] == ["BindingBlock"]
    names = [b.var.name_hint for b in plain["main"].body.bindings]
    assert names == ["lv", "lv1", "gv"]
    assert_structural_equal(check_pass(ConvertToDataflow(), plain), Chain)
    assert ConvertToDataflow(min_size=4)(plain) is plain


def test_runs_are_cut_by_effects_and_branches() -> None:
    @R.function(pure=False)
    def before(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        a = R.exp(x)
        b = R.exp(a)
        p = R.call_packed("test.memory", b, sinfo_args=(R.Tuple,))
        d = R.exp(b)
        if c:
            e = R.exp(d)
            f = R.exp(e)
            z = R.exp(f)
        else:
            z = d
        g = R.exp(z)
        h = R.exp(g)
        return h

    got = check_pass(ConvertToDataflow(), before, args=False)
    kinds = [type(b).__name__ for b in got["main"].body.blocks]
    assert kinds == ["DataflowBlock", "BindingBlock", "DataflowBlock"]
    branch = got["main"].body.blocks[1].bindings[-1].value.true_branch
    assert type(branch.blocks[0]).__name__ == "DataflowBlock"
    back = check_pass(ToNonDataflow(), got, args=False)
    assert_structural_equal(back, as_module(before))


def test_results_are_allocated() -> None:
    @I.ir_module
    class After:
        @T.prim_func(private=True)
        def relu(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("y"):
                    vi = T.axis.spatial(4, i)
                    y[vi] = T.max(x[vi], T.float32(0))

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            R.func_attr({"global_symbol": "main", "relax.force_pure": True})
            cls = After
            alloc: R.Tensor((4,), "float32") = R.builtin.alloc_tensor(
                R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global")
            )
            _: R.Tuple = cls.relu(x, alloc)
            alloc1: R.Tensor((4,), "float32") = R.builtin.alloc_tensor(
                R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global")
            )
            _1: R.Tuple = cls.relu(alloc, alloc1)
            alloc2: R.Tensor((4,), "float32") = R.builtin.alloc_tensor(
                R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global")
            )
            _2: R.Tuple = cls.relu(alloc1, alloc2)
            return alloc2

    plain = Sequential([ToNonDataflow(), RemovePurityChecking()])(Chain)
    check_pass(CallTIRRewrite(), plain, After)
    with pytest.raises(PassError) as caught:
        CallTIRRewrite()(Chain)
    assert caught.value.message == (
        "CallTIRRewrite: a call_tir stands in a dataflow block, where nothing may be written to"
    )
    assert caught.value.hint == "run ToNonDataflow before"


def test_tensors_share_one_storage_and_are_killed() -> None:
    lowered = LOWER(Chain)
    planned = check_pass(StaticPlanBlockMemory(), lowered)
    bindings = planned["main"].body.bindings
    calls = [b.value.op.name for b in bindings if hasattr(b.value.op, "name")]
    assert calls == [
        "relax.memory.alloc_storage",
        "relax.memory.alloc_tensor",
        "relax.memory.alloc_storage",
        "relax.memory.alloc_tensor",
        "relax.builtin.alloc_tensor",
    ]
    assert int(bindings[0].value.args[0].values[0]) == 16
    killed = check_pass(KillAfterLastUse(), planned)
    texts = [line.strip().split(" = ")[-1] for line in killed["main"].script().splitlines()]
    kills = [t for t in texts if "kill" in t]
    assert kills == [
        "R.memory.kill_tensor(alloc)",
        "R.memory.kill_storage(storage)",
        "R.memory.kill_tensor(alloc1)",
        "R.memory.kill_storage(storage1)",
    ]
    same_numbers(Chain, killed)


def test_without_a_plan_tensors_are_killed_one_by_one() -> None:
    killed = KillAfterLastUse()(LOWER(Chain))
    names = [getattr(b.value.op, "name", b.value.op) for b in killed["main"].body.bindings]
    assert names.count("relax.memory.kill_tensor") == 2
    same_numbers(Chain, killed)


def test_in_place_calls_and_several_results() -> None:
    @I.ir_module
    class Mod:
        @T.prim_func(private=True)
        def both(
            x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32"), z: T.Buffer((4,), "float32")
        ):
            for i in range(4):
                with T.block("y"):
                    vi = T.axis.spatial(4, i)
                    y[vi] = x[vi] + T.float32(1)
                with T.block("z"):
                    vi = T.axis.spatial(4, i)
                    z[vi] = x[vi] * T.float32(2)

        @T.prim_func(private=True)
        def increase(x: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("x"):
                    vi = T.axis.spatial(4, i)
                    x[vi] = x[vi] + T.float32(1)

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            R.func_attr({"global_symbol": "main"})
            cls = Mod
            t = R.call_tir(
                cls.both, (x,), out_sinfo=[R.Tensor((4,), "float32"), R.Tensor((4,), "float32")]
            )
            a = t[0]
            b = t[1]
            c = R.call_tir_inplace(
                cls.increase, (b,), out_sinfo=R.Tensor((4,), "float32"), inplace_indices=[0]
            )
            return (a, c)

    got = check_pass(CallTIRRewrite(), RemovePurityChecking()(Mod))
    x = np.arange(4, dtype=np.float32)
    a, c = evaluate(got, x)
    np.testing.assert_array_equal(a, x + 1)
    np.testing.assert_array_equal(c, 2 * x + 1)


def test_linkage_names() -> None:
    got = check_pass(AttachGlobalSymbol(), Chain)
    assert got["relu"].attrs["global_symbol"] == "relu"
    assert got["main"] is Chain["main"]


def test_unknown_sizes_cannot_be_allocated() -> None:
    @R.function
    def before(x: R.Tensor((4,), "float32")):
        y = R.call_dps_packed("test.any", (x,), out_sinfo=R.Tensor(dtype="float32", ndim=1))
        return y

    with pytest.raises(PassError) as caught:
        CallTIRRewrite()(as_module(before))
    assert caught.value.message == (
        "CallTIRRewrite: a result of unknown shape or dtype cannot be allocated"
    )


def storages(mod: IRModule, name: str = "main") -> list[str]:
    """The storages that a function allocates, and in which its tensors lie."""
    lines = [line.strip() for line in StaticPlanBlockMemory()(mod)[name].script().splitlines()]
    made = [line.partition("alloc_storage(")[2].partition(", R.prim")[0] for line in lines]
    where = [line.partition("memory.alloc_tensor(")[2].partition(",")[0] for line in lines]
    return [m or w for m, w in zip(made, where, strict=True) if m or w]


@I.ir_module
class Planned:
    @T.prim_func(private=True)
    def relu(x: T.handle, y: T.handle):
        T.evaluate(0)

    @R.function(pure=False)
    def sizes(x: R.Tensor((2, 4), "float32")):
        cls = Planned
        a = R.builtin.alloc_tensor(R.shape([2, 4]), "float32", 0)
        _ = cls.relu(x, a)
        b = R.builtin.alloc_tensor(R.shape([8]), "float16", 0)
        _1 = cls.relu(x, b)
        c = R.builtin.alloc_tensor(R.shape([3]), "float32", 0)
        _2 = cls.relu(x, c)
        d = R.builtin.alloc_tensor(R.shape([100]), "float32", 0)
        _3 = cls.relu(x, d)
        e = R.builtin.alloc_tensor(R.shape([10000]), "float32", 0)
        _4 = cls.relu(x, e)
        return x

    @R.function(pure=False)
    def views(x: R.Tensor((2, 4), "float32")):
        cls = Planned
        a = R.builtin.alloc_tensor(R.shape([2, 4]), "float32", 0)
        v = R.reshape(a, (8,))
        t = (v, (x, a))
        b = R.builtin.alloc_tensor(R.shape([8]), "float32", 0)
        u = t[1]
        w = u[1]
        _ = cls.relu(w, b)
        c = R.builtin.alloc_tensor(R.shape([8]), "float32", 0)
        _1 = cls.relu(b, c)
        return x

    @R.function(pure=False)
    def kept(x: R.Tensor((8,), "float32"), k: R.Tensor((), "bool")):
        cls = Planned
        a = R.builtin.alloc_tensor(R.shape([8]), "float32", 0)
        b = R.builtin.alloc_tensor(R.shape([8]), "float32", 0)
        c = R.builtin.alloc_tensor(R.shape([8]), "float32", 0)
        held = R.call_packed("test.keeps", b, sinfo_args=R.Tensor((8,), "float32"))
        _ = R.call_packed("test.reads", c, sinfo_args=R.Tuple())
        if k:
            _1 = cls.relu(x, a)
            y = x
        else:
            d = R.builtin.alloc_tensor(R.shape([8]), "float32", 0)
            _2 = cls.relu(x, d)
            y = x
        return (y, held)

    @R.function(pure=False)
    def open_sizes(x: R.Tensor(("m", "n"), "float32")):
        m = T.int64()
        n = T.int64()
        cls = Planned
        a = R.builtin.alloc_tensor(R.shape([m, n]), "float32", 0)
        _ = cls.relu(x, a)
        b = R.builtin.alloc_tensor(R.shape([m + 1, n]), "float32", 0)
        _1 = cls.relu(x, b)
        c = R.builtin.alloc_tensor(R.shape([n * m]), "float32", 0)
        _2 = cls.relu(x, c)
        return x


def test_storages_are_taken_again_for_the_same_dtype_and_a_size_that_is_near() -> None:
    assert storages(Planned, "sizes") == [
        "R.shape([400])", "storage", "R.shape([16])", "storage1", "storage", "storage",
        "R.shape([40000])", "storage2",
    ]  # fmt: skip


def test_views_and_fields_of_tuples_hold_a_storage() -> None:
    found = ["R.shape([32])", "storage", "R.shape([32])", "storage1", "storage"]
    assert storages(Planned, "views") == found


def test_what_others_may_keep_or_another_block_uses_has_memory_of_its_own() -> None:
    assert storages(Planned, "kept") == ["R.shape([32])", "storage", "R.shape([32])", "storage1"]
    text = StaticPlanBlockMemory()(Planned)["kept"].script()
    assert 'a: R.Tensor((8,), dtype="float32") = R.builtin.alloc_tensor(' in text
    assert 'b: R.Tensor((8,), dtype="float32") = R.builtin.alloc_tensor(' in text


def test_open_sizes_share_what_is_surely_as_large() -> None:
    assert storages(Planned, "open_sizes") == [
        "R.shape([4 * (m * n)])", "storage", "R.shape([4 * ((m + 1) * n)])", "storage1", "storage",
    ]  # fmt: skip


def test_bounds_of_sizes_are_reserved_and_a_run_that_needs_more_ends() -> None:
    func = Planned["open_sizes"].with_attr("tir_var_upper_bound", {"m": 4, "n": 5})
    func = func.with_attr("global_symbol", "main")
    mod = IRModule({"main": func, "relu": Planned["relu"]})
    found = storages(mod)
    assert found == ["R.shape([100])", "storage", "storage", "storage"]

    @I.ir_module
    class Bounded:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32")):
            R.func_attr({"tir_var_upper_bound": {"n": 4}})
            n = T.int64()
            a = R.builtin.alloc_tensor(R.shape([n]), "float32", 0)
            return x

    planned = StaticPlanBlockMemory()(Bounded)
    evaluate(planned, np.zeros(4, np.float32))
    with pytest.raises(ExecutionError, match="20 bytes from 0 on do not lie in the 16 of the"):
        evaluate(planned, np.zeros(5, np.float32))


def test_a_bound_of_a_size_is_one_integer():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, "n"), "float32")):
            R.func_attr({"tir_var_upper_bound": {"n": [4]}})
            return x

    with pytest.raises(PassError) as caught:
        StaticPlanBlockMemory()(Module)
    assert str(caught.value) == (
        "StaticPlanBlockMemory: tir_var_upper_bound of n is (4,)\n"
        'hint: one integer a size: R.func_attr({"tir_var_upper_bound": {"n": 4}})'
    )
