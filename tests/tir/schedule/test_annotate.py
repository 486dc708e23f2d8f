"""annotate, unannotate: marks on loops and blocks, in text and trace, and kept by other steps."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import ScheduleError
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import becomes, elementwise, matmul, refuses, replays, text


def test_loop_and_block():
    sch = Schedule(matmul(2, 2, 4))
    C, (i, _j, k) = sch.get_block("C"), sch.get_loops("C")
    sch.annotate(k, "pragma_auto_unroll_max_step", 16)
    sch.annotate(C, "schedule_rule", "tile")
    becomes(
        sch,
        """
        for i, j in T.grid(2, 2):
            for k in T.serial(4, annotations={"pragma_auto_unroll_max_step": 16}):
                with T.block("C"):
                    v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                    T.block_attr({"schedule_rule": "tile"})
                    with T.init():
                        C[v_i, v_j] = T.float32(0.0)
                    C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


@pytest.mark.parametrize(
    "value", [1, 2.5, True, "text", 'with "quotes"', [1, 2], ["a", [1]], {"k": [1]}]
)
def test_values_come_back_from_the_trace(value):
    sch = Schedule(elementwise(4))
    sch.annotate(sch.get_loops("B")[0], "key", value)
    sch.annotate("C", "key", value)
    replays(sch)


@pytest.mark.parametrize("value", [object(), {1, 2}, [1, {"k": b"bytes"}], {"k": len}])
def test_values_that_no_program_can_hold(value):
    sch = Schedule(elementwise(4))
    part = value[1]["k"] if isinstance(value, list) else len if isinstance(value, dict) else value
    with refuses(
        sch,
        f"annotate: block B cannot hold a value of type {type(part).__name__}",
        hint="keys are text; values text, numbers, expressions, and lists and dicts of these",
    ):
        sch.annotate("B", "key", value)


def test_software_pipeline():
    sch = Schedule(matmul(4, 4, 8))
    C, (i, j, k) = sch.get_block("C"), sch.get_loops("C")
    k_0, _ = sch.split(k, [4, 2])
    sch.reorder(k_0, i, j)
    for n in (0, 1):
        copy = sch.cache_read(C, n, "shared")
        sch.compute_at(copy, k_0)
        sch.annotate(copy, "double_buffer_scope", 0)
    sch.annotate(k_0, "software_pipeline_stage", [0, 0, 1])
    sch.annotate(k_0, "software_pipeline_order", [0, 1, 2])
    sch.annotate(k_0, "software_pipeline_async_stages", [0])
    first = text(sch).splitlines()[2:5]
    assert first[0].startswith("for k_0 in T.serial(4, annotations={")
    for key, value in (
        ("software_pipeline_stage", "[0, 0, 1]"),
        ("software_pipeline_order", "[0, 1, 2]"),
        ("software_pipeline_async_stages", "[0]"),
    ):
        assert f'"{key}": {value}' in first[0]
    replays(sch)


def test_drawn_numbers_are_kept_as_numbers():
    sch = Schedule(elementwise(4))
    (i,) = sch.get_loops("B")
    drawn = sch.sample_categorical([16, 64], [0.0, 1.0])
    sch.annotate(i, "steps", drawn)
    assert sch.get(i).annotations["steps"] == 64
    replays(sch)


def test_annotating_again_replaces():
    sch = Schedule(elementwise(4))
    (i,) = sch.get_loops("B")
    sch.annotate(i, "key", 1)
    sch.annotate(i, "key", 2)
    assert dict(sch.get(i).annotations) == {"key": 2}
    replays(sch)


def test_unannotate():
    sch = Schedule(elementwise(4))
    (i,), B = sch.get_loops("B"), sch.get_block("B")
    before = text(sch)
    with refuses(sch, "unannotate: block B has no annotation 'key'", hint="it has none"):
        sch.unannotate(B, "key")
    sch.annotate(B, "key", 1)
    sch.annotate(i, "other", 1)
    with refuses(sch, "unannotate: block B has no annotation 'other'", hint="it has key"):
        sch.unannotate(B, "other")
    sch.unannotate(B, "key")
    sch.unannotate(i, "other")
    assert text(sch) == before
    replays(sch)


def test_marks_stay_where_blocks_move():
    sch = Schedule(elementwise(8))
    sch.annotate("B", "key", 1)
    sch.compute_at("B", sch.get_loops("C")[0])
    assert dict(sch.get(sch.get_block("B")).annotations) == {"key": 1}
    sch.unroll(sch.get_loops("C")[0])
    replays(sch)


@pytest.mark.parametrize("mark", [[0], 3, [[0, 0, 8]]])
def test_a_mark_of_another_kind_is_in_the_way(mark):
    sch = Schedule(elementwise(8))
    B = sch.get_block("B")
    sch.annotate(B, "buffer_dim_align", mark)
    with pytest.raises(ScheduleError, match="the annotation buffer_dim_align of block B is no"):
        sch.storage_align(B, 0, 0, 8, 1)
    sch.unannotate(B, "buffer_dim_align")
    sch.storage_align(B, 0, 0, 8, 1)
