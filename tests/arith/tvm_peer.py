"""Expressions that come as JSON, simplified by Apache TVM, in a process and Python of its own.

    python tvm_peer.py <expressions.json >simplified.json

An expression is [name, operands…]: a variable {"var": "x"}, a number, ["Add", a, b]. Knows nothing
of mlcnb, so that it runs where only TVM is.
"""

import json
import sys

#: 0.27 and before
try:
    from tvm import sym as arith
    from tvm import tirx as tir
except ImportError:
    from tvm import arith, tir

variables = {}


def build(tree):
    """The TVM expression of a tree."""
    if isinstance(tree, dict):
        return variables.setdefault(tree["var"], tir.Var(tree["var"], "int32"))
    if isinstance(tree, int):
        return tir.IntImm("int32", tree)
    name, *operands = tree
    return getattr(tir, name)(*map(build, operands))


def tree_of(x):
    """The tree of a TVM expression; None for what trees do not say."""
    name = type(x).__name__
    if name in ("Var", "SizeVar"):
        return {"var": x.name}
    if name == "IntImm":
        return int(x.value)
    fields = {"Select": ("condition", "true_value", "false_value"), "Not": ("a",)}
    if name not in ("Cast", "Call", "Let", "FloatImm"):
        return [name, *(tree_of(getattr(x, f)) for f in fields.get(name, ("a", "b")))]
    return None


def answer(tree):
    """What TVM makes of one expression, by each of its simplifiers."""
    found = {}
    for how in ("rewrite_simplify", "canonical_simplify", "simplify"):
        try:
            found[how] = tree_of(getattr(arith.Analyzer(), how)(build(tree)))
        except Exception as error:  # noqa: BLE001 (what TVM refuses is told, not raised)
            found[how] = {"error": f"{type(error).__name__}: {error}"[:200]}
    return found


if __name__ == "__main__":
    json.dump([answer(tree) for tree in json.load(sys.stdin)], sys.stdout)
