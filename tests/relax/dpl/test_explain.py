"""What is shown of a pattern: where it is, and what stopped it."""

from __future__ import annotations

import pytest

from mlcnb.core import display
from mlcnb.core.errors import ArgumentError
from mlcnb.relax import dpl
from mlcnb.relax.dpl import PatternContext, is_op, wildcard
from mlcnb.script import relax as R


@R.function
def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
    with R.dataflow():
        a = R.matmul(x, w)
        b = R.nn.relu(a)
        c = R.add(b, x)
        d = R.nn.relu(c)
        R.output(d)
    return d


def test_what_is_found_is_lit() -> None:
    told = is_op("relax.nn.relu")(is_op("relax.matmul")(wildcard(), wildcard())).explain(main)
    assert bool(told)
    assert [repr(f) for f in told.found] == ["b with a"]
    text = display.text(told)
    assert text.startswith('is_op("relax.nn.relu")(is_op("relax.matmul")(*, *)): found 1 time')
    assert "* 2:matmul" in text and "* 3:relu" in text and "* 4:add" not in text
    assert told.why == (
        "nearest miss at d in main: 1 part matched, but the operator is relax.add, "
        'not relax.matmul; wanted is_op("relax.matmul")'
    )
    assert "found 1 time" in (display.html(told) or "")


def test_the_first_part_that_did_not_match() -> None:
    shaped = is_op("relax.add")(is_op("relax.nn.relu")(wildcard()).has_shape((2, 4)), wildcard())
    told = shaped.explain(main)
    assert not told
    assert told.why == (
        "nearest miss at c in main: 4 parts matched, but b has shape (4, 4), not (2, 4); "
        'wanted is_op("relax.nn.relu")(*).has_shape((2, 4))'
    )
    assert told.why in display.text(told)


def test_a_context_is_explained() -> None:
    with PatternContext() as ctx:
        relu, add = is_op("relax.nn.relu")(wildcard()), is_op("relax.add")(wildcard(), wildcard())
        relu >> add
    assert [f.root.name_hint for f in dpl.explain(ctx, main).found] == ["c"]
    with PatternContext() as ctx:
        relu, exp = (
            is_op("relax.nn.relu")(wildcard()),
            is_op("relax.matmul")(wildcard(), wildcard()),
        )
        relu >> exp
    told = dpl.explain(ctx, main)
    assert not told and told.why.startswith("nearest miss in main: ")


def test_calls_are_found() -> None:
    assert len(dpl.find_op("relax.nn.relu", main)) == 2
    with pytest.raises(ArgumentError, match="in a function or module, not in an int"):
        wildcard().explain(3)
