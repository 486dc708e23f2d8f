"""A trace as JSON, as TVM writes it, and done again from there.

    [[["GetBlock", [], ["C", "main"], ["b0"]],             kind, inputs, attributes, outputs
      ["GetLoops", ["b0"], [], ["l1", "l2"]],
      ["Split", ["l1", null, 4], [true, false], ["l3", "l4"]]],
     []]                                                   [position, decision] of what was drawn

Among the inputs a name is a result of an earlier instruction, and text stands in quotes of its own.
Layouts and sizes are kept as the JSON of their nodes, the variables of the function by their names:
reading runs nothing but the primitives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.core.node import Node, rewrite
from mlcnb.ir import expr as e
from mlcnb.ir import json as ir_json
from mlcnb.tir.functor import substitute
from mlcnb.tir.index_map import IndexMap, RegionMap
from mlcnb.tir.schedule.affine import variables_of
from mlcnb.tir.schedule.handles import Handle

#: arguments that TVM's JSON keeps among the inputs, all others are attributes
INPUTS = frozenset(
    "block loop block_or_loop factors ann_val target loops ordered_loops scope_block "
    "consumer_blocks blocks reduction_block epilogue_block".split()
)
#: inputs whose items are inputs of their own
SPREAD = frozenset(["factors", "loops", "ordered_loops"])
#: kinds of TVM 0.27 that have other names
_RENAMED = {"GetSBlock": "get_block"}

Value = Callable[[Any], Any]


def parts_of(arguments: Mapping[str, Any], names: Mapping[int, str]) -> tuple[list, list]:
    """The inputs and the attributes of an instruction as JSON; `names` are those of results."""
    inputs: list[Any] = []
    attributes: list[Any] = []
    for key, arg in arguments.items():
        if key in SPREAD:
            inputs.extend(_written(x, names, quoted=True) for x in arg)
        elif key in INPUTS:
            inputs.append(_written(arg, names, quoted=True))
        elif key != "decision":
            attributes.append(_written(arg, names, quoted=False))
    return inputs, attributes


def _written(arg: Any, names: Mapping[int, str], quoted: bool) -> Any:
    if isinstance(arg, Handle | e.Var) and id(arg) in names:
        return names[id(arg)]
    if isinstance(arg, str):
        return json.dumps(arg) if quoted else arg
    if isinstance(arg, list | tuple):
        return [_written(a, names, quoted) for a in arg]
    if isinstance(arg, Mapping):
        return {"map": {str(k): _written(v, names, quoted) for k, v in arg.items()}}
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
        given = _run(sch, kind, list(inputs), list(attrs), drawn.get(n), known)
        if len(given) != len(outputs):
            raise ScheduleError(
                f"instruction {n}, {kind}, gives {len(given)} results, the trace names "
                f"{len(outputs)}"
            )
        known.update(zip(outputs, given, strict=True))


def results(given: Any) -> list[Any]:
    """What a primitive gave, as a list of results that a trace names."""
    if given is None or isinstance(given, bool):
        return []
    return list(given) if isinstance(given, list) else [given]


def _run(
    sch: Any, kind: Any, inputs: list[Any], attrs: list[Any], decision: Any, known: dict[str, Any]
) -> list[Any]:
    if kind == "EnterPostproc":
        sch.enter_postproc()
        return []
    method = _method(sch, kind)
    positional: list[Any] = []
    keyed: dict[str, Any] = {}
    for name, parameter in method.primitive.signature.parameters.items():
        if name == "decision":
            continue
        source = inputs if name in INPUTS else attrs
        if name in SPREAD:
            value: Any = [_read(x, known, True, sch) for x in inputs]
            inputs = []
        elif source:
            value = _read(source.pop(0), known, name in INPUTS, sch)
        else:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional = value
        else:
            keyed[name] = value
    if decision is not None:
        keyed["decision"] = decision
    return results(method(*positional, **keyed))


def _method(sch: Any, kind: Any) -> Any:
    name = _RENAMED.get(kind) or re.sub(r"(?<!^)(?=[A-Z])", "_", str(kind)).lower()
    method = getattr(sch, name, None)
    if not hasattr(method, "primitive"):
        raise ScheduleError(f"there is no instruction kind {kind!r}")
    return method


def _read(x: Any, known: Mapping[str, Any], quoted: bool, sch: Any) -> Any:
    if isinstance(x, str) and quoted:
        if x in known:
            return known[x]
        if x.startswith('"'):
            return json.loads(x)
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
