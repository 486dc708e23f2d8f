"""Carried: which loops a buffer is private to."""

from __future__ import annotations

import pytest

from mlcnb.core.node import replace
from mlcnb.ir import prim_ops as p
from mlcnb.script import parse
from mlcnb.tir import PrimFunc
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.carried import MOST, Carried
from mlcnb.tir.analysis.structure import statements

HEAD = """
@T.prim_func
def f(A: T.Buffer((64,), "int32"), I: T.Buffer((64,), "int32")):
    C = T.alloc_buffer((64,), "int32")
"""


def program(body: str) -> PrimFunc:
    """A function with a local buffer C."""
    return parse(HEAD + "\n".join(f"    {line}" for line in body.strip("\n").splitlines()) + "\n")


def private(func: PrimFunc, name: str = "i") -> bool:
    """Whether C is private to the loop of this name."""
    root = next(n for n in statements(func.body) if isinstance(n, s.Block))
    (loop,) = (n for n in statements(root) if isinstance(n, s.For) and n.loop_var.name == name)
    return Carried(root.body, root.alloc_buffers).is_private(root.alloc_buffers[0], loop)


@pytest.mark.parametrize(
    "index",
    [
        "i",
        "i * 2",
        "i * 4 + j",
        "60 - i * 4 - j",
        "j * 8 + i",
        "j * 16 + i * 2 + 1",
        "(i * 4 + j) // 4 * 9",
        "i * 5 + 3",
    ],
)
def test_indices_that_tell_the_iteration(index):
    assert private(program(f"for i in range(6):\n  for j in range(4):\n    C[{index}] += A[j]"))


@pytest.mark.parametrize(
    "index",
    ["j", "i // 2", "i * 3 + j", "i % 4", "i + j", "j * 5 + i", "I[i]", "i * 0"],
)
def test_indices_that_do_not(index):
    func = program(f"for i in range(6):\n  for j in range(4):\n    C[{index}] = C[{index}] + A[j]")
    assert not private(func)


def test_two_digits_tell_it_together():
    text = HEAD.replace('C = T.alloc_buffer((64,), "int32")', 'C = T.alloc_buffer((8, 8), "int32")')
    body = "    for i in range({0}):\n        C[i // 8, i % 8] = C[i // 8, i % 8] + A[i]\n"
    assert private(parse(text + body.format(24)))
    one_digit = body.replace("i // 8, ", "0, ")
    assert private(parse(text + one_digit.format(8)))
    assert not private(parse(text + one_digit.format(9)))


@pytest.mark.parametrize(
    ("writes", "reads"),
    [
        ("for j in range(8): C[j] = A[j]", "for k in range(8): A[k] = C[k]"),
        ("for j in range(8): C[7 - j] = A[j]", "for k in range(6): A[k] = C[k + 2]"),
        ("for j, k in T.grid(2, 4): C[j * 4 + k] = A[j]", "for m in range(8): A[m] = C[m]"),
        ("for j in range(8): C[j % 4 * 2 + j // 4] = A[j]", "for m in range(8): A[m] = C[m]"),
        ("for j in range(8):\n    if j < 5: C[j] = A[j]", "for m in range(5): A[m] = C[m]"),
        (
            "for j in range(8):\n    if i * 8 + j < 40: C[j] = A[j]",
            "for m in range(8):\n    if i * 8 + m < 40: A[m] = C[m]",
        ),
        ("C[i % 3] = A[i]", "A[0] = C[i % 3]"),
        ("if A[i] > 3:\n    C[5] = A[i]\n    A[1] = C[5]", "A[0] = i"),
        ("for k in range(4):\n    if k == 0: C[2] = 1\n    C[2] = C[2] + A[k]", "A[0] = C[2]"),
    ],
)
def test_what_is_written_before_it_is_read(writes, reads):
    assert private(loop(writes, reads))


def loop(*parts: str) -> PrimFunc:
    """A loop over i of some statements, one-line bodies taken apart."""
    lines = ["for i in range(6):"]
    for part in parts:
        for line in part.splitlines():
            head, colon, rest = line.partition(": ")
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(f"    {head}{colon.strip()}")
            if colon:
                lines.append(f"    {indent}    {rest}")
    return program("\n".join(lines))


@pytest.mark.parametrize(
    ("writes", "reads"),
    [
        ("for j in range(7): C[j] = A[j]", "for k in range(8): A[k] = C[k]"),
        ("for j in range(8): C[j] = A[j]", "for k in range(8): A[k] = C[k + 1]"),
        ("for j in range(4): C[j * 2] = A[j]", "for k in range(7): A[k] = C[k]"),
        ("for j in range(8):\n    if j != 5: C[j] = A[j]", "for m in range(8): A[m] = C[m]"),
        ("for j in range(8):\n    if A[j] > 0: C[j] = A[j]", "for m in range(8): A[m] = C[m]"),
        ("for j in range(i): C[0] = A[j]", "A[0] = C[0]"),
        ("A[0] = C[3]", "C[3] = A[1]"),
        ("if A[i] > 3: C[5] = A[i]", "A[1] = C[5]"),
        ("if i == 0: C[5] = A[i]", "A[1] = C[5]"),
        ("for k in range(4):\n    if k == 1: C[2] = 1\n    C[2] = C[2] + A[k]", "A[0] = C[2]"),
        ("C[I[i]] = A[i]", "A[1] = C[I[i]]"),
    ],
)
def test_what_may_come_from_an_earlier_iteration(writes, reads):
    assert not private(loop(writes, reads))


def test_a_variable_of_two_loops_of_different_lengths_tells_nothing():
    func = loop("for j in range(8): C[j] = A[j]", "for k in range(8): A[k] = C[k]")
    assert private(func)
    outer = next(n for n in statements(func.body) if isinstance(n, s.For))
    first, second = outer.body.seq
    short = replace(first, extent=p.const(4))
    root = next(n for n in statements(func.body) if isinstance(n, s.Block))
    both = replace(outer, body=s.seq(short, first, second))
    assert not Carried(both, root.alloc_buffers).is_private(root.alloc_buffers[0], both)


def test_very_many_accesses_are_not_compared_pair_by_pair():
    lines = [f"C[{n % 8}] = A[{n % 8}]\nA[{n % 8}] = C[{n % 8}]" for n in range(MOST)]
    assert not private(loop(*lines))
    assert private(loop(*lines[: MOST // 2]))
