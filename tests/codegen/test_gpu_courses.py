"""Schedules of GPU courses: accepted, NumPy's numbers on simulated threads, and code."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.codegen.cuda import nvrtc
from mlcnb.codegen.interp import run_prim_func
from mlcnb.tir.transform import lower
from tests.codegen.gpu_courses import COURSES, blocking
from tests.codegen.gpu_programs import Program

needs_nvrtc = pytest.mark.skipif(
    not nvrtc.is_available(), reason="NVRTC is not installed (nvidia-cuda-nvrtc)"
)


@pytest.fixture(scope="module", params=sorted(COURSES))
def course(request) -> Program:
    return COURSES[request.param]()


def agrees(program: Program, func, order) -> None:
    """Threads in any order, races and missing barriers found."""
    args = program.arguments()
    run_prim_func(func, args, simulate=True, order=order)
    np.testing.assert_allclose(args[-1], program.expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", [None, 1])
def test_threads_in_block_form(course, order):
    agrees(course, course.func, order)


def test_threads_of_the_lowered_program(course):
    agrees(course, lower(course.func), 2)


@needs_nvrtc
def test_code(course):
    kernel = mlc.compile(course.schedule, target="cuda -arch=sm_80").kernels[0]
    (facts,) = kernel.resources.values()
    assert (facts.spill_stores, facts.spill_loads) == (0, 0)
    assert kernel.cubin[:4] == b"\x7fELF"


def test_every_step_is_known_to_be_legal(course):
    assert {step.proof for step in course.schedule.steps} <= {"", "by rule", "proved (islpy)"}


@pytest.mark.parametrize("fused", [True, False])
def test_tiles_of_64_by_8_by_8_threads(fused):
    """The sizes of the course: 64 x 64 elements, 8 x 8 threads with 8 x 8 each."""
    made = blocking((1024, 1024, 1024), (8, 8), (8, 8), 8, fused)
    assert [b.name_hint for b in _blocks(made)] == [
        "C_init", "A_shared", "B_shared", "C_update", "C_local"
    ]  # fmt: skip
    assert mlc.compile(made.schedule, target="cuda -arch=sm_80").kernels[0].source


def _blocks(made: Program) -> list:
    sch = made.schedule
    return [sch.get(b) for b in sch.get_child_blocks(sch.get_block("root"))]
