"""Every operator's loops as machine code, scheduled by the default rules and not."""

from __future__ import annotations

import numpy as np
import pytest

from mlcnb.codegen.llvm import backend
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.op.unary import Log
from mlcnb.runtime import kernel_call, threads
from mlcnb.target import Target
from tests.op.harness import Case, numbers
from tests.op.test_declarations import WITH_LOOPS

pytestmark = pytest.mark.slow
#: dtypes that the backend has; those below 16 bits of float and 8 bits of integer it has not
KINDS = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool"


def _dtypes(case: Case) -> set[str]:
    return {a.dtype.name for a in (*case.arrays(), *case.expected())}


CASES = [case for case in WITH_LOOPS if _dtypes(case) <= set(KINDS.split())]


def run(case: Case, schedule) -> None:
    kernels = backend.build(
        {case.op.sugar: case.prim_func()}, Target("llvm"), schedule, symbols=threads.symbols()
    )
    outputs = case.outputs()
    kernel_call.run(kernels[case.op.sugar], [*case.arrays(), *outputs])
    case.check(tuple(outputs))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_scheduled_machine_code_computes_the_meaning(case: Case):
    run(case, schedule_cpu)


def test_a_kernel_may_have_the_name_of_a_c_function():
    run(Case(Log(), [numbers((3,), "float64", low=1)]), None)


def test_other_dtypes_are_refused_by_name():
    from mlcnb.core.errors import UnsupportedDtypeError
    from mlcnb.op.datatype import Astype

    case = Case(Astype("float8_e8m0fnu"), [np.ones(2, "float32")])
    with pytest.raises(
        UnsupportedDtypeError, match="the llvm backend has no type for float8_e8m0fnu"
    ):
        run(case, None)
