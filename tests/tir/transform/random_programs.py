"""Random loop programs over local buffers: loops of every serial kind, branches, lets, whiles.

Indices are sums of loop variables, cut to the buffer where they may leave it. What the programs
compute means nothing; every pass has to keep it to the last bit.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

import mlcnb as mlc
from mlcnb.script import parse
from mlcnb.tir import PrimFunc
from mlcnb.tir.transform import (
    eliminate_common_subexpr,
    hoist_if_then_else,
    lower,
    narrow_data_type,
    rewrite_storage,
)
from tests.tir.transform.lowering import inputs, interpreted, same_bits

HEAD = """
@T.prim_func
def main(A: T.Buffer((6, 8), "int32"), B: T.Buffer((6, 8), "int32")):
"""
#: the shapes of buffers
SHAPES = {"A": (6, 8), "B": (6, 8), "C": (8,), "D": (4, 6), "E": (1,), "F": (3, 12)}
LOCAL = ("C", "D", "E", "F")


@dataclass
class Writer:
    """Writes one program.

    fills: whether local buffers are filled before they are used; without it, elements may be read
    that nobody wrote, which the interpreter makes -1.
    """

    rng: random.Random
    fills: bool
    lines: list[str] = field(default_factory=list)
    #: loop variable or let -> its largest value (its smallest is 0)
    bounds: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def program(self) -> str:
        """The text."""
        self.put(1, *(f'{name} = T.alloc_buffer({SHAPES[name]}, "int32")' for name in LOCAL))
        self.put(1, 'W = T.alloc_buffer((1,), "int32")')
        self.put(1, "for i, j in T.grid(6, 8):", "    B[i, j] = i - j")
        for name in LOCAL if self.fills else ():
            axes = ", ".join("ij"[: len(SHAPES[name])])
            grid = ", ".join(map(str, SHAPES[name]))
            self.put(1, f"for {axes} in T.grid({grid}):", f"    {name}[{axes}] = i * 3 + 1")
        for _ in range(self.rng.randint(1, 3)):
            self.statement(1, 0)
        return HEAD + "\n".join(self.lines) + "\n"

    def put(self, indent: int, *lines: str) -> None:
        """Add lines."""
        self.lines += ["    " * indent + line for line in lines]

    def statement(self, indent: int, depth: int) -> None:
        """One random statement."""
        kinds = ["store"] * 2 + (["loop"] * 5 + ["branch", "let", "repeat"] if depth < 3 else [])
        if depth < 2:
            kinds = ["loop"] * 6 + ["branch", "repeat"]
        getattr(self, self.rng.choice(kinds))(indent, depth)

    def body(self, indent: int, depth: int) -> None:
        """One to three statements."""
        for _ in range(self.rng.choice([1, 1, 2, 2, 3])):
            self.statement(indent, depth + 1)

    def fresh(self, prefix: str) -> str:
        """A new name."""
        self.count += 1
        return f"{prefix}{self.count}"

    def loop(self, indent: int, depth: int) -> None:
        """A loop; its extent may depend on another one."""
        name, extent = self.fresh("i"), self.rng.choice([1, 2, 2, 3, 4, 6])
        kind = self.rng.choice(["range"] * 5 + ["T.unroll", "T.vectorized"])
        text = str(extent)
        if kind == "range" and self.bounds and self.rng.random() < 0.1:
            text = f"T.min({extent}, {self.rng.choice(list(self.bounds))} + 1)"
        self.put(indent, f"for {name} in {kind}({text}):")
        self.bounds[name] = extent - 1
        self.body(indent + 1, depth)
        del self.bounds[name]

    def branch(self, indent: int, depth: int) -> None:
        """A branch, perhaps with an else."""
        self.put(indent, f"if {self.condition()}:")
        self.body(indent + 1, depth)
        if self.rng.random() < 0.3:
            self.put(indent, "else:")
            self.body(indent + 1, depth)

    def let(self, indent: int, depth: int) -> None:
        """A variable for an index."""
        name = self.fresh("x")
        text, most = self.sum()
        self.put(indent, f"{name}: T.int32 = {text}")
        self.bounds[name] = most
        self.statement(indent, depth + 1)
        del self.bounds[name]

    def condition(self) -> str:
        """A comparison of an index, or of a value from memory."""
        if self.rng.random() < 0.2:
            return f"{self.load()} < {self.rng.randint(0, 6)}"
        text, most = self.sum()
        sign = self.rng.choice(["<", "<=", ">", ">=", "==", "!="])
        return f"{text} {sign} {self.rng.randint(0, most + 1)}"

    def sum(self) -> tuple[str, int]:
        """A sum of variables, and its largest value (the smallest is 0)."""
        names = [v for v in self.bounds if self.rng.random() < 0.7]
        factors = [self.rng.choice([1, 1, 1, 2, 3, 4]) for _ in names]
        most = sum(f * self.bounds[v] for v, f in zip(names, factors, strict=True))
        terms = [v if f == 1 else f"{v} * {f}" for v, f in zip(names, factors, strict=True)]
        text = " + ".join(terms) or "0"
        if terms and self.rng.random() < 0.15:
            by = self.rng.choice([2, 3, 4])
            if self.rng.random() < 0.5:
                return f"({text}) // {by}", most // by
            return f"({text}) % {by}", min(most, by - 1)
        if self.rng.random() < 0.15:
            return f"{most} - ({text})", most
        return text, most

    def index(self, size: int) -> str:
        """An index below `size`."""
        if self.rng.random() < 0.05:
            return f"T.max(T.min({self.load()}, {size - 1}), 0)"
        text, most = self.sum()
        if most >= size:
            cut = self.rng.choice(["({0}) % {1}", "T.min({0}, {1} - 1)"])
            return cut.format(text, size)
        return text

    def access(self, name: str) -> str:
        """An element of a buffer."""
        return f"{name}[{', '.join(self.index(n) for n in SHAPES[name])}]"

    def load(self) -> str:
        """An element of any buffer."""
        return self.access(self.rng.choice(list(SHAPES)))

    def store(self, indent: int, _depth: int) -> None:
        """An element becomes a sum of others."""
        target = self.access(self.rng.choice([*LOCAL, *LOCAL, "B"]))
        terms = [self.load() for _ in range(self.rng.randint(1, 2))] + [self.sum()[0]]
        if self.rng.random() < 0.2:
            terms[0] = f"T.if_then_else({self.condition()}, {terms[0]}, 5)"
        self.put(indent, f"{target} = {' + '.join(terms)}")

    def repeat(self, indent: int, depth: int) -> None:
        """A while that counts in memory: one in a program."""
        if any("while" in line for line in self.lines):
            self.loop(indent, depth)
            return
        self.put(indent, "W[0] = 0", "while W[0] < 3:")
        self.body(indent + 1, depth)
        self.put(indent + 1, "W[0] = W[0] + 1")


def random_program(seed: int, fills: bool) -> PrimFunc:
    """The program of a seed."""
    return parse(random_text(seed, fills))


def random_text(seed: int, fills: bool) -> str:
    """Its text."""
    return Writer(random.Random(seed), fills).program()


def check_program(seed: int) -> None:
    """A program computes the same after every pass, and compiled, to the last bit.

    Even seeds fill all memory first; what the others may read unwritten is -1 in the interpreter
    alone, so they are not compiled, and do not share memory.
    """
    fills = seed % 2 == 0
    func = random_program(seed, fills)
    expected = interpreted(func)
    for step in lower(func, steps=True):
        if step.changed:
            for x, y in zip(expected, interpreted(step.after), strict=True):
                np.testing.assert_array_equal(y, x, err_msg=f"after {step.name}")
    lowered = lower(func)
    same_bits(lowered, eliminate_common_subexpr(lowered))
    same_bits(lowered, narrow_data_type(lowered, 16))
    same_bits(lowered, hoist_if_then_else(lowered))
    if fills:
        same_bits(lowered, rewrite_storage(lowered))
        compiled = inputs(func)
        mlc.compile(func, target="llvm")(*compiled)
        for x, y in zip(expected, compiled, strict=True):
            np.testing.assert_array_equal(y, x, err_msg="compiled with LLVM")
