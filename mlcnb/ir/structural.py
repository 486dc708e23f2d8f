"""Equality and hash of meaning: two programs that differ only in variable names are the same.

`structural_equal(a, b)`, `structural_hash(a)`, `assert_structural_equal(a, b)` (says where they
part). Variables in binder fields (parameters, loop variables, bindings) are matched up in order;
free variables must be the same object, or are matched up too with `map_free_vars=True`.
Names (`name_hint`) and spans do not count.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from mlcnb.core.errors import NotEqualError
from mlcnb.core.node import Node
from mlcnb.core.recursion import roomy
from mlcnb.ir.conversions import as_expr
from mlcnb.ir.expr import FloatImm, GlobalVar, PrimExpr, Var
from mlcnb.ir.module import IRModule

#: classes whose objects stand for themselves and are matched by where they are defined
_NAMED: list[type] = [Var]
_named: tuple[type, ...] = (Var,)


def named(cls: type) -> type:
    """Class decorator: objects of `cls` are variables to equality (relax.Var, Buffer, IterVar's
    var).
    """
    global _named
    _NAMED.append(cls)
    _named = tuple(_NAMED)
    return cls


@roomy
def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """True if both mean the same program; a plain number means the constant."""
    return _Comparer(map_free_vars).same(*_as_nodes(lhs, rhs))


@roomy
def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise where `structural_equal` is False, saying at which path and how they differ.

    Raises:
        NotEqualError: they differ.
    """
    comparer = _Comparer(map_free_vars, telling=True)
    lhs, rhs = _as_nodes(lhs, rhs)
    if comparer.same(lhs, rhs):
        return
    path = "".join(reversed(comparer.path))
    left, right = comparer.first
    raise NotEqualError(f"not structurally equal at <root>{path}:\n  {left!r}\nversus\n  {right!r}")


def _as_nodes(a: Any, b: Any) -> tuple[Any, Any]:
    """Where an expression is compared with a number, the number is a constant."""
    if isinstance(a, PrimExpr) and isinstance(b, bool | int | float):
        return a, as_expr(b)
    if isinstance(b, PrimExpr) and isinstance(a, bool | int | float):
        return as_expr(a), b
    return a, b


class _Comparer:
    """Compares two programs.

    telling: of sequences that are not of one length, the first items that differ are looked for.
    """

    def __init__(self, map_free_vars: bool, telling: bool = False) -> None:
        self.telling = telling
        self.map_free = map_free_vars
        self.forward: dict[int, Any] = {}
        self.backward: dict[int, Any] = {}
        self.alive: list[Any] = []
        self.path: list[str] = []
        self.first: tuple[Any, Any] = (None, None)

    def same(self, a: Any, b: Any, binding: bool = False) -> bool:
        if isinstance(a, IRModule) and isinstance(b, IRModule):
            return self.modules(a, b)
        if isinstance(a, Node):
            return self.nodes(a, b, binding)
        if isinstance(a, tuple | list) and isinstance(b, tuple | list):
            return self.sequences(a, b, binding)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            return self.mappings(a, b, binding)
        return self.leaves(a, b) or self.differ(a, b)

    def differ(self, a: Any, b: Any) -> bool:
        if not self.path:
            self.first = (a, b)
        return False

    def step(self, name: str, same: bool) -> bool:
        if not same:
            self.path.append(name)
        return same

    def nodes(self, a: Node, b: Any, binding: bool) -> bool:
        if type(a) is not type(b):
            return self.differ(a, b)
        if isinstance(a, _named):
            return self.variables(a, b, binding)
        if isinstance(a, GlobalVar):
            return a == b or self.differ(a, b)
        return self.fields(a, b, binding)

    def fields(self, a: Node, b: Node, binding: bool) -> bool:
        for name in a.compared_fields:
            inside = binding or name in a.binder_fields
            x, y = getattr(a, name), getattr(b, name)
            if name in a.binder_fields and isinstance(x, tuple(_NAMED)):
                self.forget(x, y)
            if not self.step(f".{name}", self.same(x, y, inside)):
                return False
        return True

    def forget(self, a: Any, b: Any) -> None:
        """A loop variable or view is defined here anew: the same object may serve two loops."""
        old, other = self.forward.pop(id(a), None), self.backward.pop(id(b), None)
        if old is not None:
            self.backward.pop(id(old), None)
        if other is not None:
            self.forward.pop(id(other), None)

    def variables(self, a: Node, b: Node, binding: bool) -> bool:
        known = self.forward.get(id(a))
        if known is not None or id(b) in self.backward:
            return (known is b and self.backward.get(id(b)) is a) or self.differ(a, b)
        if not (binding or self.map_free or a is b or self.is_over_known(a, b)):
            return self.differ(a, b)
        self.forward[id(a)] = b
        self.backward[id(b)] = a
        self.alive += [a, b]
        return self.fields(a, b, binding or self.map_free)

    def is_over_known(self, a: Node, b: Node) -> bool:
        """True of buffers that nothing declares, over pointers that are matched already: the
        pointer, and what else they say, tells which they are.
        """
        pairs = [(getattr(a, name), getattr(b, name)) for name in a.binder_fields]
        return bool(pairs) and all(self.forward.get(id(x), self) is y for x, y in pairs)

    def sequences(self, a: Sequence, b: Sequence, binding: bool) -> bool:
        if len(a) != len(b) and not self.telling:
            return self.differ(a, b)
        for i, (x, y) in enumerate(zip(a, b, strict=False)):
            if not self.step(f"[{i}]", self.same(x, y, binding)):
                return False
        return len(a) == len(b) or self.differ(a, b)

    def mappings(self, a: Mapping, b: Mapping, binding: bool) -> bool:
        if len(a) != len(b):
            return self.differ(a, b)
        if all(isinstance(k, str) for k in a):
            return self.by_name(a, b, binding)
        if all(id(k) in self.forward for k in a):
            return self.by_key(a, b, binding)
        pairs = zip(a.items(), b.items(), strict=True)
        return all(self.same(x, y, binding) for x, y in pairs)

    def by_key(self, a: Mapping, b: Mapping, binding: bool) -> bool:
        """Keys are variables that are matched already, such as parameters: their order is free."""
        for key, value in a.items():
            other = self.forward[id(key)]
            if other not in b:
                return self.differ(a, b)
            if not self.step(f"[{key!r}]", self.same(value, b[other], binding)):
                return False
        return True

    def by_name(self, a: Mapping, b: Mapping, binding: bool) -> bool:
        if set(a) != set(b):
            return self.differ(a, b)
        return all(self.step(f"[{k!r}]", self.same(a[k], b[k], binding)) for k in sorted(a))

    def modules(self, a: IRModule, b: IRModule) -> bool:
        one = {k.name_hint: f for k, f in a.functions.items()}
        two = {k.name_hint: f for k, f in b.functions.items()}
        return self.by_name(one, two, False) and self.by_name(a.attrs, b.attrs, False)

    @staticmethod
    def leaves(a: Any, b: Any) -> bool:
        if a is b:
            return True
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            return a.dtype == b.dtype and a.shape == b.shape and _bytes(a) == _bytes(b)
        if isinstance(a, float) and isinstance(b, float):
            return struct.pack("d", a) == struct.pack("d", b)
        if isinstance(a, str) and isinstance(b, str):
            return a == b  # a dtype and its text are one, as in the digest
        return type(a) is type(b) and bool(a == b)


def _bytes(a: np.ndarray) -> bytes:
    return np.ascontiguousarray(a).tobytes()


def structural_hash(value: Any, map_free_vars: bool = False) -> int:
    """A 64-bit number that is the same for structurally equal programs, in every process."""
    return int.from_bytes(structural_digest(value, map_free_vars)[:8], "little")


@roomy
def structural_digest(value: Any, map_free_vars: bool = False) -> bytes:
    """The 16 bytes behind `structural_hash`."""
    hasher = _Hasher(map_free_vars)
    hasher.feed(value, False)
    return blake2b("\x1e".join(hasher.parts).encode(), digest_size=16).digest()


@roomy
def structural_text(value: Any) -> tuple[str, str]:
    """The whole content in words: what it means, and the names that it gives to things.

    The first text is the same for structurally equal programs, and only for them; both are the same
    where the programs print alike. Made for keys of tables: to print takes five times as long.
    """
    hasher = _Hasher(False)
    hasher.feed(value, False)
    return "\x1e".join(hasher.parts), "\x1e".join(hasher.names)


class _Hasher:
    """Writes a value down as a list of words, variables by number."""

    def __init__(self, map_free_vars: bool) -> None:
        self.parts: list[str] = []
        self.names: list[str] = []
        self.map_free = map_free_vars
        self.numbers: dict[int, int] = {}
        self.count = 0

    def feed(self, value: Any, binding: bool) -> None:
        cls = type(value)
        (_FEEDS.get(cls) or _feed_of(cls))(self, value, binding)

    def sequence(self, value: Sequence, binding: bool) -> None:
        self.parts.append(f"({len(value)}")
        for item in value:
            self.feed(item, binding)

    def array(self, value: np.ndarray, _binding: bool) -> None:
        content = blake2b(_bytes(value), digest_size=16).hexdigest()
        self.parts.append(f"array {value.dtype} {value.shape} {content}")

    def text(self, value: str, _binding: bool) -> None:
        self.parts.append(f"str {len(value)} {value}")

    def plain(self, value: Any, _binding: bool) -> None:
        self.parts.append(f"{type(value).__name__} {value}")

    def float_imm(self, n: FloatImm, _binding: bool) -> None:
        self.parts.append(f"FloatImm {n.dtype} {struct.pack('d', n.value).hex()}")

    def mapping(self, value: dict, binding: bool) -> None:
        self.parts.append(f"{{{len(value)}")
        items = list(value.items())
        if all(isinstance(k, str) for k in value):
            items.sort()
        elif all(isinstance(k, GlobalVar) for k in value):
            items.sort(key=lambda item: item[0].name_hint)
        elif all(id(k) in self.numbers for k in value):
            items.sort(key=lambda item: self.numbers[id(item[0])])
        for key, item in items:
            self.feed(key, binding)
            self.feed(item, binding)

    def named(self, n: Node, binding: bool) -> None:
        if id(n) in self.numbers:
            self.parts.append(f"#{self.numbers[id(n)]}")
            return
        pointers = [getattr(n, name) for name in n.binder_fields]
        is_over_known = bool(pointers) and all(id(x) in self.numbers for x in pointers)
        if binding or self.map_free or is_over_known:
            self.numbers[id(n)] = self.count
            self.count += 1
        else:
            name = getattr(n, "name", getattr(n, "name_hint", ""))
            self.parts.append(f"free {name}")
        self.node(n, binding)

    def node(self, n: Node, binding: bool) -> None:
        self.parts.append(type(n).__name__)
        for name in n.label_fields:
            self.names.append(str(getattr(n, name)))
        binders = n.binder_fields
        for name, value in zip(n.compared_fields, n.compared_of(n)):  # noqa: B905 (one by one)
            cls = type(value)
            feed = _FEEDS.get(cls) or _feed_of(cls)
            feed(self, value, binding or name in binders)


#: class -> how its values are written down
_FEEDS: dict[type, Any] = {}


def _feed_of(cls: type) -> Any:
    """How values of a class are written down, from now on without asking again."""
    if issubclass(cls, Node):
        of_node = _Hasher.named if issubclass(cls, _named) else _Hasher.node
        found: Any = _Hasher.float_imm if issubclass(cls, FloatImm) else of_node
    elif cls in (tuple, list):
        found = _Hasher.sequence
    else:
        kinds = {dict: _Hasher.mapping, np.ndarray: _Hasher.array, str: _Hasher.text}
        found = next((how for kind, how in kinds.items() if issubclass(cls, kind)), _Hasher.plain)
    return _FEEDS.setdefault(cls, found)
