"""An example of a primitive: a generator that yields its schedule before and after the call.

    @primitive
    def split():
        'Cuts a loop into several.'
        sch = Schedule(double(16))
        (i,) = sch.get_loops("B")
        yield sch                      what stands above is the preparation
        sch.split(i, [None, 4])
        yield sch                      what stands above is the call that is shown
        sch.split(i, [3, 3])           what follows must be refused

The lines that a reader sees are those that were run.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from textwrap import dedent
from typing import Any

import numpy as np

from mlcnb.codegen.interp import run_prim_func
from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.core.text import suggestion
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import Schedule

Steps = Callable[[], Iterator[Schedule]]


@dataclass(frozen=True, repr=False)
class Example(display.Shown):
    """What a primitive does to one program. See the module's text.

    Attributes:
        name: of the primitive.
        says: what it does, in one sentence.
        steps: the generator.
    """

    name: str
    says: str
    steps: Steps

    @cached_property
    def _ran(self) -> tuple[Schedule, Schedule, MLCError]:
        """The schedule before, after, and the refusal."""
        running = self.steps()
        before = next(running).copy()
        after = next(running)
        kept = after.copy()
        try:
            next(running, None)
        except MLCError as error:
            return before, kept, error
        raise AssertionError(f"{self.name}: the last lines of its example are not refused")

    @property
    def before(self) -> PrimFunc:
        """The program that the call is made on."""
        return _program(self._ran[0])

    @property
    def after(self) -> PrimFunc:
        """The program that the call leaves."""
        return _program(self._ran[1])

    @property
    def schedule(self) -> Schedule:
        """A schedule after the call, to go on with."""
        return self._ran[1].copy()

    @property
    def refusal(self) -> MLCError:
        """Why the last call of the example is refused."""
        return self._ran[2]

    @cached_property
    def source(self) -> tuple[str, str, str]:
        """The lines that prepare, those of the call, those that are refused."""
        text = dedent(inspect.getsource(self.steps))
        function = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef))
        body = function.body
        if ast.get_docstring(function) is not None:
            body = body[1:]
        lines, parts, start = text.splitlines(), [], body[0].lineno
        for statement in body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Yield):
                parts.append(lines[start - 1 : statement.lineno - 1])
                start = statement.lineno + 1
        parts.append(lines[start - 1 :])
        prepare, call, refused = ("\n".join(dedent("\n".join(p)).splitlines()) for p in parts)
        return prepare, call, refused

    @cached_property
    def difference(self) -> float:
        """How far the results after are from those before, by the reference interpreter.

        Relative to the largest element; both programs run on the same random numbers.
        """
        first, second = _results(self.before), _results(self.after)
        scale = max((float(np.max(np.abs(x), initial=0.0)) for x in first), default=1.0) or 1.0
        pairs = zip(first, second, strict=True)
        apart = max((float(np.max(np.abs(x - y), initial=0.0)) for x, y in pairs), default=0.0)
        return apart / scale


class Gallery(Mapping[str, Example], display.Shown):
    """All examples by the primitive's name; shows itself as a table, by family."""

    def __init__(self, families: Mapping[str, Mapping[str, Example]]) -> None:
        self.families = families
        self._all = {name: x for family in families.values() for name, x in family.items()}

    def __getitem__(self, name: str) -> Example:
        if name not in self._all:
            near = suggestion(name, self._all) or f"one of {', '.join(self._all)}"
            raise MLCError(f"gallery: no primitive {name!r}", hint=near)
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


#: families in the order in which one learns them; others come after
_FIRST = ("loops", "places", "memory", "reductions", "tiles", "sampling")
_FOUND: dict[str, dict[str, Example]] = {}


def primitive(steps: Steps) -> Steps:
    """Decorator: this generator is the example of the primitive that it is named after.

    Its docstring says what the primitive does; its file's, before the colon, names the family.
    """
    module = inspect.getmodule(steps)
    family = (getattr(module, "__doc__", None) or "").partition(":")[0]
    example = Example(steps.__name__, inspect.getdoc(steps) or "", steps)
    _FOUND.setdefault(family, {})[example.name] = example
    return steps


def gallery(name: str | None = None) -> Any:
    """The example of one primitive, or all of them.

    Args:
        name: of a primitive, as it is spelled on `Schedule`.

    Raises:
        MLCError: there is no such primitive.
    """
    found = _load()
    return found if name is None else found[name]


@cache
def _load() -> Gallery:
    """Import every file of the folder: a new example is found by lying here."""
    package = importlib.import_module("mlcnb.testing.gallery")
    names = [info.name for info in pkgutil.iter_modules(package.__path__)]
    for name in sorted(names, key=lambda n: (_FIRST + (n,)).index(n)):
        importlib.import_module(f"mlcnb.testing.gallery.{name}")
    return Gallery(_FOUND)


def _program(sch: Schedule) -> PrimFunc:
    return next(f for f in sch.mod.of_kind(PrimFunc).values())


def _results(func: PrimFunc, seed: int = 0) -> list[np.ndarray]:
    """What a function leaves in its buffers, from random numbers in all of them."""
    random = np.random.default_rng(seed)
    args = [_random(random, b) for b in func.buffers]
    run_prim_func(func, args)
    return [np.asarray(a, dtype="float64") for a in args]


def _random(random: np.random.Generator, buffer: Any) -> np.ndarray:
    shape = tuple(int(n) for n in buffer.shape)
    if buffer.dtype.is_float:
        return random.standard_normal(shape).astype(buffer.dtype.numpy)
    return random.integers(0, 2, shape).astype(buffer.dtype.numpy)
