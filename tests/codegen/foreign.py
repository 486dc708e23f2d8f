"""Kernels for machines that are not this one, compiled in a process of their own: `answer(…)`."""

from __future__ import annotations

from typing import Any

import mlcnb as mlc
from mlcnb.core.errors import MLCError
from mlcnb.script import from_source

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((64, 8), "{kind}"), B: T.Buffer((64,), "{kind}")):
    for i in T.parallel(64):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            B[v] = {value}
"""
VALUES = [
    "T.exp(A[v, 0]) * A[v, 1]",
    "A[v, 0] + A[v, 1] * A[v, 2]",
    "T.Cast('{kind}', T.Cast('int8', A[v, 3]))",
    "T.max(A[v, 0], T.tanh(A[v, 1]))",
]


def program(kind: str, value: str) -> Any:
    """A kernel of that dtype."""
    return from_source(PROGRAM.replace("{value}", value).replace("{kind}", kind))


def answer(target: str, kind: str = "float32", value: str = VALUES[0]) -> str:
    """ "made" with the object's size and the assembly's, or the error."""
    try:
        ex = mlc.compile(program(kind, value), target=target, bounds="trust")
        (kernel,) = ex.kernels.values()
        return f"made: {kernel.object_size > 0} {len(kernel.asm) > 0}"
    except MLCError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 (which is what this looks for)
        return f"untyped {type(error).__name__}: {error}"
