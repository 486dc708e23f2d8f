"""TVM's schedule rules, postprocessors and mutators: whole programs before and after, and what they
compute."""

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import meta_schedule as ms
from mlcnb import te
from mlcnb.core.errors import MLCError
from mlcnb.core.registry import register_func
from mlcnb.meta_schedule import mutator, postproc
from mlcnb.meta_schedule import schedule_rule as rules
from mlcnb.meta_schedule.contest import arguments
from mlcnb.meta_schedule.testing import te_workload
from mlcnb.script import from_source
from mlcnb.tir.schedule import Schedule
from tests.printed import has_body

LLVM = "llvm -num-cores=2"
CUDA = "cuda -arch=sm_80"

MATMUL_RELU = te.create_prim_func(te_workload.matmul_relu(16, 32, 24))
MATMUL = te.create_prim_func(te_workload.matmul(16, 32, 24))


def scaled():
    """Two elementwise stages."""
    x = te.placeholder((64, 48), name="X")
    a = te.compute((64, 48), lambda i, j: x[i, j] + 1.0, name="A")
    return te.create_prim_func([x, te.compute((64, 48), lambda i, j: a[i, j] * 2.0, name="B")])


def summed():
    """Few results, many steps."""
    x = te.placeholder((4, 512), name="X")
    k = te.reduce_axis((0, 512), name="k")
    return te.create_prim_func([x, te.compute((4,), lambda i: te.sum(x[i, k], axis=k), name="S")])


def context(func, target=LLVM, *, sch_rules=(), postprocs=(), seed=1):
    space = ms.space_generator.PostOrderApply(
        sch_rules=list(sch_rules), postprocs=list(postprocs), mutator_probs=None
    )
    return ms.TuneContext(func, target=target, space_generator=space, rand_state=seed)


def apply(func, *sch_rules, target=LLVM):
    return context(func, target, sch_rules=sch_rules).generate_design_space()


def results(program, target="llvm"):
    args = arguments(program if not hasattr(program, "mod") else program.mod["main"])
    mlc.compile(getattr(program, "mod", program), target, schedule=None)(*args)
    return args


def same_results(func, sch, target="llvm"):
    for got, wanted in zip(results(sch, target), results(func), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def loops(sch, name):
    return [sch.get(x).loop_var.name for x in sch.get_loops(sch.get_block(name))]


def test_auto_inline_computes_where_it_is_read():
    (made,) = apply(scaled(), rules.AutoInline())
    has_body(
        made.mod["main"],
        """
    for i, j in T.grid(64, 48):
        with T.block("B"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            B[v_i, v_j] = (X[v_i, v_j] + T.float32(1)) * T.float32(2)
""",
    )
    same_results(scaled(), made)


def test_what_is_dear_or_turned_is_not_inlined():
    x = te.placeholder((8, 8), name="X")
    e = te.compute((8, 8), lambda i, j: te.exp(x[i, j]), name="E")
    k = te.reduce_axis((0, 8), name="k")
    s = te.compute((8,), lambda i: te.sum(e[i, k], axis=k), name="S")
    func = te.create_prim_func([x, s])
    (made,) = apply(func, rules.AutoInline())
    assert made.mod["main"] is context(func).fresh().mod["main"] or len(made.steps) == 1
    (made,) = apply(func, rules.AutoInline(disallow_op=None))
    assert [b for b in ("E", "S") if mlc.tir.schedule.analysis.has_block(made, b)] == ["S"]


def test_a_constant_goes_into_who_reads_it():
    func = from_source("""
@T.prim_func
def main(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
    c = T.alloc_buffer((1,), "float32")
    for i in range(1):
        with T.block("c"):
            vi = T.axis.spatial(1, i)
            c[vi] = T.float32(3)
    for i in range(8):
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            Y[vi] = X[vi] * c[0]
""")
    (made,) = apply(func, rules.InlineConstantScalars())
    has_body(
        made.mod["main"],
        """
    for i in range(8):
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            Y[vi] = X[vi] * T.float32(3)
""",
    )


def test_tiles_of_tiles_with_and_without_the_consumer_below():
    keep = rules.ReuseType("may", [1, 2], "global")
    plain, one, two = apply(
        MATMUL_RELU, rules.MultiLevelTiling("SSRSRS", None, 64, None, None, keep)
    )
    tiles = ["i_0", "j_0", "i_1", "j_1", "k_0", "i_2", "j_2", "k_1", "i_3", "j_3"]
    assert loops(plain, "C") == tiles
    assert loops(one, "compute")[:2] == tiles[:2]
    assert loops(two, "compute")[:4] == tiles[:4]
    for made in (plain, one, two):
        same_results(MATMUL_RELU, made)


def test_tiles_write_through_a_copy_where_there_is_no_consumer():
    must = rules.ReuseType("must", [2], "global")
    (made,) = apply(MATMUL, rules.MultiLevelTiling("SSRSRS", None, 8, None, None, must))
    assert loops(made, "C_global")[:4] == ["i_0", "j_0", "i_1", "j_1"]
    inner = [int(i.decision[-1]) for i in made.trace.decisions]
    assert max(inner) <= 8
    same_results(MATMUL, made)


def test_without_reuse_nothing_is_tiled():
    (made,) = apply(scaled(), rules.MultiLevelTiling())
    assert len(made.steps) == 1
    (made,) = apply(summed(), rules.MultiLevelTiling())
    assert len(made.steps) == 1


def test_sums_of_few_results_are_taken_in_parts():
    inner, outer, plain = apply(summed(), rules.AddRFactor())
    assert len(plain.steps) == 1
    for made in (inner, outer):
        assert mlc.tir.schedule.analysis.has_block(made, "S_rf")
        same_results(summed(), made)
    assert len(apply(MATMUL, rules.AddRFactor(max_jobs_per_core=1))) == 1


def test_notes_on_the_root_become_loops():
    (noted,) = apply(scaled(), rules.AutoInline(), rules.ParallelizeVectorizeUnroll(4, 16))
    root = noted.get(noted.get_block("root"))
    assert dict(root.annotations) == {"meta_schedule.parallel": 8, "meta_schedule.vectorize": 16}
    assert postproc.RewriteParallelVectorizeUnroll().apply(noted)
    has_body(
        noted.mod["main"],
        """
    for i in T.parallel(64):
        for j_0 in range(3):
            for j_1 in T.vectorized(16):
                with T.block("B"):
                    v_i = T.axis.spatial(64, i)
                    v_j = T.axis.spatial(48, j_0 * 16 + j_1)
                    B[v_i, v_j] = (X[v_i, v_j] + T.float32(1)) * T.float32(2)
""",
    )
    same_results(scaled(), noted)


def test_the_start_of_a_reduction_goes_before_its_steps():
    (made,) = apply(MATMUL)
    assert postproc.RewriteReductionBlock().apply(made)
    assert loops(made, "C_init") == ["i", "j"]
    assert loops(made, "C_update") == ["i", "j", "k"]
    same_results(MATMUL, made)


def test_a_block_moves_into_the_loops_of_its_consumer():
    found = set()
    for seed in range(1, 12):
        ctx = context(scaled(), sch_rules=[rules.RandomComputeLocation()], seed=seed)
        (made,) = ctx.generate_design_space()
        same_results(scaled(), made)
        found.add(int(next(iter(made.trace.decisions.values()))))
    assert len(found) >= 3


def test_a_rule_of_the_users_own_is_found_by_name():
    sch = Schedule(MATMUL)
    sch.annotate(sch.get_block("C"), "schedule_rule", "test_own_rule")
    func = sch.mod["main"]
    with pytest.raises(MLCError, match=r"no function 'meta_schedule\.cpu\.test_own_rule'"):
        apply(func, rules.ApplyCustomRule())

    def own(sch, block):
        i, _, _ = sch.get_loops(block)
        sch.split(i, [None, 4])
        return [sch]

    register_func("meta_schedule.cpu.test_own_rule", own, override=True)
    (made,) = apply(func, rules.ApplyCustomRule(), rules.MultiLevelTiling())
    assert loops(made, "C") == ["i_0", "i_1", "j", "k"]  # and no other rule saw it


def test_threads_share_a_sum_and_take_what_is_left():
    shared, plain = apply(summed(), rules.CrossThreadReduction(), target=CUDA)
    assert len(plain.steps) == 1
    assert postproc.RewriteUnboundBlock().apply(shared)
    tags = [shared.get(x).thread_binding for x in shared.get_loops(shared.get_block("S"))]
    assert tags[0] == "blockIdx.x"
    assert tags[-1] == "threadIdx.x"
    same_results(summed(), shared, "cuda-sim")


def test_a_thread_for_each_element():
    (made,) = apply(scaled(), rules.AutoInline(), rules.AutoBind(16, (32,)), target=CUDA)
    tags = [made.get(x).thread_binding for x in made.get_loops(made.get_block("B"))]
    assert tags == ["blockIdx.x", "threadIdx.x", None]
    assert postproc.VerifyGPUCode().apply(made)
    same_results(scaled(), made, "cuda-sim")
    small = postproc.VerifyGPUCode()
    small.initialize_with_tune_context(context(scaled(), f"{CUDA} -max_threads_per_block=16"))
    assert not small.apply(made)


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_default_rules_of_cuda_compute_the_same(seed):
    ctx = ms.TuneContext(
        te.create_prim_func(te_workload.matmul_relu(32, 32, 32)),
        target="cuda",
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=seed,
    )
    ctx.pre_tuning(2, 2)
    found = ctx.generate_measure_candidates()
    assert found
    for one in found:
        assert "T.thread_binding" in one.sch.mod.script()
        same_results(ctx.workload.func, one.sch, "cuda-sim")


def test_open_loops_are_given_up():
    func = from_source("""
@T.prim_func
def main(x: T.handle):
    n = T.int32()
    X = T.match_buffer(x, (n,), "float32")
    for i in range(n):
        with T.block("X"):
            vi = T.axis.spatial(n, i)
            X[vi] = T.float32(1)
""")
    assert not postproc.DisallowDynamicLoop().apply(Schedule(func))
    assert postproc.DisallowDynamicLoop().apply(Schedule(MATMUL))


def test_asynchronous_copies_run_along_memory():
    def copied(turned):
        x = te.placeholder((8, 8), name="X")
        y = te.compute((8, 8), lambda i, j: x[j, i] if turned else x[i, j], name="Y")
        sch = Schedule(te.create_prim_func([x, y]))
        sch.annotate(sch.get_block("Y"), "async_scope", 1)
        return sch

    assert postproc.DisallowAsyncStridedMemCopy().apply(copied(False))
    assert not postproc.DisallowAsyncStridedMemCopy().apply(copied(True))


def test_weights_are_laid_out_in_the_order_of_the_loops():
    func = MATMUL.with_attr("layout_free_buffers", [1])
    (made,) = apply(func, rules.MultiLevelTiling("SSRSRS", None, 8))
    assert postproc.RewriteLayout().apply(made)
    copy = made.get(made.get_block("B_global"))
    assert copy.annotations["meta_schedule.layout_rewrite_preproc"]
    assert len(copy.writes[0].buffer.shape) > 2
    same_results(MATMUL, made)


def tiled(seed=3):
    ctx = context(
        MATMUL,
        sch_rules=[rules.MultiLevelTiling(), rules.ParallelizeVectorizeUnroll(16, 16, (0, 16))],
        seed=seed,
    )
    (made,) = ctx.generate_design_space()
    return made.trace


def changed(before, after):
    old, new = list(before.decisions.values()), list(after.decisions.values())
    return [(a, b) for a, b in zip(old, new, strict=True) if a != b]


def test_a_factor_moves_between_tiles():
    trace = tiled()
    for seed in range(8):
        after = mutator.MutateTileSize().apply(trace, np.random.default_rng(seed))
        ((old, new),) = changed(trace, after)
        assert np.prod(list(map(int, old))) == np.prod(list(map(int, new)))
        assert sum(a != b for a, b in zip(old, new, strict=True)) == 2
    again = [
        mutator.MutateTileSize().apply(trace, np.random.default_rng(7)).decisions for _ in range(2)
    ]
    assert [*again[0].values()] == [*again[1].values()]


def test_unrolling_and_tasks_change():
    trace = tiled()
    after = mutator.MutateUnroll().apply(trace, np.random.default_rng(0))
    assert len(changed(trace, after)) == 1
    after = mutator.MutateParallel(16).apply(trace, np.random.default_rng(0))
    assert changed(trace, after) == []
    assert [i.arguments["ann_val"] for i in after if "parallel" in str(i.arguments)] != [
        i.arguments["ann_val"] for i in trace if "parallel" in str(i.arguments)
    ]
    assert mutator.MutateThreadBinding().apply(trace, np.random.default_rng(0)) is None
    assert mutator.MutateComputeLocation().apply(trace, np.random.default_rng(0)) is None


def test_threads_and_places_change():
    (bound,) = apply(scaled(), rules.AutoInline(), rules.AutoBind(), target=CUDA)
    after = mutator.MutateThreadBinding().apply(bound.trace, np.random.default_rng(0))
    assert len(changed(bound.trace, after)) == 1
    (moved,) = apply(scaled(), rules.RandomComputeLocation())
    after = mutator.MutateComputeLocation().apply(moved.trace, np.random.default_rng(0))
    assert len(changed(moved.trace, after)) == 1


@pytest.mark.parametrize("kind", ["llvm", "avx2", "avx512", "vnni", "cuda", "cuda-tensorcore"])
def test_every_set_has_its_parts(kind):
    assert rules.ApplyCustomRule in {type(r) for r in ms.defaults.default_rules(kind)}
    assert ms.defaults.default_postprocs(kind)
    assert sum(ms.defaults.default_mutators(kind).values()) == pytest.approx(1.0)
    assert ms.defaults.kind_of_target(kind) == kind


def test_sets_by_target():
    assert ms.defaults.kind_of_target("cuda -arch=sm_80") == "cuda-tensorcore"
    assert ms.defaults.kind_of_target("llvm -mcpu=haswell") == "avx2"
    assert ms.defaults.kind_of_target("llvm -mcpu=icelake-server") == "vnni"
