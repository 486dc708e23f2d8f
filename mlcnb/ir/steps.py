"""Steps: a run that was kept step by step, each found by its number or its pass's name.

run[2], run["FuseOps"], len(run), for step in run
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Generic, Protocol, TypeVar

from mlcnb.core import display
from mlcnb.core.errors import PassError


class Named(Protocol):
    """A step: what is asked of it here."""

    @property
    def name(self) -> str:
        """Of the pass."""


S = TypeVar("S", bound=Named)


class Steps(display.Shown, Generic[S]):
    """Base of runs: a list of steps in order."""

    #: what a run is called in an error
    called: ClassVar[str] = "run"
    steps: list[S]

    def __getitem__(self, key: int | str) -> S:
        """A step by number, or the first one of a pass's name.

        Raises:
            PassError: there is no step of that name.
        """
        if isinstance(key, int):
            return self.steps[key]
        found = next((step for step in self.steps if step.name == key), None)
        if found is None:
            names = ", ".join(step.name for step in self.steps)
            raise PassError(f"{self.called}: no step {key!r}", hint=f"steps: {names}")
        return found

    def __iter__(self) -> Iterator[S]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)
