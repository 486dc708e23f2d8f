"""do: a call on nodes, done on a schedule as a person would write it.

    do(sch, "main", call)     block C: a handle that the trace has already, else sch.get_block("C")
                              loop j: a handle that the trace has already, else one of get_loops

So a schedule that was made by choosing from `legal_steps` has the trace of one made by hand, and
its code (`cell_code`) reads like it.
"""

from __future__ import annotations

from mlcnb.core.errors import MLCError, ScheduleError
from mlcnb.tir import stmt as s
from mlcnb.tir.schedule.offers.candidates import Call
from mlcnb.tir.schedule.record.handles import Handle, name_of
from mlcnb.tir.schedule.schedule import Schedule


def do(sch: Schedule, name: str, call: Call) -> None:
    """Do a call on a schedule; where it is refused, the trace is as it was.

    Args:
        sch: the schedule, which the step is added to.
        name: the function in which the call's nodes stand now.
        call: the call, as `legal_steps` has it.

    Raises:
        ScheduleError: it is not legal.
    """
    instructions = sch.state.instructions
    known = len(instructions)
    try:
        call.on(sch, lambda node: handle_of(sch, name, node))
    except MLCError:
        del instructions[known:]
        raise


def handle_of(sch: Schedule, name: str, node: s.For | s.Block) -> Handle:
    """A handle of a block or loop that the trace knows, or that it gets to know now.

    Raises:
        ScheduleError: no name leads to it: a loop around no block, two blocks of one name.
    """
    for instruction in sch.state.instructions:
        for made in instruction.outputs:
            if isinstance(made, Handle) and sch.state.handles.get(made) == (name, node):
                return made
    tree = sch.state.tree(name)
    if isinstance(node, s.Block):
        found: Handle = sch.get_block(node.name_hint, func_name=name)
        if sch.get(found) is not node:
            raise ScheduleError(f"{name_of(node)} is not the only block of that name")
        return found
    blocks = tree.blocks_under(node)
    if not blocks:
        raise ScheduleError(f"{name_of(node)} has no block in it that would lead to it")
    around = tree.loops(blocks[0])
    return sch.get_loops(handle_of(sch, name, blocks[0]))[around.index(node)]
