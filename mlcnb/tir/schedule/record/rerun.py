"""A cell that is run again: its steps are replaced, not stacked on top of themselves.

    cell 1    sch = Schedule(matmul)
    cell 2    i, j, k = sch.get_loops("C")       run, edited, and run again: the schedule first goes
              sch.split(i, [None, 8])            back to where it stood before cell 2

`mlcnb.options.set("rerun", "replace")` does so without a word, `"ask"` (the default) asks,
`"stack"` leaves all as it is. Steps that other cells did later are undone too: run these cells
again.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core import cells, options
from mlcnb.core.errors import MLCError

CHOICES = ("ask", "replace", "stack")


def meet(sch: Any) -> None:
    """Before a step: go back if the cell that runs now has done steps on the schedule before."""
    now = cells.current()
    if now is None or sch._met == now:
        return
    sch._met = now
    steps = sch.steps[1 : sch.position + 1]
    done = [x.number for x in steps if x.run and x.run.cell == now.cell and x.run != now]
    if done and _wants_replacement(done, sch.position):
        sch.goto(done[0] - 1)
        _forget_looks(sch, now.cell)
    sch._entered[now.cell] = (sch.position, len(sch.state.instructions))


def _forget_looks(sch: Any, cell: str) -> None:
    """Take out of the trace what the cell only looked at (get_loops) before its first step."""
    position, known = sch._entered.get(cell, (None, 0))
    if position == sch.position:
        del sch.state.instructions[known:]


def _wants_replacement(done: list[int], position: int) -> bool:
    choice = options.get("rerun")
    if choice not in CHOICES:
        raise MLCError(f"there is no rerun option {choice!r}", hint=f"one of {', '.join(CHOICES)}")
    if choice != "ask":
        return bool(choice == "replace")
    told = _told(done, position)
    if not cells.can_ask():
        print(f'{told}; they stay. mlcnb.options.set("rerun", "replace") takes them back')
        return False
    return input(f"{told}. Take them back first? [Y/n] ").strip().lower() in ("", "y", "yes")


def _told(done: list[int], position: int) -> str:
    """`this cell has done steps 2 to 4 already (and steps 5 to 6 came after)`"""
    told = f"this cell has done {_range(done[0], done[-1])} of this schedule already"
    later = f" (and {_range(done[-1] + 1, position)} came after)" if position > done[-1] else ""
    return told + later


def _range(first: int, last: int) -> str:
    return f"step {first}" if first == last else f"steps {first} to {last}"
