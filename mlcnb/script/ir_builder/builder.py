"""The builder: a stack of frames. What a frame makes at its end goes to the frame around it."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from mlcnb.core.errors import ArgumentError, MLCError
from mlcnb.core.node import Node, replace, rewrite
from mlcnb.core.text import kind_of
from mlcnb.ir.expr import Var
from mlcnb.relax.expr import Var as GraphVar
from mlcnb.script.parser.body import Body
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import IterVar, Stmt

F = TypeVar("F", bound="Frame")
N = TypeVar("N", bound=Node)
_current: ContextVar[IRBuilder | None] = ContextVar("ir_builder", default=None)


class Frame:
    """Something that is built while its `with` block is open.

    `value` is what `with … as x` gives.
    """

    #: how an error calls it
    title = "a frame"
    value: Any = None

    def __enter__(self) -> Any:
        IRBuilder.current().frames.append(self)
        self.enter()
        return self.value if self.value is not None else self

    def __exit__(self, kind: Any, *_exc: object) -> None:
        frames = IRBuilder.current().frames
        frames.pop()
        if kind is None:
            self.leave()

    def enter(self) -> None:
        """What is to be done at its begin."""

    def leave(self) -> None:
        """What is to be done at its end."""


class Lines(Frame):
    """A frame that holds statements."""

    def __init__(self) -> None:
        self.out = Body()

    def add(self, stmt: Stmt) -> None:
        """One more statement."""
        self.out.add(stmt)


class IRBuilder:
    """Builds one function or module: `with IRBuilder() as ib: …`, then `ib.get()`."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.result: Any = None
        #: statements outside of all functions
        self.loose = Lines()
        self.names: dict[Node, str] = {}
        self._tokens: list[Any] = []

    def __enter__(self) -> IRBuilder:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *_exc: object) -> None:
        _current.reset(self._tokens.pop())

    @staticmethod
    def current() -> IRBuilder:
        """The innermost builder.

        Raises:
            ArgumentError: there is none.
        """
        found = _current.get()
        if found is None:
            raise ArgumentError("no IRBuilder is open", hint="with IRBuilder() as ib:")
        return found

    @staticmethod
    def is_in_scope() -> bool:
        """True inside of `with IRBuilder():`."""
        return _current.get() is not None

    @staticmethod
    def name(name: str, value: Any) -> Any:
        """Give a variable, an axis or a buffer its name; gives the value back."""
        IRBuilder.current().names[value.var if isinstance(value, IterVar) else value] = name
        return value

    @staticmethod
    def name_many(names: Sequence[str], values: Sequence[Any]) -> list[Any]:
        """Give several their names."""
        return [IRBuilder.name(n, v) for n, v in zip(names, values, strict=True)]

    def get(self) -> Any:
        """What was built: a function, a module, or statements that stand in none.

        Raises:
            MLCError: nothing was, or a frame is open.
        """
        if self.frames:
            raise MLCError(f"{self.frames[-1].title} is still open")
        if self.result is None and not self.loose.out.is_empty:
            self.result = self.named(self.loose.out.finish())
        if self.result is None:
            raise MLCError("nothing was built", hint="with T.prim_func(): …")
        return self.result

    def finish(self, result: Any) -> None:
        """The outermost frame is done."""
        if self.result is not None:
            raise MLCError("two functions were built", hint="with I.ir_module(): around them")
        self.result = result

    def named(self, body: N) -> N:
        """A body, or a graph function, with the names that were given."""
        if not self.names:
            return body
        made: dict[Node, Node] = {n: _renamed(n, name) for n, name in self.names.items()}
        for old, new in list(made.items()):
            if isinstance(old, Buffer) and isinstance(new, Buffer):
                made[old.data] = new.data
        return rewrite(body, lambda _: None, enter=made.get)


def _renamed(n: Node, name: str) -> Node:
    if isinstance(n, Buffer):
        return replace(n, name=name, data=replace(n.data, name=name))
    if isinstance(n, Var):
        return replace(n, name=name)
    if isinstance(n, GraphVar):
        return replace(n, name_hint=name)
    raise MLCError(f"{kind_of(n)} has no name")


def find(kind: type[F], what: str) -> F:
    """The innermost open frame of a kind.

    Raises:
        MLCError: there is none; `what` is the word that needs it.
    """
    for frame in reversed(IRBuilder.current().frames):
        if isinstance(frame, kind):
            return frame
    raise MLCError(f"{what} stands in no {kind.title}")


def lines(what: str) -> Lines:
    """The frame that takes the next statement."""
    builder = IRBuilder.current()
    inner = builder.frames[-1] if builder.frames else builder.loose
    if not isinstance(inner, Lines):
        raise MLCError(f"{what} stands in {inner.title}", hint="with T.prim_func():")
    return inner
