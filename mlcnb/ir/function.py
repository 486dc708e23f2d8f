"""The base of what a module holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from mlcnb.core.node import FrozenDict, Node, replace
from mlcnb.ir.attrs import frozen


class Attributed(Node):
    """What has `attrs`, as functions and modules do."""

    __slots__ = ()
    attrs: FrozenDict

    def with_attr(self, key: str | Mapping[str, Any], value: object = None) -> Self:
        """The same with one attribute set, or all of a table."""
        added = key if isinstance(key, Mapping) else {key: value}
        return replace(self, attrs=FrozenDict({**self.attrs, **frozen(added)}))

    def with_attrs(self, attrs: Mapping[str, Any]) -> Self:
        """The same with all attributes of a table set."""
        return self.with_attr(attrs)

    def without_attr(self, key: str) -> Self:
        """The same with one attribute removed; itself if there was none."""
        if key not in self.attrs:
            return self
        return replace(self, attrs=FrozenDict({k: v for k, v in self.attrs.items() if k != key}))


class BaseFunc(Attributed):
    """Base of `tir.PrimFunc`, `relax.Function` and `relax.ExternFunc`."""

    __slots__ = ()
