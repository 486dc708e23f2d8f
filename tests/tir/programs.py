"""Random affine loop programs as text, and what the interpreter sees them touch."""

from __future__ import annotations

import os
from textwrap import indent

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from mlcnb.codegen.interp import run_prim_func
from mlcnb.script import parse

#: how many times as many random cases a run at home looks at: MLCNB_FUZZ=100
FUZZ = int(os.environ.get("MLCNB_FUZZ", "1"))

#: elements of each buffer
SIZE = 24
HEAD = f"""
@T.prim_func
def main(A: T.Buffer(({SIZE},), "int32"), B: T.Buffer(({SIZE},), "int32")):
"""


@st.composite
def indices(draw, names, wild=False):
    """An index that stays in the buffer; a wild one may leave it."""
    terms = [f"{name} * {draw(st.integers(-2, 3))}" for name in names]
    x = " + ".join([*terms, str(draw(st.integers(0, 5)))])
    kind = draw(st.integers(0, 5))
    if kind == 0:
        x = f"({x}) // {draw(st.integers(2, 4))}"
    elif kind == 1:
        x = f"T.max({x}, {draw(st.integers(0, 6))})"
    if wild:
        return x
    return f"({x}) % {SIZE}" if kind != 2 else f"T.min(T.max({x}, 0), {SIZE - 1})"


@st.composite
def conditions(draw, names):
    """A condition on the loops."""
    left = " + ".join(f"{name} * {draw(st.integers(-1, 2))}" for name in names)
    return f"{left} {draw(st.sampled_from(['<', '>=', '==', '!=']))} {draw(st.integers(0, 4))}"


@st.composite
def statements(draw, names, depth, wild=False):
    """A store, a guarded store, a loop, or two of them."""
    kind = draw(st.integers(0, 4)) if names else 4
    if kind <= 1 or depth == 0:
        to, one, two = (draw(indices(names, wild)) for _ in range(3))
        where = draw(st.sampled_from("AB")), draw(st.sampled_from("AB"))
        return f"{where[0]}[{to}] = {where[1]}[{one}] + A[{two}]\n"
    if kind == 2:
        body = indent(draw(statements(names, depth - 1, wild)), "    ")
        other = indent(draw(statements(names, depth - 1, wild)), "    ")
        both = draw(st.booleans())
        return f"if {draw(conditions(names))}:\n{body}" + (f"else:\n{other}" if both else "")
    if kind == 3:
        return draw(statements(names, depth - 1, wild)) + draw(statements(names, depth - 1, wild))
    return draw(loops(names, depth, wild))


@st.composite
def loops(draw, names, depth, wild=False):
    """A loop with a name of its own."""
    name = f"i{draw(st.integers(0, 10**6))}"
    start, extent = draw(st.integers(0, 2)), draw(st.integers(1, 4))
    stop = f"{start + extent}" if not names or draw(st.booleans()) else f"{start + 1} + {names[-1]}"
    body = draw(statements((*names, name), depth - 1, wild))
    return f"for {name} in range({start}, {stop}):\n" + indent(body, "    ")


@st.composite
def programs(draw, wild=False):
    """A function over two buffers."""
    count = draw(st.integers(1, 2))
    parts = [draw(loops((), 3, wild)) for _ in range(count)]
    names = [line.split()[1] for part in parts for line in part.split("\n") if "for " in line]
    assume(len(names) == len(set(names)))
    return HEAD + indent("".join(parts), "    ")


def recorded(func):
    """Every access of one run: (buffer, element, "r" or "w", {loop: value})."""
    record = []
    run_prim_func(func, [np.zeros(SIZE, "int32"), np.zeros(SIZE, "int32")], record)
    return record


def parsed(text):
    """The function of a text."""
    return parse(text)
