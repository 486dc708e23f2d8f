"""ONNX's own backend suite through `mlcnb.onnx_backend`, against the checked-in list.

What is not in `onnx_unsupported.txt` passes; what is in it raises just the typed error that stands
there, and fails here on the day that it passes. The cases are slow tests, of which `make test` runs
one in four; all of them, and the real models too: `python -m tests.frontend.suite`.
"""

from __future__ import annotations

import unittest

import onnx.backend.test
import pytest

from mlcnb import core
from mlcnb.onnx_backend import MlcnbBackend, supports_device
from tests.frontend import suite

EXPECTED = suite.expected()
#: `tests/models` runs the light models each time
CASES = [case for case in suite.cases() if case.record.kind != "real"]


def test_the_list_names_cases_and_typed_errors():
    names = {case.name for case in suite.cases()}
    assert set(EXPECTED) <= names
    for error in set(EXPECTED.values()):
        assert issubclass(getattr(core.errors, error), core.errors.MLCError)


def test_so_many_cases_are_supported():
    """97 of 100 cases of nodes, all made of PyTorch's operators and models, nine topologies."""
    kinds: dict[str, list[bool]] = {}
    for case in suite.cases():
        kinds.setdefault(case.record.kind, []).append(case.name not in EXPECTED)
    assert sum(kinds["node"]) >= 0.97 * len(kinds["node"])
    assert all(kinds["pytorch-converted"] + kinds["pytorch-operator"] + kinds["real"])
    assert len(kinds["real"]) == 9


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_case(case):
    assert suite.outcome(case) == EXPECTED.get(case.name, "pass")


def test_onnx_runner_takes_the_backend():
    """The hook that other projects use: `BackendTest` makes test cases of it, and they run."""
    runner = onnx.backend.test.BackendTest(MlcnbBackend, __name__)
    runner.include(r"^test_(add|relu|softmax_axis_0|conv_with_strides_padding)_cpu$")
    result = unittest.TestResult()
    runner.test_suite.run(result)
    assert (result.testsRun - len(result.skipped), result.failures, result.errors) == (4, [], [])
    assert supports_device("CPU")
    assert not supports_device("CUDA")
