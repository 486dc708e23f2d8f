"""Trace: the instructions of a schedule, as data, as Python, as JSON, and run again.

# from tvm import tir
def apply_trace(sch: tir.Schedule) -> None:
  b0 = sch.get_block(name="C", func_name="main")
  l1, l2, l3 = sch.get_loops(block=b0)
  l4, l5 = sch.split(loop=l1, factors=[None, 4], preserve_unit_iters=True,
  disable_predication=False)

The same as JSON, as TVM writes it: [kind, inputs, attributes, outputs] of each instruction, then
[position, decision] of what was drawn.

    [[["GetBlock", [], ["C", "main"], ["b0"]],
      ["GetLoops", ["b0"], [], ["l1", "l2"]],
      ["Split", ["l1", "None", 4], [true, false], ["l3", "l4"]]],
     []]

Among the inputs a name is a result of an earlier instruction, text stands in quotes of its own, and
None is the word (null is read as well). Layouts and sizes are kept as the JSON of their nodes, the
variables of the function by their names: reading runs nothing but the primitives.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mlcnb.arith.atoms import variables_of
from mlcnb.core import display
from mlcnb.core.errors import ScheduleError, StepArgumentError
from mlcnb.core.means import within_means
from mlcnb.core.node import Node, rewrite
from mlcnb.ir import expr as e
from mlcnb.ir import json as ir_json
from mlcnb.tir.functor import substitute
from mlcnb.tir.index_map import IndexMap, RegionMap
from mlcnb.tir.schedule.record.handles import BlockRV, Handle, LoopRV, text_of
from mlcnb.tir.schedule.record.instruction import Instruction
from mlcnb.tir.schedule.record.step import leaves

_HEADER = ("# from tvm import tir", "def apply_trace(sch: tir.Schedule) -> None:")


class Trace(display.Shown):
    """Instructions in order, with the decisions that sampling made."""

    def __init__(self, insts: Any = (), decisions: Mapping[Instruction, Any] | None = None) -> None:
        self.insts: list[Instruction] = list(insts)
        for i, inst in enumerate(self.insts):
            if decisions and inst in decisions:
                self.insts[i] = inst.deciding(decisions[inst])

    def __len__(self) -> int:
        return len(self.insts)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.insts)

    def __repr__(self) -> str:
        lines = [f"  {line}" for line in importing(self.as_python())] or ["  pass"]
        return "\n".join([*_HEADER, *lines])

    @property
    def decisions(self) -> dict[Instruction, Any]:
        """Each sampling instruction -> what it drew."""
        return {inst: inst.decision for inst in self.insts if inst.decision is not None}

    def append(self, inst: Instruction, decision: Any = None) -> None:
        """Add an instruction at the end."""
        self.insts.append(inst if decision is None else inst.deciding(decision))

    def pop(self) -> Instruction | None:
        """Take the last instruction off."""
        return self.insts.pop() if self.insts else None

    def get_decision(self, inst: Instruction) -> Any:
        """What a sampling instruction draws in this trace; None: it draws nothing."""
        mine = (x for x in self.insts if x is inst or x.draws_as(inst))
        return next(mine, inst).decision

    def with_decision(
        self, inst: Instruction, decision: Any, remove_postproc: bool = False
    ) -> Trace:
        """A trace in which `inst` draws `decision`."""
        kept = self._before_postproc() if remove_postproc else self.insts
        return Trace(i.deciding(decision) if i is inst else i for i in kept)

    def simplified(self, remove_postproc: bool = False) -> Trace:
        """A trace without the inspections whose results nothing uses."""
        kept: list[Instruction] = []
        used: set[int] = set()
        for inst in reversed(self._before_postproc() if remove_postproc else self.insts):
            if inst.pure and not any(id(o) in used for o in inst.outputs):
                continue
            used.update(map(id, leaves(inst.arguments)))
            kept.append(inst)
        return Trace(reversed(kept))

    def _before_postproc(self) -> list[Instruction]:
        names = [inst.name for inst in self.insts]
        return (
            self.insts[: names.index("enter_postproc")] if "enter_postproc" in names else self.insts
        )

    def apply_to_schedule(
        self,
        sch: Any,
        remove_postproc: bool = False,
        decision_provider: Callable[..., Any] | None = None,
    ) -> None:
        """Do the same steps on another schedule.

        Args:
            sch: the schedule to work on.
            remove_postproc: stop at `enter_postproc`.
            decision_provider: called as (inst, inputs, attrs, decision), gives the decision to
                take.

        Raises:
            ScheduleError: a step is refused, or gives another number of loops or blocks than in the
                program that it comes from. The steps before it are done.
        """
        known: dict[int, Any] = {}
        for n, inst in enumerate(self._before_postproc() if remove_postproc else self.insts):
            arguments = {k: _mapped(v, known) for k, v in inst.arguments.items()}
            decision = inst.decision
            if decision_provider is not None and decision is not None:
                decision = decision_provider(inst, inst.inputs, inst.attrs, decision)
            given = inst.run(sch, arguments, decision)
            _learn(known, [id(old) for old in inst.outputs], given, n, inst.kind.name)

    def as_python(self) -> list[str]:
        """The steps as statements of Python, as TVM prints them."""
        names = Names()
        return self.statements(names, lambda inst: inst.call(names.value))

    def statements(self, names: Names, call: Callable[[Instruction], str]) -> list[str]:
        """A line for each size of the function that the steps use, then one for each step."""
        drawn = {id(o) for i in self.insts for o in i.outputs}
        given = (v for i in self.insts for v in _symbols(i.arguments) if id(v) not in drawn)
        symbols = dict.fromkeys(v.name for v in given)
        lines = [f"{name} = sch.symbol({name!r})" for name in symbols]
        for inst in self.insts:
            done = call(inst)
            made = ", ".join(names.make(o) for o in inst.outputs)
            trailing = "," if len(inst.outputs) == 1 and inst.name in _LISTS else ""
            lines.append(f"{made}{trailing} = {done}" if made else done)
        return lines

    def as_json(self) -> list[Any]:
        """[instructions, decisions] as TVM writes it: each [kind, inputs, attrs, outputs]."""
        names = Names()
        insts, decisions = [], []
        for i, inst in enumerate(self.insts):
            inputs = [written(x, names.given, quoted=True) for x in inst.inputs]
            attrs = [written(x, names.given, quoted=False) for x in inst.attrs]
            made = [names.make(o) for o in inst.outputs]
            insts.append([inst.kind.name, inputs, attrs, made])
            if inst.decision is not None:
                decisions.append([i, inst.decision])
        return [insts, decisions]

    @staticmethod
    def apply_json_to_schedule(json_obj: Any, sch: Any) -> None:
        """Do the steps that `as_json` wrote on a schedule."""
        with within_means("the trace", ScheduleError):
            apply_json(json_obj, sch)

    def show(self, style: str | None = None, black_format: bool | None = None) -> None:
        """Print the Python form. style and black_format are TVM's, and change nothing."""
        print(self)


def importing(lines: list[str]) -> list[str]:
    """Lines of Python behind an import of what they use."""
    used = any(re.search(r"\bT\.\w+\(", line) for line in lines)
    return ["from mlcnb.script import tir as T", *lines] if used else lines


_LISTS = frozenset(
    "split get_loops get_child_blocks get_producers get_consumers get_output_blocks "
    "sample_perfect_tile sample_partitioned_tile loop_partition cache_inplace cache_index".split()
)


def _mapped(value: Any, known: Mapping[int, Any]) -> Any:
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, list | tuple):
        return type(value)(_mapped(v, known) for v in value)
    return value


def _symbols(arguments: Any) -> Iterator[e.Var]:
    """The variables of the function in sizes that were given as expressions."""
    for value in leaves(arguments):
        if isinstance(value, IndexMap | RegionMap):
            yield from free_variables(value)
        elif isinstance(value, e.PrimExpr):
            yield from sorted(variables_of(value), key=lambda v: v.name)


def _lambda(layout: IndexMap) -> str:
    names = ", ".join(v.name for v in layout.initial_indices)
    results = "".join(f"{text_of(x)}, " for x in layout.final_indices)
    return (
        f"lambda {names}: ({results.strip() if len(layout.final_indices) == 1 else results[:-2]})"
    )


def _region_lambda(region: RegionMap) -> str:
    names = ", ".join(v.name for v in region.axes)
    pairs = zip(region.begins, region.ends, strict=True)
    results = ", ".join(f"({text_of(low)}, {text_of(end)})" for low, end in pairs)
    return f"lambda {names}: [{results}]"


class Names:
    """b0, l1, v2, …: a name for each result, in order."""

    def __init__(self) -> None:
        self.given: dict[int, str] = {}

    def make(self, output: Any) -> str:
        """The name of a new result."""
        prefix = "b" if isinstance(output, BlockRV) else "l" if isinstance(output, LoopRV) else "v"
        self.given[id(output)] = f"{prefix}{len(self.given)}"
        return self.given[id(output)]

    def value(self, arg: Any) -> str:
        """An argument as Python text."""
        if id(arg) in self.given:
            return self.given[id(arg)]
        if isinstance(arg, str):
            return json.dumps(arg)
        if isinstance(arg, list):
            return f"[{', '.join(map(self.value, arg))}]"
        if isinstance(arg, tuple):
            inner = ", ".join(map(self.value, arg))
            return f"({inner},)" if len(arg) == 1 else f"({inner})"
        if isinstance(arg, Mapping):
            return f"{{{', '.join(f'{k!r}: {self.value(v)}' for k, v in arg.items())}}}"
        if isinstance(arg, e.IntImm | e.FloatImm):
            return self.value(bool(arg.value) if arg.dtype == "bool" else arg.value)
        if isinstance(arg, float) and not math.isfinite(arg):
            return f'float("{arg}")'
        if isinstance(arg, bool | int | float) or arg is None:
            return repr(arg)
        if isinstance(arg, RegionMap):
            return _region_lambda(arg)
        return _lambda(arg) if isinstance(arg, IndexMap) else text_of(arg)


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
        calls = [_listed(call) for call in instructions]
    except (TypeError, ValueError) as error:
        raise ScheduleError(
            "the JSON is no trace", hint="[instructions, decisions], as Trace.as_json gives it"
        ) from error
    known: dict[str, Any] = {}
    for n, (kind, inputs, attrs, outputs) in enumerate(calls):
        read_inputs = [_read(x, known, True, sch) for x in inputs]
        inst = Instruction(kind, read_inputs, [_read(x, known, False, sch) for x in attrs])
        try:
            given = inst.run(sch, inst.arguments, drawn.get(n))
        except StepArgumentError as error:
            raise ScheduleError(f"instruction {n}, {error.message}", hint=error.hint) from error
        except TypeError as error:
            raise ScheduleError(f"instruction {n}, {kind}: {error}") from error
        _learn(known, outputs, given, n, kind)


def _learn(
    known: dict[Any, Any], names: Sequence[Any], given: Sequence[Any], n: int, kind: str
) -> None:
    """What the n-th instruction gave, by the names of its outputs."""
    if len(given) != len(names):
        raise ScheduleError(
            f"instruction {n}, {kind}, gives {len(given)} results, the trace names {len(names)}"
        )
    known.update(zip(names, given, strict=True))


def _listed(call: Any) -> tuple[str, list[Any], list[Any], list[str]]:
    """An instruction of a trace's JSON; TypeError or ValueError for what is none."""
    kind, inputs, attrs, outputs = call
    lists = all(isinstance(x, list | tuple) for x in (inputs, attrs, outputs))
    if not (lists and all(isinstance(x, str) for x in (kind, *outputs))):
        raise TypeError("an instruction has a name and three lists, the last of names")
    return kind, inputs, attrs, outputs


def _read(x: Any, known: Mapping[str, Any], quoted: bool, sch: Any) -> Any:
    if isinstance(x, str) and quoted:
        if x in known:
            return known[x]
        if x.startswith('"'):
            return _quoted(x)
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


def _quoted(text: str) -> str:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ScheduleError(f"the trace's string {text!r} is damaged: {error}") from None


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
