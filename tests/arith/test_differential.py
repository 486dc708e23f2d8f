"""Random expressions simplified here and by Apache TVM: both keep the value, ours is not weaker.

TVM runs in this environment, or in the one whose interpreter MLCNB_TVM_PYTHON names; without either
the tests are skipped. `-s` prints the counts.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from mlcnb.arith import Analyzer
from mlcnb.arith.emission import size_of
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from tests.arith.programs import FUZZ, evaluate, points, text

PYTHON = os.environ.get("MLCNB_TVM_PYTHON")
if PYTHON is None and importlib.util.find_spec("tvm") is not None:
    PYTHON = sys.executable
pytestmark = pytest.mark.skipif(PYTHON is None, reason="needs apache-tvm or MLCNB_TVM_PYTHON")

NAMES = [e.Var(name) for name in "xyz"]
VALUES = dict.fromkeys(NAMES, (-2, 3))
_ARITHMETIC = ["Add", "Sub", "Min", "Max"]
_DIVISION = ["FloorDiv", "FloorMod", "Div", "Mod"]
_COMPARISON = ["LT", "LE", "EQ", "NE", "GT", "GE"]


def random_tree(rng, depth):
    """A random integer expression."""
    if depth == 0 or rng.random() < 0.15:
        leaf = rng.choice([*NAMES, *NAMES, None])
        return rng.randint(-9, 9) if leaf is None else {"var": leaf.name}
    choice = rng.random()
    if choice < 0.55:
        return [rng.choice(_ARITHMETIC), random_tree(rng, depth - 1), random_tree(rng, depth - 1)]
    if choice < 0.75:
        return ["Mul", random_tree(rng, depth - 1), rng.choice([-3, -1, 2, 3, 4, 8])]
    if choice < 0.95:
        return [rng.choice(_DIVISION), random_tree(rng, depth - 1), rng.choice([2, 3, 4, 6, 8])]
    return ["Select", random_condition(rng, 1), random_tree(rng, depth - 1), {"var": "x"}]


def random_condition(rng, depth):
    """A random condition."""
    if depth == 0 or rng.random() < 0.5:
        return [rng.choice(_COMPARISON), random_tree(rng, 2), random_tree(rng, 1)]
    name = rng.choice(["And", "Or"])
    return [name, random_condition(rng, depth - 1), random_condition(rng, depth - 1)]


def build(tree):
    """The expression of a tree, nothing folded."""
    if isinstance(tree, dict):
        return next(v for v in NAMES if v.name == tree["var"])
    if isinstance(tree, int):
        return p.const(tree, "int32")
    return getattr(e, tree[0])(*map(build, tree[1:]))


def values_of(x):
    """The values of an expression at all points; None where it divides by zero."""
    found = []
    for values in points(VALUES):
        try:
            found.append(int(evaluate(x, values)))
        except ZeroDivisionError:
            found.append(None)
    return found


def is_wrong(before, after):
    """True where a value that there was became another one."""
    return any(b is not None and a != b for b, a in zip(before, after, strict=True))


def ask_tvm(trees):
    """What TVM makes of the expressions."""
    peer = Path(__file__).with_name("tvm_peer.py")
    made = subprocess.run(
        [str(PYTHON), str(peer)], input=json.dumps(trees), capture_output=True, text=True,
        check=True, timeout=300,
    )  # fmt: skip
    return json.loads(made.stdout[made.stdout.index("[") :])


@pytest.mark.slow
@pytest.mark.parametrize("make", [random_tree, random_condition], ids=["integers", "conditions"])
@pytest.mark.parametrize("how", ["rewrite_simplify", "simplify"])
def test_ours_is_right_and_rarely_longer_than_tvm_s(make, how):
    rng = random.Random(7)
    trees = [make(rng, 3) for _ in range(100 * FUZZ)]
    counts = Counter()
    for tree, answers in zip(trees, ask_tvm(trees), strict=True):
        before = build(tree)
        expected = values_of(before)
        ours = getattr(Analyzer(), how)(before)
        assert not is_wrong(expected, values_of(ours)), f"{text(before)} is not {text(ours)}"
        theirs = answers[how]
        if isinstance(theirs, dict) and "error" in theirs:
            counts["TVM refuses"] += 1
            continue
        theirs = build(theirs)
        if is_wrong(expected, values_of(theirs)):
            counts["TVM is wrong"] += 1
        elif text(ours) == text(theirs):
            counts["the same"] += 1
        else:
            gap = size_of(ours) - size_of(theirs)
            counts["as long" if gap == 0 else "ours is longer" if gap > 0 else "shorter"] += 1
    print(how, make.__name__, dict(counts))
    assert counts["ours is longer"] <= 0.1 * len(trees), dict(counts)
