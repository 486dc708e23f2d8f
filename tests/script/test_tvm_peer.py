"""The 0.27 spelling is TVM's: what we print is read by Apache TVM, and what it prints by us.

Runs where apache-tvm 0.27 is installed (`pip install apache-tvm`, part of the extra `bench`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mlcnb import te, tir
from mlcnb.ir import assert_structural_equal
from mlcnb.script import parse, script
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.transform.lower import lower
from tests.te.programs import PROGRAMS
from tests.tir.constructs import ROWS, Row
from tests.tir.schedule import programs

tvm = pytest.importorskip("tvm", reason="apache-tvm is not installed")
if not tvm.__version__.startswith("0.27"):
    pytest.skip(f"apache-tvm 0.27 is wanted, this is {tvm.__version__}", allow_module_level=True)

MAKERS: list[Callable[..., PrimFunc]] = [
    programs.elementwise, programs.copy_2d, programs.matmul, programs.matmul_relu,
    programs.row_sum, programs.stencil, programs.padded_pool, programs.padded_sum,
    programs.softmax, programs.conv2d,
]  # fmt: skip
each_program = pytest.mark.parametrize("make", MAKERS, ids=[m.__name__ for m in MAKERS])

#: constructs that TVM 0.27 does not have, or refuses: row -> what it says
NOT_THERE = {
    "options of a buffer": "unexpected keyword argument 'axis_separators'",
    "return from a loop": "no attribute 'allocate'",
    "T.pow(n, 4)": "power only applies to float",
    "T.large_uint_imm(5, 3)": "no attribute 'large_uint_imm'",
    "T.isnan(A[0] / T.float32(0) * T.float32(0))": "Divide by zero",
    "T.isinf(A[0] / T.float32(0))": "Divide by zero",
    "promises": "no attribute 'prefetch'",
    **{f"dtype {kind}": f"no attribute '{kind}'" for kind in ("int2", "uint2", "int4", "uint4")},
}
#: what it reads, and writes in another way: with defaults filled in, folded, in other words
OTHERWISE = {
    "targets", "T.isfinite(A[0])", "T.min_value('int8') + T.max_value('int8')", "words of GPUs",
    'T.call_llvm_intrin("float32", "llvm.fabs.f32", -A[0])',
}  # fmt: skip
#: an offset that is a variable is not printed, so that its uses read back as nothing
LOSES = {"match_buffer with strides"}


def theirs(func: PrimFunc) -> Any:
    """The function as TVM reads our text."""
    return tvm.script.from_source(script(func, dialect="0.27"))


def through_tvm(func: PrimFunc) -> PrimFunc:
    """The function as we read TVM's text of it."""
    return parse(theirs(func).script(show_meta=True))


@each_program
def test_programs_in_blocks_go_through_tvm(make: Callable[..., PrimFunc]) -> None:
    func = make()
    assert_structural_equal(through_tvm(func), func)


@each_program
def test_lowered_programs_go_through_tvm(make: Callable[..., PrimFunc]) -> None:
    func = parse(script(lower(make()), dialect="0.27"))
    assert_structural_equal(through_tvm(func), func)


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_every_construct_goes_through_tvm(row: Row) -> None:
    func = parse(row.text, dialect=row.dialect)
    func = parse(script(func, dialect="0.27"))
    if row.name in NOT_THERE:
        with pytest.raises(Exception, match=NOT_THERE[row.name]):
            theirs(func)
        return
    if row.name in LOSES:
        theirs(func)
    elif row.name in OTHERWISE:
        through_tvm(func)
    else:
        assert_structural_equal(through_tvm(func), func)


@pytest.mark.parametrize("make", PROGRAMS, ids=[m.__name__ for m in PROGRAMS])
def test_tensor_expressions_become_the_same_loops(make: Callable[..., list]) -> None:
    ours = te.create_prim_func(make(te, tir))
    text = tvm.te.create_prim_func(make(tvm.te, tvm.tirx)).script()
    assert_structural_equal(parse(text), ours)
    # dimensions are TypeVars there, above the function; and long numbers have all their digits
    if make.__name__ not in ("symbolic", "argmax"):
        assert script(ours, dialect="0.27", header=False) in text
