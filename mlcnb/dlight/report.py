"""Which rule took which function, and why those before it did not.

dlight.rule_report(mod, "cuda")        every loop function of a module
dlight.rule_report(ex)                 the kernels of an executable, by its target

Rules for cuda: 1 function
  function  rule  steps
  main      gemv     11
  passed over  why
  attention    no attention: it takes the blocks of nn.attention, all sizes known
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import PassError
from mlcnb.core.text import kind_of
from mlcnb.dlight import cpu, gpu
from mlcnb.dlight.rule import Choice, choice, is_scheduled
from mlcnb.ir.module import IRModule
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc


class RuleReport(display.Shown):
    """What the default rules of a target make of loop functions.

    Attributes:
        choices: name of a function -> `.rule` that took it, its `.schedule`, and `.passed`: each
            rule before it, and why it did not.
        scheduled: names of functions that somebody has scheduled: no rule is asked.
    """

    def __init__(
        self, target: Target, choices: Mapping[str, Choice], scheduled: tuple[str, ...] = ()
    ) -> None:
        self.target, self.choices, self.scheduled = target, dict(choices), scheduled

    def __getitem__(self, name: str) -> Choice:
        """What became of one function."""
        return self.choices[name]

    def __len__(self) -> int:
        """How many functions the rules were asked about."""
        return len(self.choices)

    @property
    def reasons(self) -> dict[tuple[str, str], list[str]]:
        """(rule, why it was passed over) -> names of functions, in the order of the rules."""
        found: dict[tuple[str, str], list[str]] = {}
        for name, chosen in self.choices.items():
            for passed in chosen.passed:
                found.setdefault((passed.rule, passed.why), []).append(name)
        order = [rule.__name__ for rule in rules_of(self.target)]
        return dict(sorted(found.items(), key=lambda x: order.index(x[0][0])))

    def to_data(self) -> dict[str, Any]:
        """The same for JSON."""
        functions = {
            name: {
                "rule": x.rule or None,
                "steps": 0 if x.schedule is None else len(x.schedule.trace.insts),
                "passed": [{"rule": y.rule, "why": y.why} for y in x.passed],
            }
            for name, x in self.choices.items()
        }
        told = {"functions": functions, "scheduled_already": list(self.scheduled)}
        return {"target": str(self.target), **told}


def rules_of(target: Target) -> tuple[Any, ...]:
    """The default rules of a target, in the order in which they are asked."""
    return cpu.RULES if target.is_cpu else gpu.RULES


def rule_report(mod: Any, target: Any = None) -> RuleReport:
    """Ask the default rules about loop functions, and keep what each says.

    Args:
        mod: a PrimFunc, a module that holds loop functions, or an executable.
        target: default: the executable's, else the current one, else "llvm".

    Raises:
        PassError: there is no loop function.
    """
    if hasattr(mod, "kernels"):
        target = target or mod.target
        named = {name: kernel.func for name, kernel in mod.kernels.items()}
    elif isinstance(mod, IRModule):
        named = {v.name_hint: f for v, f in mod.items()}
    else:
        named = {str(getattr(mod, "attrs", {}).get("global_symbol", "main")): mod}
    funcs = {name: f for name, f in named.items() if isinstance(f, PrimFunc)}
    if not funcs:
        what = "a module of graphs" if isinstance(mod, IRModule) else kind_of(mod)
        raise PassError(
            f"rule_report: {what} has no loop functions",
            hint="compile it and pass the executable, or mlc.get_pipeline()(mod)",
        )
    where = Target(target or Target.current() or "llvm")
    asked = {name: f for name, f in funcs.items() if not is_scheduled(f)}
    choices = {name: choice(rules_of(where), f, where) for name, f in asked.items()}
    return RuleReport(where, choices, tuple(name for name in funcs if name not in asked))
