"""A trace as JSON, as TVM writes it, and done again from there.

    [[["GetBlock", [], ["C", "main"], ["b0"]],             kind, inputs, attributes, outputs
      ["GetLoops", ["b0"], [], ["l1", "l2"]],
      ["Split", ["l1", "None", 4], [true, false], ["l3", "l4"]]],
     []]                                                   [position, decision] of what was drawn

Among the inputs a name is a result of an earlier instruction, text stands in quotes of its own, and
None is the word (null is read as well).
Layouts and sizes are kept as the JSON of their nodes, the variables of the function by their names:
reading runs nothing but the primitives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mlcnb.arith.atoms import variables_of
from mlcnb.core.errors import ScheduleError
from mlcnb.core.node import Node, rewrite
from mlcnb.ir import expr as e
from mlcnb.ir import json as ir_json
from mlcnb.tir.functor import substitute
from mlcnb.tir.index_map import IndexMap, RegionMap
from mlcnb.tir.schedule.record.handles import Handle
from mlcnb.tir.schedule.record.instruction import Instruction


def written(arg: Any, names: Mapping[int, str], quoted: bool) -> Any:
    """An argument as JSON; `names` are those of results."""
    if isinstance(arg, Handle | e.Var) and id(arg) in names:
        return names[id(arg)]
    if isinstance(arg, str):
        return json.dumps(arg) if quoted else arg
    if arg is None and quoted:
        return "None"
    if isinstance(arg, list | tuple):
        return [written(a, names, quoted) for a in arg]
    if isinstance(arg, Mapping):
        return {"map": {str(k): written(v, names, quoted) for k, v in arg.items()}}
    if isinstance(arg, e.IntImm | e.FloatImm):
        return arg.value
    if isinstance(arg, Node):
        return {"node": json.loads(ir_json.save_json(arg))}
    return arg


def apply_json(data: Sequence[Any], sch: Any) -> None:
    """Do the instructions of a trace's JSON on a schedule.

    Raises:
        ScheduleError: the JSON is no trace, or a step is refused.
    """
    try:
        instructions, decisions = data
        drawn = dict(decisions)
        calls = [(kind, inputs, attrs, outputs) for kind, inputs, attrs, outputs in instructions]
    except (TypeError, ValueError) as error:
        raise ScheduleError(
            "the JSON is no trace", hint="[instructions, decisions], as Trace.as_json gives it"
        ) from error
    known: dict[str, Any] = {}
    for n, (kind, inputs, attrs, outputs) in enumerate(calls):
        read_inputs = [_read(x, known, True, sch) for x in inputs]
        inst = Instruction(str(kind), read_inputs, [_read(x, known, False, sch) for x in attrs])
        try:
            given = inst.run(sch, inst.arguments, drawn.get(n))
        except TypeError as error:
            raise ScheduleError(f"instruction {n}, {kind}: {error}") from error
        if len(given) != len(outputs):
            raise ScheduleError(
                f"instruction {n}, {kind}, gives {len(given)} results, the trace names "
                f"{len(outputs)}"
            )
        known.update(zip(outputs, given, strict=True))


def _read(x: Any, known: Mapping[str, Any], quoted: bool, sch: Any) -> Any:
    if isinstance(x, str) and quoted:
        if x in known:
            return known[x]
        if x.startswith('"'):
            return json.loads(x)
        if x == "None":
            return None
        raise ScheduleError(f"the trace uses {x!r}, which no earlier instruction gives")
    if isinstance(x, list):
        return [_read(item, known, quoted, sch) for item in x]
    if isinstance(x, dict) and "map" in x:
        return {k: _read(v, known, quoted, sch) for k, v in x["map"].items()}
    if isinstance(x, dict) and "node" in x:
        return _of_function(ir_json.load_json(json.dumps(x["node"])), sch)
    return x


def _of_function(x: Any, sch: Any) -> Any:
    """An expression in terms of the function's own variables, which are told by their names."""
    if isinstance(x, IndexMap | RegionMap):
        values = {v: sch.symbol(v.name) for v in free_variables(x)}
        return rewrite(x, lambda _: None, enter=values.get) if values else x  # type: ignore[arg-type]
    if not isinstance(x, e.PrimExpr):
        return x
    return substitute(x, {v: sch.symbol(v.name) for v in variables_of(x)})


def free_variables(layout: IndexMap | RegionMap) -> list[e.Var]:
    """The variables of a layout that are no indices of it: sizes that the function knows."""
    parts: tuple[e.PrimExpr, ...]
    if isinstance(layout, IndexMap):
        bound, parts = layout.initial_indices, layout.final_indices
    else:
        bound, parts = layout.axes, (*layout.begins, *layout.ends)
    found = {v for x in parts for v in variables_of(x)} - set(bound)
    return sorted(found, key=lambda v: v.name)
