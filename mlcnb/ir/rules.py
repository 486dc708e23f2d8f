"""Rewrite rules of passes: each has a name and a place, is counted, and can be left out.

    @rule("SimplifyOps")                       a function that gives the new value, or None
    def _permute_dims(s, call): ...            -> SimplifyOps.permute_dims, simplify_ops.py:115

    run = transform.trace(pipeline, mod)
    run["SimplifyOps"].rules                   SimplifyOps.permute_dims ×12 …
    run["SimplifyOps"].without("SimplifyOps.permute_dims")
    with PassContext(disabled_rules=["SimplifyOps.permute_dims"]): mod = pipeline(mod)

A pass that decides in a loop of its own asks `rule.is_on` and calls `rule.fire(node)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from mlcnb.core import above, display
from mlcnb.core.errors import PassError
from mlcnb.core.groups import grouped
from mlcnb.core.node import Node

F = TypeVar("F", bound=Callable[..., Any])
#: the folder that holds the package: places are told relative to it
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, eq=False)
class Rule(display.Shown):
    """One rewrite rule. name: "SimplifyOps.permute_dims"; function: what does the work."""

    name: str
    function: Any

    @property
    def owner(self) -> str:
        """The name of the pass."""
        return self.name.partition(".")[0]

    @property
    def short(self) -> str:
        """The name without that of the pass."""
        return self.name.partition(".")[2]

    @cached_property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        text = inspect.getdoc(self.function) or ""
        return text.split("\n\n")[0].replace("\n", " ")

    @cached_property
    def source(self) -> str:
        """Where it is written: `mlcnb/relax/transform/simplify_ops.py:115`."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        if code is None:
            return ""
        path = Path(code.co_filename)
        inside = path.is_relative_to(_ROOT)
        return f"{path.relative_to(_ROOT) if inside else path.name}:{code.co_firstlineno}"

    @cached_property
    def code(self) -> str:
        """The lines of its function; nothing where they cannot be read."""
        try:
            return inspect.cleandoc(inspect.getsource(inspect.unwrap(self.function)))
        except (OSError, TypeError):
            return ""

    @property
    def is_on(self) -> bool:
        """Whether the running pass may apply it."""
        recorder = _running.get()
        return recorder is None or self.name not in recorder.disabled

    def fire(self, *nodes: Any) -> None:
        """Say that it was applied to these nodes of the program, and to what is being visited."""
        recorder = _running.get()
        if recorder is not None:
            at = recorder.at
            seen = at is None or any(n is at for n in nodes)
            recorder.fired.append(Fired(self, nodes if seen else (*nodes, at)))

    def __repr__(self) -> str:
        return f"{self.name} ({self.source})"


class Fired(NamedTuple):
    """One use of a rule, and the nodes that it was applied to."""

    rule: Rule
    nodes: tuple[Any, ...]


@dataclass(frozen=True)
class RuleCount(display.Shown):
    """A rule, and the nodes of each of its uses in one run of a pass."""

    rule: Rule
    uses: tuple[tuple[Any, ...], ...]

    @property
    def count(self) -> int:
        """How often it was applied."""
        return len(self.uses)

    def __repr__(self) -> str:
        return f"{self.rule.name} ×{self.count}"


def counted(fired: Iterable[Fired]) -> tuple[RuleCount, ...]:
    """The rules in the order of their first use, each with all of its uses."""
    uses = grouped((each.rule, each.nodes) for each in fired)
    return tuple(RuleCount(rule, tuple(nodes)) for rule, nodes in uses.items())


@dataclass
class Recorder:
    """What one run of a pass may not apply, what it applied, and the node that it is at."""

    disabled: frozenset[str]
    fired: list[Fired] = field(default_factory=list)
    at: Any = None


_running: ContextVar[Recorder | None] = ContextVar("recorder", default=None)
_rules: dict[str, Rule] = {}
_families: dict[str, Callable[[str], Rule | None]] = {}


@contextmanager
def recording(disabled: Iterable[str]) -> Iterator[Recorder]:
    """Collect the uses of rules inside; those that are named give None."""
    recorder = Recorder(frozenset(disabled))
    token = _running.set(recorder)
    try:
        yield recorder
    finally:
        _running.reset(token)


def visiting(node: Any) -> None:
    """The running pass has come to this node: rules that are applied now are applied there."""
    recorder = _running.get()
    if recorder is not None:
        recorder.at = node


def declare(name: str, function: Any) -> Rule:
    """The rule of that name ("Pass.rule"), made at its first mention."""
    return _rules.setdefault(name, Rule(name, function))


def declare_family(owner: str, find: Callable[[str], Rule | None]) -> None:
    """A pass with a rule for each of many things: `find` gives that of a short name, or None."""
    _families[owner] = find


def rule(owner: str, name: str = "") -> Callable[[F], F]:
    """Decorator of a function that gives a new value, or None where it does not apply.

    Args:
        owner: the name of the pass.
        name: of the rule; the function's, without `_` in front, if not given.
    """

    def keep(function: F) -> F:
        made = declare(f"{owner}.{name or function.__name__.strip('_')}", function)

        @wraps(function)
        def apply(*args: Any, **given: Any) -> Any:
            if not made.is_on:
                return None
            result = function(*args, **given)
            if result is not None:
                made.fire(*(a for a in args if isinstance(a, Node)))
            return result

        return apply  # type: ignore[return-value]

    return keep


def rules_of(owner: str) -> tuple[Rule, ...]:
    """The rules that a pass has declared, by its name: file by file, as they stand there."""
    _load_passes()
    found = (r for r in _rules.values() if r.owner == owner)
    return tuple(sorted(found, key=lambda r: r.source.rpartition(":")[0]))


def find_rule(name: str) -> Rule:
    """A rule by its full name.

    Raises:
        PassError: there is no such rule; the hint says which there are.
    """
    _load_passes()
    owner, _, short = name.partition(".")
    family = _families.get(owner)
    found = _rules.get(name) or (family(short) if family is not None else None)
    if found is None:
        known = [r.name for r in rules_of(owner)] or sorted({r.owner for r in _rules.values()})
        what = "rules" if known and "." in known[0] else "passes with rules"
        raise PassError(f"no rewrite rule {name!r}", hint=f"{what}: {', '.join(known)}")
    return found


def _load_passes() -> None:
    """Rules are known once their passes are imported."""
    above.ask("get_pipeline")
