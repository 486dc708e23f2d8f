"""Pointers that leave a program: what takes, moves or reshapes a buffer sees them."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import ScheduleError
from mlcnb.script import from_source
from mlcnb.tir.analysis.escapes import escapes
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.offers.legal import primitives

PROGRAM = """
@T.prim_func
def main(
    A: T.Buffer((16, 16), "float32"),
    D: T.Buffer((16, 16), "float32"),
    E: T.Buffer((16, 16), "float32"),
):
    B = T.alloc_buffer((16, 16))
    C = T.alloc_buffer((16, 16))
    for i, j in T.grid(16, 16):
        with T.block("B"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[v, w] + T.float32(1)
    for i, j in T.grid(16, 16):
        with T.block("C"):
            v, w = T.axis.remap("SS", [i, j])
            C[v, w] = B[v, w] * T.float32(2)
    CALL
    for i, j in T.grid(16, 16):
        with T.block("E"):
            v, w = T.axis.remap("SS", [i, j])
            E[v, w] = C[v, w]
"""
IN_BLOCK = """with T.block("call"):
        T.evaluate(T.call_extern("int32", "g", {pointer}, D.access_ptr("w")))"""
#: a pointer to B, and how the message shows it
POINTERS = {
    'B.access_ptr("r")': 'T.tvm_access_ptr(T.type_annotation("float32"), B, 0, 256, 1)',
    "T.address_of(B[0, 0])": "T.address_of(B[0, 0])",
    "B.data": "B",
    "T.tvm_access_ptr(T.type_annotation('float32'), B.data, 16, 16, 2)": (
        'T.tvm_access_ptr(T.type_annotation("float32"), B, 16, 16, 2)'
    ),
}
#: steps that take B away or give it another form
RESHAPING = {
    "compute_inline": lambda s: s.compute_inline("B"),
    "transform_layout": lambda s: s.transform_layout("B", ("write", 0), lambda i, j: (j, i)),
    "set_scope": lambda s: s.set_scope("B", 0, "shared"),
    "set_dtype": lambda s: s.set_dtype("B", 0, "float64"),
    "unsafe_set_dtype": lambda s: s.unsafe_set_dtype("B", 0, "float16"),
    "storage_align": lambda s: s.storage_align("B", 0, 0, 32, 8),
    "set_axis_separator": lambda s: s.set_axis_separator("B", ("write", 0), [1]),
    "rolling_buffer": lambda s: s.rolling_buffer("B", 0),
    "reverse_compute_inline": lambda s: s.reverse_compute_inline("C"),
    "cache_read": lambda s: s.cache_read("call", 0, "local"),
    "reindex_cache_read": lambda s: s.reindex_cache_read("call", 0, "local", lambda *_: (0,)),
    "compute_at": lambda s: s.compute_at("B", s.get_loops("C")[0]),
    "fuse_reduction_epilogue": lambda s: s.fuse_reduction_epilogue("B", "C"),
}
#: steps that move accesses of B, or run them side by side
MOVING = {
    **RESHAPING,
    "cache_read": lambda s: s.cache_read("C", 0, "local"),
    "cache_write": lambda s: s.cache_write("B", 0, "local"),
    "reindex": lambda s: s.reindex("C", ("read", 0)),
    "reindex_cache_write": lambda s: s.reindex_cache_write("B", 0, "local", lambda i, j: (j, i)),
    "reverse_compute_at": lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
    "transform_block_layout": lambda s: s.transform_block_layout("B", lambda i, j: (j, i)),
    "reorder": lambda s: s.reorder(*reversed(s.get_loops("B"))),
    "parallel": lambda s: s.parallel(s.get_loops("B")[0]),
    "vectorize": lambda s: s.vectorize(s.get_loops("B")[1]),
    "merge": lambda s: s.merge(s.get_loops("B")[0], s.get_loops("C")[0]),
    "read_at": lambda s: s.read_at(s.get_loops("C")[0], "C", 0, "local"),
    "write_at": lambda s: s.write_at(s.get_loops("B")[0], "B", 0, "local"),
    "blockize": lambda s: s.blockize(s.get_loops("B")[1]),
}
#: what a loop is made of changes, what it touches does not
STILL = {
    "split": lambda s: s.split(s.get_loops("B")[0], [None, 4]),
    "fuse": lambda s: s.fuse(*s.get_loops("B")),
    "unroll": lambda s: s.unroll(s.get_loops("B")[1]),
    "annotate": lambda s: s.annotate(s.get_loops("B")[0], "x", 1),
}


def scheduled(call: str) -> Schedule:
    return Schedule(from_source(PROGRAM.replace("CALL", call)))


def refusal(sch: Schedule, step) -> str:
    before = sch.mod
    with pytest.raises(ScheduleError) as error:
        step(sch)
    assert sch.mod is before
    return error.value.message


@pytest.mark.parametrize("name", RESHAPING)
@pytest.mark.parametrize("pointer", POINTERS)
def test_a_buffer_that_somebody_points_to_keeps_its_form(name, pointer):
    refusal(scheduled(IN_BLOCK.replace("{pointer}", pointer)), RESHAPING[name])


@pytest.mark.parametrize("pointer", POINTERS)
@pytest.mark.parametrize("name", ["transform_layout", "set_scope", "set_axis_separator"])
def test_what_the_refusal_says(name, pointer):
    said = refusal(scheduled(IN_BLOCK.replace("{pointer}", pointer)), RESHAPING[name])
    assert said == (
        f"{name}: block call hands out a pointer to B, {POINTERS[pointer]}, which counts with B "
        "as it is"
    )


OUTSIDE = 'T.evaluate(T.call_extern("int32", "g", B.access_ptr("r"), D.access_ptr("w")))'
UNSAID = """with T.block("call"):
        T.reads()
        T.writes(D[0:16, 0:16])
        T.evaluate(T.call_extern("int32", "g", B.access_ptr("r"), D.access_ptr("w")))"""


@pytest.mark.parametrize("call", [OUTSIDE, UNSAID], ids=["outside", "unsaid"])
@pytest.mark.parametrize("name", MOVING)
def test_a_pointer_of_which_no_block_tells_stops_what_moves(name, call):
    refusal(scheduled(call), MOVING[name])


def test_what_is_said_of_such_a_pointer():
    said = refusal(scheduled(UNSAID), MOVING["reorder"])
    assert said == (
        "reorder: block call hands out a pointer to B, "
        'T.tvm_access_ptr(T.type_annotation("float32"), B, 0, 256, 1), and no block says that it '
        "reads B there"
    )


@pytest.mark.parametrize("call", [OUTSIDE, UNSAID, IN_BLOCK.replace("{pointer}", "B.data")])
@pytest.mark.parametrize("name", STILL)
def test_loops_may_be_cut_all_the_same(name, call):
    STILL[name](scheduled(call))


@pytest.mark.parametrize(
    "name", ["cache_write", "reindex", "reverse_compute_at", "reorder", "merge"]
)
def test_a_pointer_whose_block_tells_is_a_dependence_like_any_other(name):
    MOVING[name](scheduled(IN_BLOCK.replace("{pointer}", 'B.access_ptr("r")')))


@pytest.mark.parametrize("pointer", [p for p in POINTERS if "address_of" not in p])
def test_less_than_a_pointer_reaches_is_not_said_of_it(pointer):
    """What a call does behind a pointer is not seen: compute_at would believe it."""
    sch = scheduled(IN_BLOCK.replace("{pointer}", pointer))
    kind = "write" if pointer.endswith(" 2)") else "read"
    said = refusal(sch, lambda s: s.annotate_buffer_access("call", 0, kind, lambda: ((0, 1),) * 2))
    assert said == (
        "annotate_buffer_access: range 0 of B, of which a call gets a pointer, cannot be 0..1: "
        "block call says that it touches index 15"
    )
    sch.annotate_buffer_access("call", 0, kind, lambda: ((0, 16), (0, 16)))


def test_every_primitive_that_takes_a_buffer_is_tried():
    taking = {
        p.name
        for p in primitives()
        if {"buffer", "buffer_index", "read_buffer_index", "write_buffer_index"}
        & set(p.signature.parameters)
    }
    elsewhere = {  # their programs have no B: or they only say something of it
        "annotate_buffer_access", "cache_index", "cache_inplace",
        "unsafe_hide_buffer_access",
    }  # fmt: skip
    assert taking - elsewhere <= set(MOVING)


def test_all_escapes_are_found():
    func = from_source(PROGRAM.replace("CALL", IN_BLOCK.replace("{pointer}", "B.data")))
    found = escapes(func)
    assert [(x.data.name, x.reads, x.writes, x.block.name_hint) for x in found] == [
        ("B", True, True, "call"),
        ("D", False, True, "call"),
    ]
    assert all(x.is_said() for x in found)
    assert not escapes(from_source(PROGRAM.replace("CALL", "")))
