"""Python text as a tree, by the names of `tvm.script.printer.doc`: for who builds text by hand.

    IdDoc("T").attr("grid").call(LiteralDoc(4), LiteralDoc(8))          T.grid(4, 8)
    ForDoc(TupleDoc([IdDoc("i"), IdDoc("j")]), …, [ExprStmtDoc(…)])     for i, j in …:

`doc_printer.to_python_script(doc)` is its text. A doc may be changed until it is printed; two docs
are equal where they are the same. (What mlcnb prints itself goes through `mlcnb.core.doc`.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

from mlcnb.core.errors import ArgumentError
from mlcnb.ir.expr import FloatImm, IntImm
from mlcnb.ir.path import ObjectPath


class Doc:
    """A piece of text; `source_paths`: what it is the text of."""

    __slots__ = ("__dict__", "_paths")

    @property
    def source_paths(self) -> tuple[ObjectPath, ...]:
        """Where the things stand that it is the text of, in the object that is printed."""
        return getattr(self, "_paths", ())

    @source_paths.setter
    def source_paths(self, paths: Iterable[ObjectPath]) -> None:
        self._paths = tuple(paths)

    def __repr__(self) -> str:
        from mlcnb.script.printer.doc_printer import to_python_script

        return to_python_script(self)


class ExprDoc(Doc):
    """An expression."""

    def attr(self, name: str) -> AttrAccessDoc:
        """`self.name`"""
        return AttrAccessDoc(self, name)

    def call(self, *args: ExprDoc, **kwargs: ExprDoc) -> CallDoc:
        """`self(args, key=value)`"""
        return CallDoc(self, *args, **kwargs)

    def __getitem__(self, indices: Any) -> IndexDoc:
        return IndexDoc(self, indices if isinstance(indices, tuple) else (indices,))

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError(f"{type(self).__name__} cannot be iterated over")


class LiteralDoc(ExprDoc):
    """A string, number, True, False or None.

    Raises:
        TypeError: anything else.
    """

    def __init__(self, value: Any, path: ObjectPath | None = None) -> None:
        number = value.value if isinstance(value, IntImm | FloatImm) else value
        if isinstance(value, IntImm) and value.dtype.is_bool:
            number = bool(number)
        if number is not None and not isinstance(number, str | int | float):
            raise TypeError(f"LiteralDoc: {type(value).__name__} is no literal of Python")
        self.value = number
        self.source_paths = () if path is None else (path,)


class IdDoc(ExprDoc):
    """A name."""

    def __init__(self, name: str) -> None:
        self.name = name


class AttrAccessDoc(ExprDoc):
    """`value.name`"""

    def __init__(self, value: ExprDoc, name: str) -> None:
        self.value, self.name = value, name


class IndexDoc(ExprDoc):
    """`value[indices]`"""

    def __init__(self, value: ExprDoc, indices: Sequence[ExprDoc | SliceDoc]) -> None:
        self.value, self.indices = value, tuple(indices)


class CallDoc(ExprDoc):
    """`callee(args, key=value)`"""

    def __init__(self, callee: ExprDoc, *args: ExprDoc, **kwargs: ExprDoc) -> None:
        self.callee, self.args = callee, args
        self.kwargs_keys, self.kwargs_values = tuple(kwargs), tuple(kwargs.values())


#: the operators of Python, with TVM's numbers
OperationKind = IntEnum(
    "OperationKind",
    "_UnaryStart USub Invert Not _UnaryEnd _BinaryStart Add Sub Mult Div FloorDiv Mod Pow LShift "
    "RShift BitAnd BitOr BitXor Lt LtE Eq NotEq Gt GtE And Or _BinaryEnd _SpecialStart IfThenElse "
    "_SpecialEnd",
    start=0,
)


class OperationDoc(ExprDoc):
    """An operator with its operands; of `IfThenElse`: condition, then, else."""

    def __init__(self, kind: OperationKind, operands: Sequence[ExprDoc]) -> None:
        self.kind, self.operands = OperationKind(kind), tuple(operands)


class LambdaDoc(ExprDoc):
    """`lambda args: body`"""

    def __init__(self, args: Sequence[IdDoc], body: ExprDoc) -> None:
        self.args, self.body = tuple(args), body


class TupleDoc(ExprDoc):
    """`(x, y)`"""

    def __init__(self, elements: Sequence[ExprDoc]) -> None:
        self.elements = tuple(elements)


class ListDoc(ExprDoc):
    """`[x, y]`"""

    def __init__(self, elements: Sequence[ExprDoc]) -> None:
        self.elements = tuple(elements)


class DictDoc(ExprDoc):
    """`{key: value}`"""

    def __init__(self, content: Mapping[ExprDoc, ExprDoc]) -> None:
        self.keys, self.values = tuple(content), tuple(content.values())


class SliceDoc(Doc):
    """`start:stop:step`, as an index."""

    def __init__(
        self,
        start: ExprDoc | None = None,
        stop: ExprDoc | None = None,
        step: ExprDoc | None = None,
    ) -> None:
        self.start, self.stop, self.step = start, stop, step


class StmtDoc(Doc):
    """A statement."""

    __slots__ = ("_comment",)

    @property
    def comment(self) -> str | None:
        """A remark that is printed with it; None for none."""
        return getattr(self, "_comment", None)

    @comment.setter
    def comment(self, text: str | None) -> None:
        self._comment = text


class StmtBlockDoc(Doc):
    """Statements, one after the other."""

    def __init__(self, stmts: Sequence[StmtDoc]) -> None:
        self.stmts = tuple(stmts)


class AssignDoc(StmtDoc):
    """`lhs: annotation = rhs`; one of both may be missing.

    Raises:
        ArgumentError: both are, or several names have an annotation.
    """

    def __init__(
        self, lhs: ExprDoc, rhs: ExprDoc | None = None, annotation: ExprDoc | None = None
    ) -> None:
        if rhs is None and annotation is None:
            raise ArgumentError("AssignDoc: neither a value nor an annotation is given")
        if annotation is not None and not isinstance(lhs, IdDoc | AttrAccessDoc | IndexDoc):
            raise ArgumentError("AssignDoc: only one name can have an annotation")
        self.lhs, self.rhs, self.annotation = lhs, rhs, annotation


class IfDoc(StmtDoc):
    """`if predicate: … else: …`

    Raises:
        ArgumentError: both branches are empty.
    """

    def __init__(
        self, predicate: ExprDoc, then_branch: Sequence[StmtDoc], else_branch: Sequence[StmtDoc]
    ) -> None:
        if not then_branch and not else_branch:
            raise ArgumentError("IfDoc: both branches are empty")
        self.predicate = predicate
        self.then_branch, self.else_branch = tuple(then_branch), tuple(else_branch)


class WhileDoc(StmtDoc):
    """`while predicate: …`"""

    def __init__(self, predicate: ExprDoc, body: Sequence[StmtDoc]) -> None:
        self.predicate, self.body = predicate, tuple(body)


class ForDoc(StmtDoc):
    """`for lhs in rhs: …`"""

    def __init__(self, lhs: ExprDoc, rhs: ExprDoc, body: Sequence[StmtDoc]) -> None:
        self.lhs, self.rhs, self.body = lhs, rhs, tuple(body)


class ScopeDoc(StmtDoc):
    """`with rhs as lhs: …`; lhs None for no name."""

    def __init__(self, lhs: ExprDoc | None, rhs: ExprDoc, body: Sequence[StmtDoc]) -> None:
        self.lhs, self.rhs, self.body = lhs, rhs, tuple(body)


class ExprStmtDoc(StmtDoc):
    """An expression on a line of its own."""

    def __init__(self, expr: ExprDoc) -> None:
        self.expr = expr


class AssertDoc(StmtDoc):
    """`assert test, msg`"""

    def __init__(self, test: ExprDoc, msg: ExprDoc | None = None) -> None:
        self.test, self.msg = test, msg


class ReturnDoc(StmtDoc):
    """`return value`"""

    def __init__(self, value: ExprDoc) -> None:
        self.value = value


class FunctionDoc(StmtDoc):
    """`def name(args) -> return_type: …`; an argument is an AssignDoc."""

    def __init__(
        self,
        name: IdDoc,
        args: Sequence[AssignDoc],
        decorators: Sequence[ExprDoc],
        return_type: ExprDoc | None,
        body: Sequence[StmtDoc],
    ) -> None:
        self.name, self.args, self.decorators = name, tuple(args), tuple(decorators)
        self.return_type, self.body = return_type, tuple(body)


class ClassDoc(StmtDoc):
    """`class name: …`"""

    def __init__(self, name: IdDoc, decorators: Sequence[ExprDoc], body: Sequence[StmtDoc]) -> None:
        self.name, self.decorators, self.body = name, tuple(decorators), tuple(body)


class CommentDoc(StmtDoc):
    """`# comment`, on lines of its own."""

    def __init__(self, comment: str) -> None:
        self.comment = comment


class DocStringDoc(StmtDoc):
    """A string in three quotes, on lines of its own."""

    def __init__(self, docs: str) -> None:
        self.comment = docs
