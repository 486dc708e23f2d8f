"""JSON with one or two things in it changed: hypothesis draws what, and where."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

#: what stands in the place of something else
VALUES = st.sampled_from(
    [0, -1, 1, 2**31, 2**32 + 4, 2**64, 1.5, float("nan"), "x", "", "\ud800", "9" * 30, None, True,
     [], [1], [[1]], {}, {"node": "x"}, {"node": 0}, {"tuple": 3}, "b0", "l1", "v3", '"'],
)  # fmt: skip


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all that stands in lists and dicts of some JSON."""
    items = enumerate(data) if isinstance(data, list) else ()
    for key, value in data.items() if isinstance(data, dict) else items:
        yield (*path, key)
        yield from places(value, (*path, key))


@st.composite
def damaged(draw: st.DrawFn, data: Any) -> Any:
    """`data` with a value replaced, taken out or written twice, up to two times."""
    found = copy.deepcopy(data)
    for _ in range(draw(st.integers(1, 2))):
        *way, last = draw(st.sampled_from(sorted(places(found), key=str)))
        at = found
        for key in way:
            at = at[key]
        how = draw(st.sampled_from(["replace", "replace", "replace", "drop", "twice"]))
        if how == "replace":
            at[last] = copy.deepcopy(draw(VALUES))  # the next damage may be inside of it
        elif how == "drop":
            del at[last]
        elif isinstance(at, list):
            at.insert(last, copy.deepcopy(at[last]))
    return found
