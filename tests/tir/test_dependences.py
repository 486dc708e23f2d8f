"""Dependences between iterations: known programs; random ones against all pairs of accesses."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import HealthCheck, example, given, note, settings

from mlcnb.core.errors import MLCError
from mlcnb.script import parse
from mlcnb.tir import analysis
from tests.tir.programs import FUZZ, parsed, programs, recorded


def found(body, head='A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")'):
    text = f"@T.prim_func\ndef main({head}):\n" + "\n".join(
        f"    {line}" for line in dedent(body).strip().split("\n")
    )
    return analysis.loop_dependences(parse(text))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "for i in range(1, 16):\n    A[i, 0] = A[i - 1, 0]",
            ["RAW of A, root -> root: carried by loop i, distance (1), direction (<)"],
        ),
        (
            "for i in range(15):\n    A[i, 0] = A[i + 1, 0]",
            ["WAR of A, root -> root: carried by loop i, distance (1), direction (<)"],
        ),
        (
            "for i, j in T.grid(8, 8):\n    A[i + 1, j] = A[i, j + 2]",
            ["RAW of A, root -> root: carried by loop i, distance (1, -2), direction (<, >)"],
        ),
        ("for i, j in T.grid(16, 16):\n    A[i, j] = B[j, i]", []),
        (
            "for i in range(16):\n    A[i // 2, 0] = T.float32(0)",
            ["WAW of A, root -> root: carried by loop i, distance (1), direction (<)"],
        ),
        ("for i in range(8):\n    A[i * 2, 0] = A[i * 2 + 1, 0]", []),
        (
            "for i in range(16):\n    A[i, 0] = B[i, 0]\n    B[i, 1] = A[i, 0]",
            ["RAW of A, root -> root: not carried, distance (0), direction (=)"],
        ),
        (
            "for i in range(16):\n    if i < 8:\n        A[i, 0] = A[i + 8, 0]",
            [],
        ),
        (
            "for i in range(8):\n    A[i, 0] = B[i, 0]\nfor i in range(8):\n    B[i, 2] = A[i, 0]",
            ["RAW of A, root -> root: not carried, distance (), direction ()"],
        ),
    ],
)
def test_known_dependences(body, expected):
    assert [str(d) for d in found(body)] == expected


def test_a_reduction_is_carried_by_its_loop_and_known_as_one():
    deps = found(
        """
        for i, j, k in T.grid(16, 16, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        """,
        ", ".join(f'{name}: T.Buffer((16, 16), "float32")' for name in "ABC"),
    )
    carried = [d for d in deps if d.is_reduction and d.carried_by is not None]
    assert {d.kind.name for d in carried} == {"RAW", "WAR", "WAW"}
    assert {analysis.loop_name(d.carried_by) for d in carried} == {"k"}
    assert {d.nearest for d in carried} == {(0, 0, 1)}
    func = parse(MATMUL)
    assert analysis.carried_dependences(func, "i") == []
    assert len(analysis.carried_dependences(func, "k")) == 5


MATMUL = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"),
         C: T.Buffer((8, 8), "float32")):
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def test_an_example_is_a_pair_of_iterations():
    (dep,) = found("for i, j in T.grid(8, 8):\n    A[i + 1, j] = A[i, j + 2]")
    assert dep.example == ({"i": 0, "j": 2}, {"i": 1, "j": 0})


def test_symbolic_sizes():
    head = "a: T.handle"
    body = """
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n - 3):
            A[i + 3] = A[i]
        """
    (dep,) = found(body, head)
    assert dep.distance == (3,) and dep.exact


def test_an_index_from_memory_may_be_any():
    head = 'A: T.Buffer((16,), "float32"), I: T.Buffer((16,), "int32")'
    deps = found("for i in range(16):\n    A[I[i]] = T.float32(1)", head)
    assert [str(d) for d in deps] == [
        "WAW of A, root -> root: carried by loop i, distance (*), direction (<), may be"
    ]


def test_no_such_loop():
    with pytest.raises(MLCError) as error:
        analysis.carried_dependences(parse(MATMUL), "x")
    assert str(error.value) == "no loop x touches memory\nhint: the loops are i, j, k"


#: isl 0.27 stops in the lexmin of one of its dependences
TRIANGLE = """
@T.prim_func
def main(A: T.Buffer((24,), "int32"), B: T.Buffer((24,), "int32")):
    for i2 in range(0, 1):
        A[T.min(T.max(i2, 0), 23)] = A[T.min(T.max(i2, 0), 23)] + A[(i2 + 1) % 24]
    for i0 in range(0, 2):
        for i1 in range(0, 1 + i0):
            A[i0 * 2 // 2 % 24] = A[T.min(T.max(0, 0), 23)] + A[T.min(T.max(0, 0), 23)]
"""


@example(TRIANGLE)
@settings(max_examples=60 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs_have_the_dependences_that_all_pairs_of_accesses_show(text):
    note(text)
    func = parsed(text)
    expected = by_brute_force(recorded(func))
    seen = {}
    for d in analysis.loop_dependences(func):
        assert d.exact
        names = tuple(map(analysis.loop_name, d.loops))
        by = None if d.carried_by is None else analysis.loop_name(d.carried_by)
        key = (d.kind.name, d.buffer.name, names, by)
        seen.setdefault(key, []).append(d)
    assert seen.keys() == expected.keys()
    for key, deps in seen.items():
        distances = expected[key]
        assert min(d.nearest for d in deps) == min(distances)
        for place in range(len(key[2])):
            values = {x[place] for x in distances}
            known = {d.distance[place] for d in deps}
            assert None in known or known == values
            assert None not in known or len(values) > 1


def by_brute_force(record):
    """(kind, buffer, common loops, carrying loop) -> the distances that there are."""
    found = {}
    for later, (name, at, use, loops) in enumerate(record):
        for other, place, first, before in record[:later]:
            if (name, at) != (other, place) or use == first == "r":
                continue
            kind = {"wr": "RAW", "rw": "WAR", "ww": "WAW"}[first + use]
            common = tuple(x for x in loops if x in before)
            distance = tuple(loops[x] - before[x] for x in common)
            carrier = next((x for x, d in zip(common, distance, strict=True) if d), None)
            found.setdefault((kind, name, common, carrier), set()).add(distance)
    return found
