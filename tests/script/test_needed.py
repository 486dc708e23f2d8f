"""What the 0.27 text says because TVM 0.27 has no default, or another, for it."""

from __future__ import annotations

import pytest

from mlcnb.ir.structural import assert_structural_equal
from mlcnb.script import parse, script

TEXT = """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), g: R.Tensor((4,), "float32")):
    n = T.int64()
    with R.dataflow():
        a = R.shape([T.Select(n == 1, T.int64(1), T.int64(0)), T.Select(n == 2, n, 0)])
        s = R.match_cast(a, R.Shape([1, 0]))
        y = R.nn.batch_norm(x, g, g, g, g)
        z = R.nn.layer_norm(x, g, g)
        gv = (y[0], z)
        R.output(gv)
    return gv
"""


@pytest.mark.parametrize(
    "dialect, there, missing",
    [
        (
            "0.27",
            (
                "axis=1",
                "axes=",
                "T.Select(n == 1, T.int64(1), T.int64(0))",
                "T.Select(n == 2, n, T.int64(0))",
            ),
            (),
        ),
        (
            "0.21",
            ("T.Select(n == 1, T.int64(1), T.int64(0))", "T.Select(n == 2, n, 0)"),
            ("axis=", "axes="),
        ),
    ],
)
def test_defaults_and_dtypes(dialect, there, missing):
    func = parse(TEXT)
    text = script(func, dialect=dialect)
    assert all(part in text for part in there), text
    assert not any(part in text for part in missing), text
    assert_structural_equal(parse(text), func)
