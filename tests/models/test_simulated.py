"""The ten models and a sentence encoder on the simulated GPU: right, every kernel on threads.

Each is scheduled by the rules for GPUs, its threads run as loops of this CPU, and what comes out is
what ONNX Runtime says: with weights drawn anew, so that every place of a kernel shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.observe.peers import onnxruntime_session
from tests.benchmarks.case import Case
from tests.benchmarks.models import MINILM, cases, model_files

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
    session = onnxruntime_session(case.path, 1)
    names = [i.name for i in session.get_inputs()]
    wanted = session.run(None, dict(zip(names, case.inputs, strict=True)))
    ex = mlc.compile(mlc.from_onnx(case.path), target="cuda-sim")
    made = ex(*case.inputs)
    found = made if isinstance(made, tuple | list) else [made]
    for a, b in zip(found, wanted, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5 * np.abs(b).max())
    for kernel in ex.kernels.values():
        assert kernel.is_native and kernel.target.kind == "cuda-sim"
