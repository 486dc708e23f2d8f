"""The ten models and a sentence encoder on the simulated GPU: right, every kernel on threads.

Each is scheduled by the rules for GPUs, its threads run as loops of this CPU, and what comes out is
what ONNX Runtime says: with weights drawn anew, so that every place of a kernel shows. All ten with
their seconds: `python -m tests.benchmarks simulated`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from mlcnb.codegen.cuda import nvrtc
from tests.benchmarks.case import Case
from tests.benchmarks.models import MINILM, cases, model_files
from tests.benchmarks.simulated import ARCHITECTURES, Simulated, resources, spilling

#: the model that is always run; the others take up to a minute each
QUICK = "squeezenet"
each_model = pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n == QUICK else pytest.mark.slow)
     for n in (*model_files(), MINILM)],
)  # fmt: skip


@pytest.fixture
def case(name: str) -> Iterator[Case]:
    """A model, its file and inputs, while the test lasts."""
    with closing(cases(names=(name,))) as found:  # type: ignore[type-var]
        yield next(found)


@each_model
def test_model_equals_onnxruntime(name: str, case: Case) -> None:
    found = Simulated.of(case)
    for a, b in zip(found.outputs, found.wanted, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5 * np.abs(b).max())
    for kernel in found.executable.kernels.values():
        assert kernel.is_native and kernel.target.kind == "cuda-sim"


@pytest.mark.skipif(not nvrtc.is_available(), reason="NVRTC is not installed")
@pytest.mark.parametrize(
    "arch",
    [pytest.param(a, marks=() if a == "sm_90a" else pytest.mark.slow) for a in ARCHITECTURES],
)
@each_model
def test_no_kernel_spills(name: str, case: Case, arch: str) -> None:
    """Offline: `python -m tests.benchmarks cubins` prints the same with registers."""
    found = resources(case, arch)
    assert found and spilling(found) == []
