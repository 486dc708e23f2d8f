"""CompareBeforeAfter: a test of a pass that is written as two programs.

class TestEmptyLoop(CompareBeforeAfter):
    transform = tir.transform.RemoveNoOp()

    def before(A: T.Buffer(16, "int32")):        # TVMScript, as under @T.prim_func(private=True)
        for i in T.serial(0):
            A[i] = 1

    def expected(A: T.Buffer(16, "int32")):      # or `expected = before`, or a class of error
        T.evaluate(0)

`before` and `expected` may also be programs, modules written as classes, methods that return one
(they take `self`), or pytest fixtures; `transform` a pass, a method or a fixture that returns one.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, ClassVar

from mlcnb.core.errors import MLCError
from mlcnb.ir.function import BaseFunc
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.script.parser.decorators import prim_func_in


class CompareBeforeAfter:
    """Base of such tests: pytest runs `test_compare` of each subclass. As TVM's."""

    check_well_formed: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        frame = sys._getframe(1)
        for name in ("before", "expected", "transform"):
            given = _given(cls, name)
            if given is not None:
                setattr(cls, name, _as_fixture(given, name, frame, cls.check_well_formed))

    def test_compare(self, before: Any, expected: Any, transform: Any) -> None:
        """`transform(before)` is `expected`, or raises it."""
        if inspect.isclass(expected) and issubclass(expected, Exception):
            _check_raises(expected, before, transform)
            return
        assert_structural_equal(transformed(before, transform), expected)


def _check_raises(expected: type[Exception], before: Any, transform: Any) -> None:
    try:
        after = transformed(before, transform)
    except expected:
        return
    raise AssertionError(f"{expected.__name__} was not raised; the result is\n{after!r}")


def transformed(program: Any, transform: Callable[[IRModule], IRModule]) -> Any:
    """What a pass makes of a module; of a function on its own, the function."""
    if isinstance(program, IRModule):
        return transform(program)
    return transform(IRModule.make({"main": program}))["main"]


def _given(cls: type, name: str) -> Any:
    """What this very class says for `name`, written small or with a capital."""
    found = [cls.__dict__[n] for n in (name, name.capitalize()) if n in cls.__dict__]
    if len(found) > 1:
        raise MLCError(f"{cls.__name__} has both {name} and {name.capitalize()}")
    return found[0] if found else None


def _as_fixture(given: Any, name: str, frame: FrameType, checked: bool) -> Any:
    import pytest

    if type(given).__name__.startswith("FixtureFunction") or hasattr(
        given, "_pytestfixturefunction"
    ):
        return given
    if inspect.isfunction(given) and "self" in inspect.signature(given).parameters:
        return pytest.fixture(name=name)(given)

    def value(self: Any) -> Any:
        return given if name == "transform" else _program(given, frame, checked)

    return pytest.fixture(name=name)(value)


def _program(given: Any, frame: FrameType, checked: bool) -> Any:
    """A program from what stands in the class: itself, or read as TVMScript."""
    if isinstance(given, IRModule | BaseFunc):
        return given
    if inspect.isfunction(given):
        return prim_func_in(frame, given, checked)
    if inspect.isclass(given) and not issubclass(given, Exception):
        return _module_of(given)
    return given


def _module_of(given: type) -> IRModule:
    """A class of decorated functions as a module."""
    members = {k: v for k, v in vars(given).items() if not k.startswith("_")}
    if not all(isinstance(member, BaseFunc) for member in members.values()):
        raise MLCError(
            f"{given.__name__} is no module: some of {', '.join(members)} are no functions of one",
            hint="write @I.ir_module above the class",
        )
    return IRModule.make({k: member.with_attr("global_symbol", k) for k, member in members.items()})
