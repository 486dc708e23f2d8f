"""A cell that is run again: its steps are replaced, not stacked on top of themselves.

    cell 1    sch = Schedule(matmul)
    cell 2    i, j, k = sch.get_loops("C")       run, edited, and run again: the schedule first goes
              sch.split(i, [None, 8])            back to where it stood before cell 2

A line says so, with a button that brings the earlier steps back (`sch.restore()`). Steps that other
cells did later are undone too: run these cells again. Nothing is asked, so that a notebook that is
run as a whole never waits. `mlcnb.options.set("rerun", "stack")` leaves all as it is.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core import above, cells, options


def meet(sch: Any) -> None:
    """Before a step: go back if the cell that runs now has done steps on the schedule before."""
    now = cells.current()
    if now is None or sch._met == now:
        return
    sch._met = now
    steps = sch.steps[1 : sch.position + 1]
    done = [x.number for x in steps if x.run and x.run.cell == now.cell and x.run != now]
    if done and options.get("rerun") == "replace":
        told = _told(done, sch.position)
        sch._replaced = sch.copy()
        sch.goto(done[0] - 1)
        _forget_looks(sch, now.cell)
        above.ask("tell replaced")(sch, told)
    sch._entered[now.cell] = (sch.position, len(sch.state.instructions))


def _forget_looks(sch: Any, cell: str) -> None:
    """Take out of the trace what the cell only looked at (get_loops) before its first step."""
    position, known = sch._entered.get(cell, (None, 0))
    if position == sch.position:
        del sch.state.instructions[known:]


def _told(done: list[int], position: int) -> str:
    """`run again: steps 2 to 4 of this cell replaced, 5 to 6 after it undone`"""
    of = "step" if len(done) == 1 else "steps"
    last = done[-1]
    told = f"run again: {of} {_range(done[0], last)} of this cell replaced"
    return told if position == last else f"{told}, {_range(last + 1, position)} after it undone"


def _range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first} to {last}"
