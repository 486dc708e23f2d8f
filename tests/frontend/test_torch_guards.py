"""What PyTorch assumed of sizes at the export is asked for as the model runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError, UnsupportedError

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

ANY = torch.export.Dim.DYNAMIC


def rows(*counts):
    return tuple(torch.randn(n, 2) for n in counts)


def thirds(x):
    return x + 1 if x.shape[0] % 3 == 0 else x * 2


def longer(x, y):
    return x + 1 if x.shape[0] > y.shape[0] else x * 2


def halves(x, y):
    return x.view(-1, 4) + y.repeat(1, 2)


def between(x):
    return x + 1 if 4 < x.shape[0] * 2 < 30 or x.shape[0] % 7 == 0 else x * 2


def sevenths(x):
    return x[: math.floor(x.shape[0] * 0.7)] if math.floor(x.shape[0] * 0.7) > 4 else x


#: model, rows of the example, of inputs that take its way, and of one that does not, and the guard
CASES = {
    "remainder": (thirds, [6], [[9], [3]], [7], "% 3) == 0"),
    "other remainder": (thirds, [5], [[7], [1]], [9], "% 3) != 0"),
    "order": (longer, [6, 5], [[9, 3]], [3, 3], "> L["),
    "other order": (longer, [4, 5], [[3, 3]], [6, 3], "<= L["),
    "equality": (halves, [6, 3], [[12, 6]], [12, 5], "// 2) == L["),
    "a number": (lambda x: x[: int(x.shape[0] * 0.5)], [6], [[7]], [8], "math.trunc(0.5"),
    "a quotient": (lambda x: x[: int(x.shape[0] / 3)], [7], [[6], [8]], [9], "math.trunc(L["),
    "a number that is measured": (sevenths, [10], [[11]], [5], "math.floor(0.7"),
    "a range that PyTorch finds": (between, [5], [[7], [14]], [20], "3 to 14"),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_that_take_another_way_are_refused(name):
    model, example, good, bad, told = CASES[name]
    dynamic = (tuple({0: ANY} for _ in example),)
    ex = mlc.compile(mlc.from_torch(model, rows(*example), dynamic_shapes=dynamic))
    for counts in (example, *good):
        inputs = rows(*counts)
        np.testing.assert_allclose(ex(*inputs), model(*inputs), rtol=1e-6)
    with pytest.raises(ExecutionError) as error:
        ex(*rows(*bad))
    assert told in str(error.value)


def test_what_cannot_be_asked_for_is_refused():
    with pytest.raises(UnsupportedError, match=r"for sizes where .* == 0.6.*cannot be asked for"):
        mlc.from_torch(
            lambda x: x * float(x.shape[0] * 0.1), rows(6), dynamic_shapes=(({0: ANY},),)
        )


def test_fixed_sizes_and_sizes_of_one_way_ask_for_nothing():
    for dynamic in (None, (({0: ANY},),)):
        mod = mlc.from_torch(lambda x: x * x.shape[0], rows(6), dynamic_shapes=dynamic)
        assert "guard" not in mod.script()
