"""InjectSoftwarePipeline: what overlaps, how many versions it takes, and what is refused."""

from __future__ import annotations

import random

import pytest

from mlcnb.core.errors import PassError
from mlcnb.core.node import FrozenDict, Node, replace, rewrite
from mlcnb.script import parse
from mlcnb.tir import PrimFunc
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.structure import statements as every_statement
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform import InjectSoftwarePipeline, inject_software_pipeline
from mlcnb.tir.transform.inject_software_pipeline import ORDER, STAGE, parts_of
from tests.tir.schedule.programs import matmul
from tests.tir.schedule.random_steps import PROGRAMS
from tests.tir.transform.lowering import (
    before_pass,
    check,
    check_lowering,
    random_schedule,
    same_bits,
)

CHAIN = """
@T.prim_func
def chain(A: T.Buffer(({n}, 4), "float32"), E: T.Buffer(({n}, 4), "float32")):
    B = T.alloc_buffer(({n}, 4))
    D = T.alloc_buffer(({n}, 4))
    for i in T.serial({n}, annotations={{
        "software_pipeline_stage": {stages}, "software_pipeline_order": {order}{more}
    }}):
        for j in range(4):
            with T.block("B"):
                v, w = T.axis.remap("SS", [i, j])
                {mark}
                B[v, w] = A[v, w] * T.float32(2)
        for j in range(4):
            with T.block("D"):
                v, w = T.axis.remap("SS", [i, j])
                D[v, w] = B[v, 3 - w] + T.float32(1)
        for j in range(4):
            with T.block("E"):
                v, w = T.axis.remap("SS", [i, j])
                E[v, w] = D[v, 3 - w] + B[v, w]
"""


def chain(stages, order, n: int = 6, mark: str = "", more: str = "") -> PrimFunc:
    """Three statements, each needing the one before, the last one the first one too."""
    mark = mark or "T.block_attr({})"
    text = CHAIN.format(n=n, stages=list(stages), order=list(order), mark=mark, more=more)
    return parse(text)


def ready(func: PrimFunc) -> PrimFunc:
    """The function as the pass gets it."""
    return before_pass(func, "InjectSoftwarePipeline")


def on_a_thread(func: PrimFunc) -> PrimFunc:
    """The function on one thread of a GPU."""
    lines = str(func).splitlines()
    (start,) = [n for n, line in enumerate(lines) if line.lstrip().startswith("for i in")]
    loop = '    for tx in T.thread_binding(1, thread="threadIdx.x"):'
    return parse("\n".join([*lines[:start], loop, *("    " + line for line in lines[start:])]))


def versions(func: PrimFunc) -> dict[str, int]:
    """How many versions of each buffer the pipeline has."""
    after = inject_software_pipeline(ready(func))
    made = [n for n in every_statement(after.body) if isinstance(n, s.Block) and n.alloc_buffers]
    return {b.name: int(b.shape[0]) if b.ndim == 3 else 1 for n in made for b in n.alloc_buffers}


def test_loads_run_one_iteration_ahead():
    check(
        InjectSoftwarePipeline(),
        ready(chain([0, 0, 1], [0, 1, 2])),
        """
        with T.block("root"):
            T.reads()
            T.writes()
            with T.block(""):
                T.reads()
                T.writes()
                B = T.alloc_buffer((2, 1, 4))
                D = T.alloc_buffer((2, 1, 4))
                for j in range(4):
                    with T.block("B"):
                        T.reads(A[0, j])
                        T.writes(B[0, 0, j])
                        B[0, 0, j] = A[0, j] * T.float32(2.0)
                for j in range(4):
                    with T.block("D"):
                        T.reads(B[0, 0, 3 - j])
                        T.writes(D[0, 0, j])
                        D[0, 0, j] = B[0, 0, 3 - j] + T.float32(1.0)
                for i in range(5):
                    for j in range(4):
                        with T.block("B"):
                            T.reads(A[i + 1, j])
                            T.writes(B[(i + 1) % 2, 0, j])
                            B[(i + 1) % 2, 0, j] = A[i + 1, j] * T.float32(2.0)
                    for j in range(4):
                        with T.block("D"):
                            T.reads(B[(i + 1) % 2, 0, 3 - j])
                            T.writes(D[(i + 1) % 2, 0, j])
                            D[(i + 1) % 2, 0, j] = B[(i + 1) % 2, 0, 3 - j] + T.float32(1.0)
                    for j in range(4):
                        with T.block("E"):
                            T.reads(D[i % 2, 0, 3 - j], B[i % 2, 0, j])
                            T.writes(E[i, j])
                            E[i, j] = D[i % 2, 0, 3 - j] + B[i % 2, 0, j]
                for j in range(4):
                    with T.block("E"):
                        T.reads(D[1, 0, 3 - j], B[1, 0, j])
                        T.writes(E[5, j])
                        E[5, j] = D[1, 0, 3 - j] + B[1, 0, j]
        """,
    )


@pytest.mark.parametrize(
    ("stages", "order", "expected"),
    [
        ([0, 0, 0], [0, 1, 2], {"B": 1, "D": 1}),
        ([0, 0, 1], [0, 1, 2], {"B": 2, "D": 2}),
        ([0, 0, 1], [1, 2, 0], {"B": 1, "D": 1}),
        ([0, 1, 1], [0, 1, 2], {"B": 2, "D": 1}),
        ([0, 1, 2], [2, 1, 0], {"B": 2, "D": 1}),
        ([0, 1, 2], [0, 1, 2], {"B": 3, "D": 2}),
        ([0, 1, 3], [2, 0, 1], {"B": 3, "D": 3}),
    ],
)
@pytest.mark.parametrize("n", [1, 2, 6])
def test_a_buffer_has_as_many_versions_as_iterations_need_it(stages, order, expected, n):
    func = chain(stages, order, n)
    if n == 6:
        assert versions(func) == expected
    check_lowering(func, func)


def test_a_cpu_has_no_asynchronous_copies():
    func = chain([0, 1, 1], [0, 1, 2], more=', "software_pipeline_async_stages": [0]')
    assert versions(func) == {"B": 2, "D": 1}
    check_lowering(func, func)


def test_a_buffer_that_is_marked_has_two_versions():
    func = chain([0, 0, 1], [1, 2, 0], mark='T.block_attr({"double_buffer_scope": 0})')
    assert versions(func) == {"B": 2, "D": 1}
    check_lowering(func, func)


SYMBOLIC = """
@T.prim_func
def f(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    C = T.match_buffer(c, (n,))
    B = T.alloc_buffer((n,))
    for i in T.serial(n, annotations={
        "software_pipeline_stage": [0, 2], "software_pipeline_order": [0, 1]
    }):
        with T.block("B"):
            v = T.axis.spatial(n, i)
            B[v] = A[v] * T.float32(2)
        with T.block("C"):
            v = T.axis.spatial(n, i)
            C[v] = B[v] + T.float32(1)
"""


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
def test_a_loop_of_any_length(n):
    import numpy as np

    from mlcnb.codegen.interp import run_prim_func

    func = inject_software_pipeline(ready(parse(SYMBOLIC)))
    a, c = np.arange(n, dtype="float32"), np.full(n, np.nan, "float32")
    run_prim_func(func, [a, c])
    np.testing.assert_array_equal(c, a * 2 + 1)


@pytest.mark.parametrize(
    ("stages", "order", "more", "why", "hint"),
    [
        (
            [0, 1],
            [0, 1, 2],
            "",
            "has 2 entries in software_pipeline_stage for 3 statements",
            "one entry for each statement of the loop's body",
        ),
        (
            [0, 0, 1],
            [0, 1, 1],
            "",
            "has the order [0, 1, 1]",
            "each of 0 to 2 must be there once",
        ),
        ([0, -1, 1], [0, 1, 2], "", "has the stage -1", "stages count from 0"),
        (
            [1, 0, 1],
            [0, 1, 2],
            "",
            "has statement 0 in stage 1, but statement 1 in stage 0 depends on it through B",
            "a statement may not be in an earlier stage than what it depends on",
        ),
        (
            [0, 0, 1],
            [1, 0, 2],
            "",
            "has statement 1 before statement 0 of the same stage, on which it depends through B",
            "keep the order of statements that depend on each other in one stage",
        ),
        (
            [0, 0, 1],
            [0, 1, 2],
            ', "software_pipeline_async_stages": [2]',
            "has the stage 2 in software_pipeline_async_stages, where no statement is",
            "its stages are [0, 1]",
        ),
        (
            [0, 0, 1],
            [0, 1, 2],
            ', "software_pipeline_async_stages": [0]',
            "has statement 1 in the same stage as statement 0, whose copies are asynchronous and "
            "which it needs",
            "what needs asynchronous copies belongs to a later stage",
        ),
    ],
)
def test_annotations_that_do_not_fit(stages, order, more, why, hint):
    func = chain(stages, order, more=more)
    if "async" in more:  # which only a GPU has
        func = on_a_thread(func)
    with pytest.raises(PassError) as error:
        inject_software_pipeline(ready(func))
    assert error.value.message == f"InjectSoftwarePipeline: loop i {why}"
    assert error.value.hint == hint


def refuses(text: str, message: str, hint: str) -> None:
    """The pass refuses a function for this reason."""
    with pytest.raises(PassError) as error:
        inject_software_pipeline(parse(text))
    assert (error.value.message, error.value.hint) == (message, hint)


CARRIED = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in T.{kind}(8, annotations={{
        "software_pipeline_stage": [0, 1]{order}
    }}):
        {first}
        C[i] = B[i] + B[T.max(i - 1, 0)]
"""


def test_values_that_later_iterations_need():
    refuses(
        CARRIED.format(
            kind="serial", order=', "software_pipeline_order": [0, 1]', first="B[i] = A[i]"
        ),
        "InjectSoftwarePipeline: loop i hands values of B, which lives outside of it, to later "
        "iterations",
        "statements that touch B must be in one stage",
    )


def test_a_loop_without_an_order():
    refuses(
        CARRIED.format(kind="serial", order="", first="B[i] = A[i]"),
        "InjectSoftwarePipeline: loop i has no software_pipeline_order",
        "annotate it with software_pipeline_order too",
    )


def test_a_loop_that_is_not_serial():
    refuses(
        CARRIED.format(
            kind="parallel", order=', "software_pipeline_order": [0, 1]', first="B[i] = A[i]"
        ),
        "InjectSoftwarePipeline: loop i is parallel, not serial",
        "pipeline a serial loop",
    )


def test_calls_with_effects_stay_in_order():
    text = CARRIED.format(
        kind="serial",
        order=', "software_pipeline_order": [0, 1]',
        first='T.evaluate(T.call_extern("int32", "tick"))',
    ).replace("C[i] = B[i] + B[T.max(i - 1, 0)]", 'T.evaluate(T.call_extern("int32", "tock"))')
    refuses(
        text,
        "InjectSoftwarePipeline: loop i hands values of the rest of memory, which lives outside of "
        "it, to later iterations",
        "statements that touch the rest of memory must be in one stage",
    )


# random stages of random schedules


def random_pipeline(func: PrimFunc, rng: random.Random) -> PrimFunc:
    """A loop of several statements, or of one, with random annotations."""
    loops = [
        n
        for n in every_statement(func.body)
        if isinstance(n, s.For) and n.kind is s.ForKind.SERIAL and len(parts_of(n).stmts) > 1
    ]
    if not loops:
        return func
    chosen = rng.choice(loops)
    count = len(parts_of(chosen).stmts)
    order = rng.sample(range(count), count)
    marks = FrozenDict({STAGE: [rng.choice([0, 1, 2]) for _ in range(count)], ORDER: order})

    def rule(n: Node) -> Node | None:
        is_it = isinstance(n, s.For) and n.loop_var is chosen.loop_var
        return replace(n, annotations=marks) if is_it else None

    return func.with_body(rewrite(func.body, rule))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_random_stages_are_right_or_refused(name):
    for seed in range(4):
        rng = random.Random(f"{name} {seed}")
        func = ready(random_schedule(name, seed))
        for _ in range(6):
            marked = random_pipeline(func, rng)
            try:
                after = inject_software_pipeline(marked)
            except PassError:
                continue
            same_bits(func, after)


def test_a_pipeline_by_schedule():
    """Rows are fetched into a cache, one ahead of the product that uses them."""
    sch = Schedule(matmul(4, 6, 8))
    C = sch.get_block("C")
    i, j, k = sch.get_loops(C)
    sch.reorder(k, i, j)
    fetched = sch.cache_read(C, 1, "global")
    sch.compute_at(fetched, k)
    sch.annotate(k, STAGE, [0, 1])
    sch.annotate(k, ORDER, [0, 1])
    func = sch.mod["main"]
    assert sum(versions(func).values()) == 2
    check_lowering(matmul(4, 6, 8), func)
