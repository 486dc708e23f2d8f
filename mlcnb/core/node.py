"""Immutable nodes, and the one way to walk and rewrite them.

    @node
    class Add(PrimExpr):          a, b = children(add)
        a: PrimExpr               rewrite(add, rule)   rule: Node -> Node | None, bottom up
        b: PrimExpr

`rewrite` returns the very same object where nothing changed, so "did it change?" is `is`.
Equality of nodes is identity; meaning is compared by `mlcnb.ir.structural_equal`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter, is_
from typing import Any, ClassVar, TypeVar, dataclass_transform

from mlcnb.core import display

T = TypeVar("T")
N = TypeVar("N", bound="Node")


class FrozenDict(dict):
    """A dict that cannot be changed: what nodes hold for attributes and annotations.

    `attrs.axis` is `attrs["axis"]`, as with TVM's DictAttrs.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"no attribute {name!r}; there are: {', '.join(map(str, self))}")

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self))

    def _refuse(self, *_args: Any, **_kwargs: Any) -> Any:
        raise TypeError("nodes are immutable: build a new dict, e.g. {**attrs, 'key': value}")

    __setitem__ = __delitem__ = __ior__ = _refuse  # type: ignore[assignment]
    clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]


EMPTY: FrozenDict = FrozenDict()

#: classes of values that hold no nodes; grows as such values are met
_ATOMS = {str, int, float, bool, type(None)}
#: classes of nodes, as far as such are met: to look here takes half the time of isinstance
_NODES: set[type] = set()
#: annotations of fields that hold no nodes: such fields are not looked at
_PLAIN = {"str", "int", "bool", "float", "DType", "str | None", "int | None", "DType | None"}


def atom(cls: type[T]) -> type[T]:
    """Class decorator: values of `cls` in a field hold no nodes, like numbers and texts."""
    _ATOMS.add(cls)
    return cls


def hidden(default: Any = None) -> Any:
    """A field that is no part of the meaning: not compared, not hashed, not walked (a span, a
    cache).
    """
    return dataclasses.field(default=default, metadata={"hidden": True})


def label(default: Any = dataclasses.MISSING) -> Any:
    """A field that names a thing for people (`name_hint`): kept, but not compared."""
    return dataclasses.field(default=default, metadata={"label": True})


def binder(default: Any = dataclasses.MISSING) -> Any:
    """A field whose variables are *defined* here: compared first, up to renaming."""
    return dataclasses.field(default=default, metadata={"binder": True})


class Node(display.Shown):
    """Base of everything in the IR. Shows itself through `mlcnb.core.display`."""

    __slots__ = ("__weakref__",)
    #: every field, in the order of the constructor
    node_fields: ClassVar[tuple[str, ...]] = ()
    #: fields that children, equality and hash look at
    child_fields: ClassVar[tuple[str, ...]] = ()
    #: those of them that may hold nodes
    walked_fields: ClassVar[tuple[str, ...]] = ()
    #: node -> the values of `node_fields`, and of `walked_fields`; one call for all of them
    values_of: ClassVar[Any] = tuple
    walked_of: ClassVar[Any] = tuple
    #: where `walked_fields` stand in `node_fields`
    walked_places: ClassVar[tuple[int, ...]] = ()
    #: fields compared: binders first, labels left out; and their values
    compared_fields: ClassVar[tuple[str, ...]] = ()
    compared_of: ClassVar[Any] = tuple
    #: fields that define variables
    binder_fields: ClassVar[frozenset[str]] = frozenset()
    #: fields that name things for people
    label_fields: ClassVar[tuple[str, ...]] = ()

    def script(self, **options: Any) -> str:
        """The TVMScript text; options as in `mlcnb.script.script`."""
        return display.load("mlcnb.script:script")(self, **options)  # type: ignore[call-arg]

    def show(self, **options: Any) -> None:
        """Print the text: highlighted in a notebook, coloured in a terminal."""
        display.load("mlcnb.script:show")(self, **options)  # type: ignore[call-arg]

    def same_as(self, other: Any) -> bool:
        """Whether it is the very same node."""
        return self is other


class Called(Node):
    """A node that shows itself as a call of its constructor."""

    __slots__ = ()

    def __repr__(self) -> str:
        fields = (f"{name}={getattr(self, name)!r}" for name in self.node_fields)
        return f"{type(self).__name__}({', '.join(fields)})"


class Record:
    """A dataclass that `ir.save_json` writes as it does a node, though nothing walks into it."""

    __slots__ = ()


@dataclass_transform(
    eq_default=False, frozen_default=True, field_specifiers=(hidden, label, binder)
)
def node(cls: type[T]) -> type[T]:
    """Make `cls` an immutable node class: frozen, slotted, equal by identity, with field tables."""
    made: Any = dataclasses.dataclass(init=False, slots=True, eq=False, repr=False)(cls)
    fields = dataclasses.fields(made)
    made.__init__ = _Constructor(made)
    made.__setattr__, made.__delattr__ = _refuse_set, _refuse_delete
    made.__getstate__, made.__setstate__ = _state, _set_state
    shown = [f for f in fields if not f.metadata.get("hidden")]
    compared = [f for f in shown if not f.metadata.get("label")]
    made.node_fields = tuple(f.name for f in fields)
    made.child_fields = tuple(f.name for f in shown)
    made.walked_fields = tuple(f.name for f in shown if f.type not in _PLAIN)
    made.values_of = staticmethod(values_getter(made.node_fields))
    made.walked_of = staticmethod(values_getter(made.walked_fields))
    made.walked_places = tuple(map(made.node_fields.index, made.walked_fields))
    made.binder_fields = frozenset(f.name for f in fields if f.metadata.get("binder"))
    made.label_fields = tuple(f.name for f in shown if f.metadata.get("label"))
    made.compared_fields = tuple(
        f.name for f in sorted(compared, key=lambda f: not f.metadata.get("binder"))
    )
    made.compared_of = staticmethod(values_getter(made.compared_fields))
    return made


def values_getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """A function from an object to the values of these fields."""
    if not names:
        return lambda _n: ()
    get: Callable[[Any], Any] = attrgetter(*names)
    return get if len(names) > 1 else lambda n: (get(n),)


class _Constructor:
    """The `__init__` of a node class, written when it is first asked for: most classes have no
    object in most programs, and Python's compiler takes its time.
    """

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __get__(self, n: Any, _cls: Any = None) -> Any:
        self.owner.__init__ = made = _constructor_of(self.owner)
        return made if n is None else made.__get__(n)


def _constructor_of(cls: Any) -> Any:
    """As a frozen dataclass has it, taken from one of the same fields."""
    fields = dataclasses.fields(cls)
    same = [
        (f.name, Any, f.default) if f.default is not dataclasses.MISSING else (f.name, Any)
        for f in fields
    ]
    hooks = {"__post_init__": None} if hasattr(cls, "__post_init__") else {}
    twin: Any = dataclasses.make_dataclass(
        cls.__name__, same, namespace=hooks, frozen=True, eq=False, repr=False
    )
    made = twin.__init__
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__annotations__ = {f.name: f.type for f in fields} | {"return": None}
    return made


def _refuse_set(n: Any, name: str, _value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(n: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(n: Any) -> tuple[Any, ...]:
    values: tuple[Any, ...] = n.values_of(n)
    return values


def _set_state(n: Any, values: tuple[Any, ...]) -> None:
    for name, value in zip(n.node_fields, values, strict=True):
        object.__setattr__(n, name, value)


def replace(n: N, **changes: Any) -> N:
    """`n` with some fields changed (hidden fields are kept); `n` itself if nothing differs: where
    values are the very same, or tuples of the very same.
    """
    values = None
    for name, new in changes.items():
        old = getattr(n, name)
        if new is not old and not (type(old) is tuple is type(new) and identical(old, new)):
            values = values or list(n.values_of(n))
            values[n.node_fields.index(name)] = new
    return n if values is None else type(n)(*values)


def identical(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether both hold the very same things, in one order."""
    return len(a) == len(b) and all(map(is_, a, b))


def children(n: Node) -> list[Node]:
    """The nodes that stand directly in the fields of `n` (tuples and dicts are looked into)."""
    found: list[Node] = []
    for value in n.walked_of(n):
        cls = type(value)
        if cls in _NODES:
            found.append(value)
        elif cls not in _ATOMS:
            _add_nodes(value, found)
    return found


def nodes_in(value: Any) -> list[Node]:
    """The nodes that stand in the value of a field."""
    found: list[Node] = []
    _add_nodes(value, found)
    return found


def _add_nodes(value: Any, found: list[Node]) -> None:
    """The nodes in a value: itself, or those that it holds."""
    if isinstance(value, tuple):
        for item in value:
            cls = type(item)
            if cls in _NODES:
                found.append(item)
            elif cls not in _ATOMS:
                _add_nodes(item, found)
    elif isinstance(value, Node):
        _NODES.add(type(value))
        found.append(value)
    elif type(value) is FrozenDict or isinstance(value, Mapping):  # what nodes hold comes first
        for pair in value.items():
            _add_nodes(pair, found)


def walk(n: Node) -> Iterator[Node]:
    """Every node below and including `n`, children first, in order, each place once."""
    # parents first and from the right, turned around: no call for each node
    found: list[Node] = []
    left: list[Node] = [n]
    while left:
        one = left.pop()
        found.append(one)
        for value in one.walked_of(one):
            cls = type(value)
            if cls in _NODES:
                left.append(value)
            elif cls not in _ATOMS:
                _add_nodes(value, left)
    return reversed(found)


def visit(n: Node, enter: Callable[[Node], bool | None]) -> None:
    """Call `enter` on `n` and what is below, parents first; False from it: no deeper."""
    left = [n]
    while left:
        one = left.pop()
        if enter(one) is not False:
            left.extend(reversed(children(one)))


def rewrite(
    n: N,
    rule: Callable[[Node], Node | None],
    enter: Callable[[Node], Node | None] | None = None,
) -> N:
    """`n` rebuilt bottom up: `rule(node)` gives the new node, or None to keep it.

    `enter`, if given, sees a node before its children; what it returns replaces the node as it is,
    without going deeper. A node shared in many places is rewritten once.
    """
    done: dict[int, Any] = {}
    known = done.get

    def visit(n: Any) -> Any:
        found = known(id(n))
        if found is not None:
            return found
        found = enter(n) if enter is not None else None
        if found is None:
            rebuilt = map_children(n, visit) if n.walked_fields else n  # noqa: F821 (gone at the end)
            found = rule(rebuilt)
            if found is None:
                found = rebuilt
        done[id(n)] = found
        return found

    try:
        made: N = visit(n)
    except RecursionError:  # deeper than the stack: what is done is done, the rest without one
        made = _rewrite_deep(n, rule, enter, done)
    del visit  # it holds itself and all that it has seen: else that waits for the collector
    return made


def _rewrite_deep(n: Any, rule: Any, enter: Any, done: dict[int, Any]) -> Any:
    """As `rewrite`, without recursion; `done` has what is rewritten already."""
    left = [(n, False)]
    while left:
        one, has_children = left.pop()
        if id(one) in done:
            continue
        found = enter(one) if enter is not None and not has_children else None
        if found is None and not has_children:
            left.append((one, True))
            left += [(child, False) for child in reversed(children(one))]
            continue
        if found is None:
            rebuilt = map_children(one, lambda child: done[id(child)])
            found = rule(rebuilt)
            found = rebuilt if found is None else found
        done[id(one)] = found
    return done[id(n)]


def map_children(n: N, fn: Callable[[Any], Any]) -> N:
    """`n` with `fn` applied to each child; `n` itself if every child came back the same."""
    values = None
    for place, old in enumerate(n.walked_of(n)):
        cls = type(old)
        if cls in _NODES:
            new = fn(old)
        elif cls in _ATOMS:
            continue
        else:
            new = _map_value(old, fn)
        if new is not old:
            values = values or list(n.values_of(n))
            values[n.walked_places[place]] = new
    return n if values is None else type(n)(*values)


def _map_value(value: Any, fn: Callable[[Any], Any]) -> Any:
    if isinstance(value, Node):
        _NODES.add(type(value))
        return fn(value)
    if isinstance(value, tuple):
        if not value:
            return value
        new = [fn(x) if type(x) in _NODES else _map_value(x, fn) for x in value]
        return value if all(map(is_, new, value)) else tuple(new)
    if isinstance(value, FrozenDict):
        if not value:
            return value
        pairs = [(_map_value(k, fn), _map_value(v, fn)) for k, v in value.items()]
        same = all(k is a and v is b for (k, v), (a, b) in zip(pairs, value.items(), strict=True))
        return value if same else FrozenDict(pairs)
    if not isinstance(value, Mapping):
        _ATOMS.add(type(value))
    return value
