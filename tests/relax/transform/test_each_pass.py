"""Every pass has a test of whole modules before and after, and one where it must do nothing.

    check_pass(P(), before, after)                      before and after
    assert_structural_equal(P()(before), after)
    assert P()(before).script() == after.script()
    assert P()(mod) is mod                              nothing to do
    check_pass(P(), mod, mod)

Found by reading the tests: a call counts for a pass where the pass is made in it, or in a variable,
a function or a decorator's parameter of the same file that it names.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from mlcnb.ir.transform import Pass
from mlcnb.relax import transform

TESTS = Path(__file__).parents[2]
#: where passes are tested that stand above `relax.transform`, or belong to pattern and libraries
MORE = ("relax/dpl", "relax/backend", "meta_schedule", "dlight")
#: no passes, but what a pass is made of
BASES = {"FunctionPass", "DataflowBlockPass"}


def passes() -> Iterator[type]:
    """Every class of pass in `relax.transform`, once however many names it has."""
    found = {getattr(transform, name) for name in transform.__all__}
    classes = {c for c in found if inspect.isclass(c) and issubclass(c, Pass)}
    yield from sorted((c for c in classes if c.__name__ not in BASES), key=lambda c: c.__name__)


def names_of(cls: type) -> set[str]:
    """All names that a pass has there."""
    return {name for name in transform.__all__ if getattr(transform, name) is cls}


class File:
    """One file of tests: what its functions and variables name, however far away."""

    def __init__(self, path: Path) -> None:
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.named: dict[str, ast.AST] = {}
        for stmt in self.tree.body:
            self.name(stmt, self.named)

    @staticmethod
    def name(stmt: ast.AST, named: dict[str, ast.AST]) -> None:
        """Keep what a statement binds."""
        if isinstance(stmt, ast.FunctionDef):
            named[stmt.name] = stmt
        elif isinstance(stmt, ast.Assign):
            named.update(
                {n.id: stmt.value for t in stmt.targets for n in ast.walk(t) if type(n) is ast.Name}
            )
        elif isinstance(stmt, ast.For):
            named.update({n.id: stmt.iter for n in ast.walk(stmt.target) if type(n) is ast.Name})

    def reached(self, node: ast.AST, named: dict[str, ast.AST]) -> set[str]:
        """The names in a piece of program, and in what they stand for."""
        found: set[str] = set()
        stack = [node]
        while stack:
            for n in ast.walk(stack.pop()):
                name = getattr(n, "id", None) or getattr(n, "attr", None)
                if name and name not in found:
                    found.add(name)
                    stack += [d[name] for d in (named, self.named) if name in d]
        return found

    def claims(self) -> Iterator[tuple[str, set[str]]]:
        """("changes" or "stays", the names that the claim reaches) of each test."""
        for test in self.tree.body:
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                named = self.locals_of(test)
                for node in ast.walk(test):
                    for kind, about in claimed(node):
                        yield kind, self.reached(about, named)

    def locals_of(self, test: ast.FunctionDef) -> dict[str, ast.AST]:
        """What the variables of a test stand for, and the parameters that decorators give it."""
        named: dict[str, ast.AST] = {}
        for node in ast.walk(test):
            self.name(node, named)
        for decorator in test.decorator_list:
            if isinstance(decorator, ast.Call) and decorator.args:
                for word in ast.walk(decorator.args[0]):
                    if isinstance(word, ast.Constant) and isinstance(word.value, str):
                        named.update(dict.fromkeys(word.value.split(", "), decorator.args[-1]))
        return named


def claimed(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What a piece of a test says of a pass."""
    if isinstance(node, ast.Call):
        called = getattr(node.func, "id", getattr(node.func, "attr", ""))
        given = [ast.dump(a) for a in node.args]
        if called == "check_pass" and len(given) >= 3:
            yield "stays" if given[1] == given[2] else "changes", node.args[0]
        elif called == "assert_structural_equal" and len(given) == 2:
            yield "changes", node.args[0]
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is):
        left, right = node.left, node.comparators[0]
        if isinstance(left, ast.Call) and ast.dump(right) in [ast.dump(a) for a in left.args]:
            yield "stays", left.func
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
        if is_text(node.left) and any(map(is_text, ast.walk(node.comparators[0]))):
            yield "changes", node.left


def is_text(node: ast.AST) -> bool:
    """`mod.script()`"""
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "script"


@cache
def claims_of_tests() -> dict[str, set[str]]:
    """ "changes" and "stays" -> names that tests claim it of."""
    files = [*Path(__file__).parent.glob("test_*.py")]
    files += [f for part in MORE for f in (TESTS / part).rglob("test_*.py")]
    files += TESTS.rglob("test_choice.py")
    found: dict[str, set[str]] = {"changes": set(), "stays": set()}
    for file in files:
        for kind, names in File(file).claims():
            found[kind] |= names
    return found


@pytest.mark.parametrize("cls", [*passes()], ids=lambda c: c.__name__)
def test_before_and_after_and_nothing_to_do(cls: type) -> None:
    missing = [kind for kind, names in claims_of_tests().items() if not names_of(cls) & names]
    assert not missing, f"{cls.__name__}: no test says that it {' nor '.join(missing)}"
