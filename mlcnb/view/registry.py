"""Which view shows an object: a table by class name, filled by the files of this folder.

    @shows("mlcnb.runtime.profile:Profile")
    def profile(p: Profile) -> list[Part]: ...

The class is named by a string, so a view costs no import of what it shows, and only the file of the
view that is wanted is imported: a new view is found by lying here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlcnb.core.found import Found
from mlcnb.view.parts import Part

View = Callable[[Any], Sequence[Part]]
_views = Found("mlcnb.view", "shows")
#: decorator: this function shows objects of these classes ("module:Class") and below
shows = _views.keep
#: every class that has a view
kinds = _views.kinds


def find(obj: Any) -> View | None:
    """The view of the nearest class that has one, or None."""
    return _views.of(obj)
