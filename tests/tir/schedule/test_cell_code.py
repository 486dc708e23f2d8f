"""The code of a cell: what a person would write, and it does the same."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import ScheduleError
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.tir.schedule import Schedule, legal_steps
from mlcnb.tir.schedule.offers.cell_code import cell_code, cell_lines
from mlcnb.tir.schedule.offers.doing import do
from tests.tir.schedule.programs import matmul, matmul_relu
from tests.view.names import NAMES
from tests.view.samples import named_loops


def by_hand() -> Schedule:
    sch = Schedule(matmul(64, 64, 64))
    C = sch.get_block("C")
    i, j, k = sch.get_loops(C)
    j_0, j_1 = sch.split(j, factors=[None, 16])
    sch.reorder(k, j_1)
    sch.vectorize(j_1)
    sch.parallel(i)
    return sch


CODE = """\
C = sch.get_block("C")
i, j, k = sch.get_loops(C)
j_0, j_1 = sch.split(j, factors=[None, 16])
sch.reorder(k, j_1)
sch.vectorize(j_1)
sch.parallel(i)"""


def click(sch: Schedule, place: int, text: str) -> None:
    """Do the legal step of this text at a loop, as it is found."""
    names = Schedule(sch.mod)
    found = legal_steps(names, names.get_loops("C")[place])
    do(sch, "main", next(x for x in found if x.text == text).call)


def clicked() -> Schedule:
    sch = Schedule(matmul(64, 64, 64))
    click(sch, 1, 'sch.split(sch.get_loops("C")[1], factors=[None, 16])')
    click(sch, 3, 'sch.reorder(sch.get_loops("C")[3], sch.get_loops("C")[2])')
    click(sch, 3, 'sch.vectorize(sch.get_loops("C")[3])')
    click(sch, 0, 'sch.parallel(sch.get_loops("C")[0])')
    return sch


def test_a_person_would_write_it_so():
    assert cell_code(by_hand()) == CODE
    assert cell_code(by_hand(), 0) == ""
    lines, heads = cell_lines(by_hand(), 4)
    assert heads == [0, 3, 4, 5, 6] and "\n".join(lines) == CODE


def test_what_is_chosen_has_the_trace_of_what_is_written():
    assert str(clicked().trace) == str(by_hand().trace)
    assert cell_code(clicked()) == CODE


def test_it_runs():
    sch = Schedule(matmul(64, 64, 64))
    exec(CODE, {"sch": sch})  # noqa: S102
    assert_structural_equal(sch.mod, clicked().mod)


def test_two_functions_are_told_apart():
    two = Schedule(matmul(8, 8, 8)).mod.with_functions(
        {"main": matmul(8, 8, 8), "relu": matmul_relu(8, 8, 8)}
    )
    sch = Schedule(two)
    sch.unroll(sch.get_loops(sch.get_block("D", func_name="relu"))[0])
    code = cell_code(sch)
    assert code.splitlines()[0] == 'D = sch.get_block("D", func_name="relu")'
    again = Schedule(two)
    exec(code, {"sch": again})  # noqa: S102
    assert_structural_equal(again.mod, sch.mod)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_names_that_are_no_words_become_numbers(name):
    func = named_loops(name)
    sch = Schedule(func)
    loop = sch.get_loops(sch.get_block(name))[0]
    sch.split(loop, [None, 2])
    code = cell_code(sch)
    again = Schedule(func)
    exec(code, {"sch": again})  # noqa: S102
    assert_structural_equal(again.mod, sch.mod)


def test_a_refused_step_leaves_no_trace():
    sch = Schedule(matmul(8, 8, 8))
    found = legal_steps(Schedule(sch.mod), "C")
    names = Schedule(sch.mod)
    at_k = legal_steps(names, names.get_loops("C")[2])
    with pytest.raises(ScheduleError, match="not parallel"):
        do(sch, "main", at_k.tried["vectorize"])
    assert len(sch.trace) == 0 and found is not None
