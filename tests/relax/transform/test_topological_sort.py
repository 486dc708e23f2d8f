"""TopologicalSort: which order each search gives, and what stays."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import PassError
from mlcnb.relax.transform import TopologicalSort
from mlcnb.script import from_source
from tests.relax.harness import check_pass

#: bindings by name
BINDINGS = {
    "b1": "b1 = R.add(a, R.const(1.0, 'float32'))",
    "b2": "b2 = R.add(a, R.const(2.0, 'float32'))",
    "c1": "c1 = R.add(a, b1)",
    "c2": "c2 = R.add(a, b2)",
    "d1": "d1 = R.exp(c1)",
    "k1": "k1 = R.zeros((4,), 'float32')",
    "k2": "k2 = R.ones((4,), 'float32')",
    "m1": "m1 = R.add(a, k1)",
    "m2": "m2 = R.add(a, k2)",
    "o1": "o1 = R.add(c1, c2)",
    "o2": "o2 = R.add(m1, m2)",
    "p1": "p1 = R.multiply(a, p)",
    "p2": "p2 = R.multiply(a, q)",
    "o3": "o3 = R.add(p1, p2)",
}


def block(order: str, result: str):
    """A module whose block has these bindings."""
    lines = "\n".join(f"            {BINDINGS[name]}" for name in order.split())
    tensor = "R.Tensor((4,), 'float32')"
    return from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main(a: {tensor}, p: {tensor}, q: {tensor}):
        with R.dataflow():
{lines}
            R.output({result})
        return {result}
""")


DEPTH = ("depth-first", "from-inputs")
BREADTH = ("breadth-first", "from-inputs")
OUTPUTS = ("depth-first", "from-outputs")


@pytest.mark.parametrize(
    "search, before, after",
    [
        (DEPTH, "b1 b2 c1 c2 o1", "b1 c1 b2 c2 o1"),
        (DEPTH, "b1 b2 c2 c1 o1", "b1 c1 b2 c2 o1"),
        (DEPTH, "k1 k2 m2 m1 o2", "k1 m1 k2 m2 o2"),
        (DEPTH, "p2 p1 o3", "p1 p2 o3"),
        (BREADTH, "b1 c1 b2 c2 o1", "b1 b2 c1 c2 o1"),
        (BREADTH, "k1 m1 k2 m2 o2", "k1 k2 m1 m2 o2"),
        (OUTPUTS, "b2 b1 c2 c1 o1", "b1 c1 b2 c2 o1"),
        (OUTPUTS, "b2 b1 c2 c1 d1 o1", "b1 c1 d1 b2 c2 o1"),
    ],
)
def test_the_order_of_a_search(search: tuple[str, str], before: str, after: str) -> None:
    result = before.split()[-1]
    check_pass(TopologicalSort(*search), block(before, result), block(after, result))


@pytest.mark.parametrize("search", [DEPTH, BREADTH, OUTPUTS])
def test_a_chain_has_one_order(search: tuple[str, str]) -> None:
    mod = block("b1 c1 d1", "d1")
    assert TopologicalSort(*search)(mod) is mod


def test_words_that_are_none() -> None:
    mod = block("b1", "b1")
    with pytest.raises(PassError, match="TopologicalSort: no order 'sideways'"):
        TopologicalSort("sideways")(mod)
    with pytest.raises(PassError, match="TopologicalSort: no direction 'up'"):
        TopologicalSort(direction="up")(mod)
