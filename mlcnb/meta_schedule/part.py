"""What all parts of a search have in common: options as fields, a context, a name to be made by.

    class Mine(ms.PyScheduleRule):              a part of one's own: TVM's names of the methods
        def apply(self, sch, block): …
    ms.SearchStrategy.create("replay-trace")    a ready one by TVM's name of it

A ready part lies in the folder of its kind and is found by lying there.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, ClassVar, Self, dataclass_transform

from mlcnb.core.errors import MLCError
from mlcnb.core.lazy import missing
from mlcnb.core.text import kind_of
from mlcnb.target import Target


@dataclass_transform(eq_default=False)
class Part:
    """A part of a search, that knows the `TuneContext` which it works for.

    Of a ready part the fields are its options.
    """

    #: the folder in which ready parts of this kind lie, and what TVM calls this one
    folder: ClassVar[str] = ""
    kind: ClassVar[str] = ""
    context: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.kind and "__init__" not in vars(cls):
            dataclass(eq=False)(cls)

    def _initialize_with_tune_context(self, context: Any) -> None:
        """Take what is needed from the context; a part of one's own may say what."""

    def initialize_with_tune_context(self, context: Any) -> None:
        """Work for this context: its target, its program, its random numbers."""
        self.context = context
        self._initialize_with_tune_context(context)

    @property
    def target(self) -> Target:
        """The target of the context."""
        return self.context.target if self.context is not None else Target("llvm")

    def clone(self) -> Self:
        """The same part for another context."""
        made = copy(self)
        made.context = None
        return made

    @classmethod
    def create(cls, kind: Any = None, *args: Any, **options: Any) -> Any:
        """A ready part by TVM's name of it; a part stays what it is.

        Raises:
            MLCError: there is none of that name.
        """
        if isinstance(kind, cls):
            return kind
        import_module(cls.folder)
        ready = {x.kind: x for x in _below(cls) if x.kind}
        if kind not in ready:
            told = repr(kind) if isinstance(kind, str) else kind_of(kind)
            raise MLCError(
                f"{cls.__name__}: {told} is none", hint=f"one of {', '.join(sorted(ready))}"
            )
        return ready[kind](*args, **options)


def _below(cls: type[Part]) -> list[type[Part]]:
    """All classes made of a class, also those in between."""
    return [x for sub in cls.__subclasses__() for x in (sub, *_below(sub))]


def found(folder: dict[str, Any]) -> Callable[[str], Any]:
    """Put the ready parts that lie in a folder into its names; gives its `__getattr__`."""
    owner, places = folder["__name__"], [folder]
    for file in iter_modules(folder["__path__"]):
        places.append(vars(import_module(f"{owner}.{file.name}")))
    ready = {k: v for names in places for k, v in names.items() if getattr(v, "kind", "")}
    folder.update(ready)
    folder["__all__"] += sorted(ready)

    def absent(name: str) -> Any:
        raise AttributeError(missing(f"module {owner!r}", name, folder["__all__"]))

    return absent


def derived_object(cls: type) -> type:
    """The class itself: TVM's callers mark classes of their own by this."""
    return cls
