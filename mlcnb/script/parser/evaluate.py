"""Python expressions to values: IR expressions where variables take part, else Python values.

    i * 4 + 1       -> Add(Mul(i, 4), 1)       unfolded: text reads back as it was printed
    4 * 32          -> 128                     Python numbers, computed by Python
    A[i, j]         -> BufferLoad              A[0:4] -> Sliced
    T.exp(x)        -> what T.exp makes        names come from the scope, then from around it

In a text (`trusted` is False) only the words of the namespaces can be called; under a decorator the
program is the user's own code, and so are the functions that it calls.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import Any

from mlcnb.core.errors import MLCError, ParseError
from mlcnb.core.text import suggestion
from mlcnb.ir import expr as e
from mlcnb.ir.expr import GlobalVar, PrimExpr
from mlcnb.relax.expr import Constant, Expr
from mlcnb.relax.function_table import FunctionTable
from mlcnb.script import build, words
from mlcnb.script.frames import Cell, Frame, LetType, Sliced
from mlcnb.script.parser import operate
from mlcnb.script.parser.advice import (
    NOT_SCRIPT,
    OF_PYTHON,
    ModuleRef,
    culprit,
    name_hint,
    plain_message,
    title,
)
from mlcnb.script.parser.macro import Macro
from mlcnb.script.parser.operate import is_prim
from mlcnb.script.parser.scope import MISSING, Scope
from mlcnb.script.parser.source import Source, SourceError
from mlcnb.script.relax.convert import is_stored, stored_constant
from mlcnb.script.relax.tensor_attributes import TENSOR_ATTRIBUTES, TENSOR_METHODS, item
from mlcnb.script.tir.buffer_methods import METHODS
from mlcnb.script.tir.layouts import index_map_of
from mlcnb.tir.buffer import Buffer

#: what calling a word of a namespace may raise when the program uses it wrongly
_MISUSE = (MLCError, TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError)


class Evaluator:
    """Evaluates expressions of one program."""

    def __init__(self, source: Source, scope: Scope, trusted: bool) -> None:
        self.source = source
        self.scope = scope
        self.trusted = trusted
        #: constants of the metadata that are read already, by the id of their entry
        self.constants: dict[int, Constant] = {}
        #: dtype of bare integers in expressions
        self.int_dtype = "int32"
        #: in a loop function: what the loop functions of the module return, by their names
        self.results: dict[str, str] | None = None
        #: the virtual devices of the module around it; None where there is no module
        self.vdevices: tuple[Any, ...] | None = None
        #: the functions of the module around it, which `R.emit_te` adds to
        self.table: FunctionTable | None = None
        #: in a graph function: reads the lines of a macro where it is called, and gives its value
        self.expand: Callable[..., Any] | None = None

    def error(self, place: Any, message: str, hint: str | None = None) -> ParseError:
        """An error that points at a place of the source."""
        return self.source.error(place, message, hint)

    @contextmanager
    def blame(self, place: Any) -> Any:
        """What goes wrong inside is an error at `place`."""
        try:
            yield
        except ParseError:
            raise
        except MLCError as error:
            raise self.error(place, error.message, error.hint) from error
        except _MISUSE as error:
            raise self.error(place, plain_message(error)) from error

    def value(self, node: ast.expr) -> Any:
        """What an expression stands for."""
        rule = _RULES.get(type(node))
        if rule is None:
            what = type(node).__name__
            raise self.error(node, f"TVMScript has no {what} expression", NOT_SCRIPT.get(what))
        return rule(self, node)

    def expr(self, node: ast.expr) -> PrimExpr:
        """A scalar expression."""
        return self.as_expr(self.value(node), node)

    def as_expr(self, value: Any, node: ast.AST) -> PrimExpr:
        """A value as a scalar expression."""
        if isinstance(value, Frame):
            raise self.error(node, f"{title(value)} is no value", "it stands on a line of its own")
        if isinstance(value, PrimExpr | int | float | str | Sliced):
            with self.blame(node):
                return build.as_expr(value, self.int_dtype)
        raise self.error(node, f"a scalar expression is expected, this is {title(value)}")

    # the rules -----------------------------------------------------------------------------------

    def constant(self, node: ast.Constant) -> Any:
        """A literal."""
        if isinstance(node.value, bytes | complex):
            raise self.error(node, f"TVMScript has no {type(node.value).__name__} literals")
        return node.value

    def name(self, node: ast.Name) -> Any:
        """A name: of the program, of what is around it, of Python."""
        found = self.scope.find(node.id)
        if found is not MISSING:
            if isinstance(found, Cell):
                return found.as_prim_expr()
            return words.LOOP_RANGE if found is range else found
        if node.id == "range":
            return words.LOOP_RANGE
        if node.id in operate.BUILTINS:
            return operate.BUILTINS[node.id]
        if node.id in ("cls", "Module"):
            return ModuleRef(node.id)
        raise self.unknown_name(node)

    def unknown_name(self, node: ast.Name) -> ParseError:
        """The error for a name that means nothing here."""
        if node.id == "metadata":
            hint = "the text was printed without its constants: print it with show_meta=True"
            return self.error(node, "the constants of this text are missing", hint)
        if node.id in dir(builtins):
            message = f"{node.id} is Python's own: a program is read, not run"
            return self.error(node, message, OF_PYTHON.get(node.id))
        return self.error(node, f"no name {node.id!r} here", name_hint(node.id, self.scope))

    def attribute(self, node: ast.Attribute) -> Any:
        """`T.exp`, `A.data`, `cls.f`; under a decorator, an attribute of anything."""
        owner = self.value(node.value)
        if isinstance(owner, ModuleRef):
            return self.global_var(owner, node)
        if words.is_namespace(owner):
            return self.word(owner, node)
        if isinstance(owner, Buffer) and node.attr in METHODS:
            return partial(METHODS[node.attr], owner)
        if isinstance(owner, Expr) and node.attr in TENSOR_METHODS:
            return partial(TENSOR_METHODS[node.attr], owner)
        if isinstance(owner, Expr) and node.attr in TENSOR_ATTRIBUTES:
            with self.blame(node):
                return TENSOR_ATTRIBUTES[node.attr](owner)
        allowed = operate.attributes(owner)
        is_known = not node.attr.startswith("_") and (self.trusted or node.attr in allowed)
        found = getattr(owner, node.attr, MISSING) if is_known else MISSING
        if found is MISSING:
            raise self.no_attribute(node, owner, allowed)
        return found

    def no_attribute(self, node: ast.Attribute, owner: Any, allowed: Any) -> ParseError:
        """The error for an attribute that is not there."""
        message = f"{title(owner)} has no {node.attr!r}"
        return self.error(node, message, suggestion(node.attr, allowed))

    def global_var(self, owner: ModuleRef, node: ast.Attribute) -> GlobalVar:
        """`cls.f`, which must be a function of the module."""
        if owner.names is not None and node.attr not in owner.names:
            hint = suggestion(node.attr, owner.names)
            raise self.error(node, f"the module has no function {node.attr!r}", hint)
        return GlobalVar(node.attr)

    def word(self, namespace: Any, node: ast.Attribute) -> Any:
        """A word of a namespace."""
        found = words.find(namespace, node.attr)
        if found is None:
            raise self.error(node, *words.unknown(namespace, node.attr))
        return found

    def call(self, node: ast.Call) -> Any:
        """A call of a word, of a function of the module, of a captured Python function."""
        function = self.value(node.func)
        if words.is_lazy(function):
            return function.read(self, node)
        args, kwargs = self.arguments(node)
        try:
            with self.blame(node):
                return self.apply(function, args, kwargs, node)
        except SourceError as error:
            raise self.closer(error, node) from error.__cause__

    def arguments(self, node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        """The values of a call's arguments."""
        args = self.values(node.args)
        kwargs = {k.arg: self.value(k.value) for k in node.keywords if k.arg is not None}
        for k in node.keywords:
            if k.arg is None:
                with self.blame(k.value):
                    kwargs.update(self.value(k.value))
        return args, kwargs

    def closer(self, error: SourceError, node: ast.Call) -> ParseError:
        """An error about a call as one about the argument that it speaks of, if there is one."""
        where = culprit(node, error.message)
        closer = where is not None and self.source.where(node) == error.place
        return self.error(where, error.message, error.hint) if closer else error

    def apply(self, function: Any, args: list, kwargs: dict, node: ast.Call) -> Any:
        """`function(*args, **kwargs)`"""
        if isinstance(function, GlobalVar):
            return words.call_global(function, args, self.results)
        if isinstance(function, Expr):
            return words.call_expr(function, args)
        if isinstance(function, Macro) and self.expand is not None:
            return self.expand(function, args, kwargs, node)
        plain = function.func if isinstance(function, partial) else function
        if not callable(function) or not (self.trusted or words.is_word(plain)):
            raise self.error(node.func, f"{title(function)} cannot be called")
        if function in operate.ON_SCALARS and any(map(is_prim, args)):
            return operate.ON_SCALARS[function](*map(build.as_expr, args))
        return function(*args, **kwargs)

    def values(self, nodes: list[ast.expr]) -> list[Any]:
        """The values of several expressions; `*x` is spread."""
        out: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                with self.blame(node):
                    out.extend(self.value(node.value))
            else:
                out.append(self.value(node))
        return out

    def binary(self, node: ast.BinOp) -> Any:
        """`a + b`"""
        left, right = self.value(node.left), self.value(node.right)
        with self.blame(node):
            return operate.binary(type(node.op).__name__, left, right, self.trusted)

    def unary(self, node: ast.UnaryOp) -> Any:
        """`-x`, `not x`, `~x`"""
        value = self.value(node.operand)
        with self.blame(node):
            return operate.unary(type(node.op), value)

    def boolean(self, node: ast.BoolOp) -> Any:
        """`a and b and c`: of Python values, what Python says."""
        kind = e.And if isinstance(node.op, ast.And) else e.Or
        vals = [self.value(v) for v in node.values]
        if not any(is_prim(v) for v in vals):
            return all(vals) if kind is e.And else any(vals)
        result = self.as_expr(vals[0], node.values[0])
        for value, place in zip(vals[1:], node.values[1:], strict=True):
            with self.blame(place):
                result = build.logical(kind, result, self.as_expr(value, place))
        return result

    def compare(self, node: ast.Compare) -> Any:
        """`a < b`; `a < b < c` is `a < b and b < c`."""
        left = self.value(node.left)
        result: Any = None
        for op, place in zip(node.ops, node.comparators, strict=True):
            right = self.value(place)
            one = self.comparison(op, left, right, node)
            result = one if result is None else self.both(result, one)
            left = right
        return result

    def comparison(self, op: ast.cmpop, left: Any, right: Any, node: ast.expr) -> Any:
        """One comparison."""
        if isinstance(op, ast.Is | ast.IsNot):
            return (left is right) == isinstance(op, ast.Is)
        if isinstance(op, ast.In | ast.NotIn):
            if isinstance(left, Expr) or operate.holds_symbol(left, right):
                raise self.error(node, "`in` works on Python values only")
            return (left in right) == isinstance(op, ast.In)
        with self.blame(node):
            return operate.binary(type(op).__name__, left, right, self.trusted)

    def both(self, a: Any, b: Any) -> Any:
        """Both hold."""
        return e.And(build.as_expr(a), build.as_expr(b)) if is_prim(a) or is_prim(b) else a and b

    def choice(self, node: ast.IfExp) -> Any:
        """`a if c else b` of scalars is `T.if_then_else(c, a, b)`."""
        test = self.value(node.test)
        if not is_prim(test):
            return self.value(node.body if test else node.orelse)
        with self.blame(node):
            a, b = build.matched(self.value(node.body), self.value(node.orelse))
            return e.Call(a.dtype, "tir.if_then_else", (self.as_expr(test, node.test), a, b))

    def layout(self, node: ast.Lambda) -> Any:
        """`lambda i: (i // 4, i % 4)` is an index map, as in `R.layout_transform`."""
        return index_map_of(self, node)

    def tuple_(self, node: ast.Tuple) -> tuple:
        """`(a, b)`"""
        return tuple(self.values(node.elts))

    def list_(self, node: ast.List) -> list:
        """`[a, b]`"""
        return self.values(node.elts)

    def dict_(self, node: ast.Dict) -> dict:
        """`{"key": value}`"""
        out: dict = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                out.update(self.value(value))
            else:
                out[self.value(key)] = self.value(value)
        return out

    def subscript(self, node: ast.Subscript) -> Any:
        """`A[i, j]` of a buffer, `t[0]` of a tuple, an item of a Python value."""
        owner = self.value(node.value)
        index = self.index(node.slice)
        with self.blame(node):
            if isinstance(owner, Buffer):
                return self.access(owner, index, node)
            if isinstance(owner, Expr):
                return item(owner, index)
            if owner is words.LET:
                return LetType(index)
            if callable(owner) and words.is_word(owner):
                name = getattr(owner, "__name__", "it")
                raise MLCError(f"{name} takes parentheses, not brackets", hint=f"{name}(…)")
            found = owner[index]
            return self.stored(found) if is_stored(found) else found

    def stored(self, entry: dict) -> Constant:
        """A constant of the metadata, read once however often it is used."""
        known = self.constants.get(id(entry))
        if known is None:
            known = self.constants[id(entry)] = stored_constant(entry)
        return known

    def access(self, buffer: Buffer, index: Any, node: ast.Subscript) -> Any:
        """A load, or a slice that is a region or a vector."""
        axes = index if isinstance(index, tuple) else (index,)
        found = Sliced(buffer, axes)
        if len(axes) > buffer.ndim:
            raise self.error(node, found.mismatch())
        is_part = any(isinstance(a, slice) for a in axes) or len(axes) < buffer.ndim
        return found if is_part else found.as_prim_expr()

    def index(self, node: ast.expr) -> Any:
        """What stands in brackets."""
        if isinstance(node, ast.Slice):
            parts = (node.lower, node.upper, node.step)
            return slice(*(None if part is None else self.value(part) for part in parts))
        if isinstance(node, ast.Tuple):
            found: list[Any] = []
            for x in node.elts:
                is_spread = isinstance(x, ast.Starred)
                found += self.values([x]) if is_spread else [self.index(x)]
            return tuple(found)
        return self.value(node)

    def joined(self, node: ast.JoinedStr) -> str:
        """An f-string of Python values."""
        parts = []
        for piece in node.values:
            value = self.value(piece.value if isinstance(piece, ast.FormattedValue) else piece)
            if not isinstance(value, str | int | float):
                raise self.error(node, "an f-string takes Python values only")
            parts.append(str(value))
        return "".join(parts)


_RULES: dict[type, Callable[[Evaluator, Any], Any]] = {
    ast.Constant: Evaluator.constant,
    ast.Name: Evaluator.name,
    ast.Attribute: Evaluator.attribute,
    ast.Call: Evaluator.call,
    ast.BinOp: Evaluator.binary,
    ast.UnaryOp: Evaluator.unary,
    ast.BoolOp: Evaluator.boolean,
    ast.Compare: Evaluator.compare,
    ast.IfExp: Evaluator.choice,
    ast.Lambda: Evaluator.layout,
    ast.Tuple: Evaluator.tuple_,
    ast.List: Evaluator.list_,
    ast.Dict: Evaluator.dict_,
    ast.Subscript: Evaluator.subscript,
    ast.JoinedStr: Evaluator.joined,
}
