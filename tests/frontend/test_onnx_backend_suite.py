"""ONNX's own backend suite through `mlcnb.onnx_backend`, against the checked-in list.

What is not in `onnx_unsupported.txt` passes; what is in it raises just the typed error that stands
there, and fails here on the day that it passes. The cases are slow tests, of which `make test` runs
one in four; all of them, and the real models too: `python -m tests.frontend.suite`.

With open sizes (`--open`), on the simulated GPU (`--target cuda-sim`), as text (`--text`) and as
machine code of a GPU (`--code sm_80`) one case of each kind of loops stands for the rest here; of
older CPUs, other CPUs' code and the promises of `sweeps.py` (`--holds`) one in two hundred. What
all of them said last is in RESULTS.md.
"""

from __future__ import annotations

import unittest

import onnx.backend.test
import pytest

from mlcnb import core
from mlcnb.codegen.cuda import nvrtc
from mlcnb.codegen.llvm.target_machine import Cpu
from mlcnb.onnx_backend import MlcnbBackend, supports_device
from tests.frontend import suite, sweeps

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


needs_nvrtc = pytest.mark.skipif(
    not nvrtc.is_available(), reason="NVRTC is not installed (nvidia-cuda-nvrtc)"
)
#: whose loops differ: blocks of channels, windows, reductions, results from data, recurrences,
#: conditions inside of one another, opaque statements
OPEN = (
    "test_Conv2d_depthwise",
    "test_Conv2d_groups",
    "test_ConvTranspose2d",
    "test_GLU_dim",
    "test_affine_grid_2d_expanded",
    "test_argmax_default_axis_example",
    "test_attention_4d_gqa_with_past_and_present",
    "test_attention_bidirectional_window",
    "test_averagepool_2d_pads",
    "test_causal_conv_with_state_basic_expanded",
    "test_compress_1",
    "test_convtranspose_group_2",
    "test_cumsum_2d_axis_1",
    "test_det_nd",
    "test_gather_elements_1",
    "test_gridsample_volumetric_nearest_align_corners_0",
    "test_layer_normalization_2d_axis1",
    "test_logsoftmax_axis_1",
    "test_lstm_bidirectional",
    "test_matmul_3d",
    "test_maxpool_2d_pads",
    "test_reduce_l2_keep_dims_random",
    "test_resize_downsample_sizes_linear_pytorch_half_pixel",
    "test_resize_upsample_scales_linear",
    "test_roialign_aligned_true",
    "test_rotary_embedding_expanded",
    "test_scatter_elements_with_axis",
    "test_softmax_axis_0",
    "test_top_k",
    "test_transpose_all_permutations_3",
)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["llvm", "cuda-sim"])
@pytest.mark.parametrize("name", OPEN)
def test_case_with_open_sizes(name, target):
    """One variable for each size of an input but 1; vectors and numbers are constants."""
    (case,) = (case for case in CASES if case.name == name)
    assert suite.opened(next(suite.data_sets(case))[0]) is not None
    assert suite.outcome(case, target, is_open=True) == "pass"


@pytest.mark.slow
@pytest.mark.parametrize("is_open", [False, True], ids=["fixed", "open"])
@pytest.mark.parametrize("name", [*OPEN, "test_gru_bidirectional"])
def test_texts_of_a_case_read_back(name, is_open):
    """What is imported, what the passes make of it, what is scheduled, what is lowered."""
    (case,) = (case for case in CASES if case.name == name)
    assert suite.outcome(case, is_open, by=suite.reads_back) == "pass"


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("name", [*OPEN, "test_isnan"])
def test_a_case_becomes_machine_code(name):
    """Each kernel, without a GPU, and no register is spilled."""
    (case,) = (case for case in CASES if case.name == name)
    assert suite.outcome(case, "sm_80", by=suite.to_machine_code) == "pass"


#: one in two hundred stands for the rest
SAMPLE = pytest.mark.parametrize("case", CASES[::200], ids=[case.name for case in CASES[::200]])


@SAMPLE
@pytest.mark.parametrize("promise", [sweeps.on_threads, sweeps.saved, sweeps.in_memory])
def test_a_case_keeps_a_promise(case, promise):
    assert suite.outcome(case, by=promise) == EXPECTED.get(case.name, "pass")


@pytest.mark.parametrize("name", [*OPEN[::8], "test_hardmax_default_axis"])
def test_versions_of_a_case_with_open_sizes(name):
    pytest.importorskip("onnxruntime")
    (case,) = (case for case in CASES if case.name == name)
    assert suite.outcome(case, by=sweeps.at_sizes) == "pass"


@SAMPLE
@pytest.mark.parametrize(
    "cpu", ["apple-m1", "neoverse-n1", "x86-64-v2 -mtriple=x86_64-pc-windows-msvc"]
)
def test_code_of_a_case_for_another_computer(case, cpu):
    assert suite.outcome(case, cpu, by=sweeps.for_a_cpu) == EXPECTED.get(case.name, "pass")


@SAMPLE
@pytest.mark.skipif(Cpu.host().arch != "x86_64", reason="CPUs of x86-64")
def test_a_case_on_the_plainest_cpu(case):
    """float16 by functions, no multiply-add, vectors of four."""
    expected = EXPECTED.get(case.name, "pass")
    assert suite.outcome(case, "llvm -mcpu=x86-64") == expected


def test_onnx_runner_takes_the_backend():
    """The hook that other projects use: `BackendTest` makes test cases of it, and they run."""
    runner = onnx.backend.test.BackendTest(MlcnbBackend, __name__)
    runner.include(r"^test_(add|relu|softmax_axis_0|conv_with_strides_padding)_cpu$")
    result = unittest.TestResult()
    runner.test_suite.run(result)
    assert (result.testsRun - len(result.skipped), result.failures, result.errors) == (4, [], [])
    assert supports_device("CPU")
    assert not supports_device("CUDA")
