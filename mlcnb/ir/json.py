"""Modules as JSON text: every node once, constants in base64; nothing in it is run when read.

    text = save_json(mod)          {"format": "mlcnb-ir", "version": 1, "root": 7,
    mod = load_json(text)           "nodes": [{"class": "tir.For", "fields": {"extent": …}}, …],
                                    "arrays": [{"dtype": "float32", "shape": [2], "data": "AAA…"}]}

A node names the nodes in its fields by their number, which is lower than its own: there are no
cycles, and what is shared (variables, constants) is shared again after loading. Spans are kept.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import importlib
import json
import math
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any

import numpy as np

from mlcnb.core import above, options
from mlcnb.core.errors import IntegerRangeError, MLCError, ModelError
from mlcnb.core.means import within_means
from mlcnb.core.node import FrozenDict, Node, Record
from mlcnb.core.recursion import roomy
from mlcnb.core.text import kind_of
from mlcnb.ir.dtype import DType, dtype

FORMAT, VERSION = "mlcnb-ir", 1

#: classes of nodes of this package; those of others come before and after (`_levels`)
_OWN = ("mlcnb.ir.expr", "mlcnb.ir.module", "mlcnb.ir.global_info", "mlcnb.ir.span")


@roomy
def save_json(obj: Any, indent: int | None = None) -> str:
    """The JSON text of a module, a function or any node.

    Raises:
        MLCError: a field holds something that is no part of a program.
    """
    writer = _Writer()
    root = writer.value(obj)
    data = {
        "format": FORMAT,
        "version": VERSION,
        "root": root,
        "nodes": writer.nodes,
        "arrays": writer.arrays,
    }
    return json.dumps(data, indent=indent, allow_nan=False)


def load_json(text: str) -> Any:
    """The module or node behind a text that `save_json` made.

    Raises:
        ModelError: the text is something else, is damaged, or holds a tensor larger than the option
            `max_tensor_bytes`.
    """
    try:
        with within_means("load_json", ModelError):
            data = json.loads(text)
    except (ValueError, TypeError) as error:
        raise ModelError(f"load_json: no JSON text: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ModelError("load_json: no module of mlcnb", hint="text made by mlcnb.ir.save_json")
    if data.get("version") != VERSION:
        raise ModelError(f"load_json: version {data.get('version')!r}, this is {VERSION}")
    with within_means("load_json", ModelError):
        return _Reader(data).result()


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[dict] = []
        self.arrays: list[dict] = []
        self.known: dict[int, int] = {}
        self.known_arrays: dict[int, int] = {}

    def value(self, value: Any) -> Any:
        if hasattr(type(value), "export"):  # a target says itself what it is
            return {"target": self.value(value.export()), "host": self.value(value.host)}
        if isinstance(value, Node | Record):
            return {"node": self.node(value)}
        if isinstance(value, DType):
            return {"dtype": str(value)}
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, Enum):
            return {"enum": type(value).__name__, "value": value.value}
        if isinstance(value, tuple | list):
            return {"tuple": [self.value(v) for v in value]}
        if isinstance(value, Mapping):
            return {"dict": [[self.value(k), self.value(v)] for k, v in value.items()]}
        if isinstance(value, np.ndarray):
            return {"array": self.array(value)}
        raise MLCError(f"save_json: {kind_of(value)} is no part of a program: {value!r}")

    def node(self, n: Node | Record) -> int:
        found = self.known.get(id(n))
        if found is None:
            fields = {f: self.value(getattr(n, f)) for f in fields_of(type(n))}
            self.nodes.append({"class": key_of(type(n)), "fields": fields})
            found = self.known[id(n)] = len(self.nodes) - 1
        return found

    def array(self, a: np.ndarray) -> int:
        found = self.known_arrays.get(id(a))
        if found is None:
            data = base64.b64encode(np.ascontiguousarray(a).tobytes()).decode("ascii")
            self.arrays.append({"dtype": a.dtype.name, "shape": list(a.shape), "data": data})
            found = self.known_arrays[id(a)] = len(self.arrays) - 1
        return found


class _Reader:
    def __init__(self, data: dict) -> None:
        self.data = data
        self.nodes: list[Any] = []
        self.arrays: list[np.ndarray] = []

    def result(self) -> Any:
        try:
            self.arrays = [self.array(a) for a in self.data["arrays"]]
            for entry in self.data["nodes"]:
                self.nodes.append(self.node(entry))
            return self.value(self.data["root"])
        except IntegerRangeError as error:
            raise ModelError(f"load_json: damaged text, {error.message}") from error
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            what = f"{type(error).__name__}: {error}"
            raise ModelError(f"load_json: damaged text, {what}") from error

    def node(self, entry: dict) -> Any:
        cls = class_named(str(entry["class"]))
        if cls is None:
            raise ModelError(f"load_json: no node class {entry['class']!r}")
        fields = {name: self.value(v) for name, v in entry["fields"].items()}
        unknown = fields.keys() - set(fields_of(cls))
        if unknown:
            raise ModelError(f"load_json: {entry['class']} has no field {sorted(unknown)[0]!r}")
        kinds = _kinds(cls)
        for name, value in fields.items():
            if not _is_of(value, kinds[name]):
                told = f"{entry['class']}.{name} is {kind_of(value)}: {kinds[name]} is needed"
                raise ModelError(f"load_json: damaged text, {told}")
        return cls(**fields)

    def value(self, value: Any) -> Any:
        if isinstance(value, list):
            raise ModelError("load_json: damaged text, a list stands where a value is needed")
        if not isinstance(value, dict):
            return value
        if "node" in value:
            return self.nodes[_index(value["node"])]
        if "dtype" in value:
            return dtype(value["dtype"])
        if "float" in value:
            return float.fromhex(value["float"])
        if "tuple" in value:
            return tuple(self.value(v) for v in value["tuple"])
        if "dict" in value:
            return FrozenDict((self.value(k), self.value(v)) for k, v in value["dict"])
        if "array" in value:
            return self.arrays[_index(value["array"])]
        if "target" in value:
            return above.ask("Target")(dict(self.value(value["target"])), self.value(value["host"]))
        return enums()[value["enum"]](value["value"])

    @staticmethod
    def array(entry: dict) -> np.ndarray:
        kind = dtype(entry["dtype"]).numpy
        shape = tuple(_index(d) for d in entry["shape"])
        count = math.prod(shape) * kind.itemsize
        if count > options.get("max_tensor_bytes"):
            raise ModelError(
                f"load_json: a tensor of {count:,} bytes",
                hint="the option max_tensor_bytes is the largest that is read",
            )
        try:
            data = base64.b64decode(entry["data"], validate=True)
        except binascii.Error as error:
            raise ModelError(f"load_json: damaged tensor data: {error}") from error
        if len(data) != count:
            raise ModelError(f"load_json: a tensor of {count} bytes has {len(data)} bytes of data")
        return np.frombuffer(data, kind).reshape(shape)


def _index(value: Any) -> int:
    """A number of a node, an array or a dimension: a whole number that is not negative."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ModelError(f"load_json: {value!r} stands where a whole number is needed")
    return value


def fields_of(cls: Any) -> tuple[str, ...]:
    """The names of the fields of a class of nodes or records."""
    if issubclass(cls, Node):
        return cls.node_fields
    return tuple(f.name for f in dataclasses.fields(cls))


@cache
def _kinds(cls: Any) -> dict[str, Any]:
    """What each field of a class of nodes or records may hold, as it is annotated."""
    return typing.get_type_hints(cls)


def _is_of(value: Any, kind: Any) -> bool:
    """Whether a field of that annotation may hold the value; what the annotation leaves open is."""
    if kind is Any or (kind is float and type(value) is int):
        return True
    if isinstance(kind, type):
        return isinstance(value, kind)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (UnionType, typing.Union):
        return any(_is_of(value, part) for part in parts)
    if origin is tuple and parts[-1] is ...:
        one = parts[0]
        if isinstance(one, type) and issubclass(one, Node):
            one = Node  # names of functions stand among a call's expressions
        return isinstance(value, tuple) and all(_is_of(item, one) for item in value)
    return isinstance(value, origin)


def key_of(cls: type) -> str:
    """The name of a node class in the text: `tir.For`, or `op:relax.nn.relu`."""
    op_name = getattr(cls, "op_name", "")
    return f"op:{op_name}" if op_name else f"{cls.__module__.split('.')[1]}.{cls.__name__}"


def class_named(name: str) -> Any:
    """A node class by its name in the text; a file is loaded when a class of it is met."""
    if name.startswith("op:"):
        return _declared().get(name)
    return next((found[name] for level in _levels() if name in (found := _classes(level))), None)


@cache
def _levels() -> tuple[tuple[str, ...], ...]:
    """Where classes of nodes are found, loops before graphs; declarations come with mlcnb.op."""
    loops, te, graphs = (above.modules(f"nodes of {what}") for what in ("loops", "te", "graphs"))
    return (*_OWN, *loops), te, graphs


@cache
def _classes(modules: tuple[str, ...]) -> dict[str, Any]:
    """The node classes of some files by their names."""
    return {
        key_of(cls): cls
        for module in modules
        for cls in vars(importlib.import_module(module)).values()
        if isinstance(cls, type) and issubclass(cls, Node | Record) and cls.__module__ == module
    }


@cache
def _declared() -> dict[str, Any]:
    """The classes of declared operators."""
    return {key_of(cls): cls for cls in above.ask("declarations")().values()}


@cache
def enums() -> dict[str, Any]:
    """The enumerations that stand in programs, by name."""
    return {name: above.ask(f"tir.{name}") for name in ("ForKind", "IterType")}
