"""ObjectPath: where something stands in a node, as steps from the top.

    ObjectPath.root().attr("body").attr("block").array_index(0)

What `script(path_to_underline=[…])` takes; `of(node)` gives what stands there.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import MLCError


class ObjectPath:
    """Steps from a node to something in it: names of fields, positions, keys."""

    __slots__ = ("steps",)

    def __init__(self, steps: tuple[tuple[str, Any], ...] = ()) -> None:
        self.steps = steps

    @staticmethod
    def root(_name: str | None = None) -> ObjectPath:
        """The node itself."""
        return ObjectPath()

    def attr(self, name: str) -> ObjectPath:
        """The field of that name."""
        return ObjectPath((*self.steps, ("attr", name)))

    def array_index(self, position: int) -> ObjectPath:
        """The item at a position of a list."""
        return ObjectPath((*self.steps, ("array_index", position)))

    array_item = array_index

    def map_value(self, key: Any) -> ObjectPath:
        """What a table has for a key."""
        return ObjectPath((*self.steps, ("map_value", key)))

    map_item = map_value

    def of(self, top: Any) -> Any:
        """What stands there in `top`.

        Raises:
            MLCError: nothing does.
        """
        found = top
        for kind, step in self.steps:
            try:
                found = getattr(found, step) if kind == "attr" else found[step]
            except (AttributeError, LookupError, TypeError) as error:
                raise MLCError(f"{self!r}: there is no {step!r}") from error
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and other.steps == self.steps

    def __hash__(self) -> int:
        return hash(self.steps)

    def __repr__(self) -> str:
        shown = {"attr": ".{}", "array_index": "[{!r}]", "map_value": "[{!r}]"}
        return "<root>" + "".join(shown[kind].format(step) for kind, step in self.steps)
