"""Explorer: a schedule that is made, understood and changed by clicking; the schedule is the truth.

    page = mlc.explore(sch)               steps, program, loop tree, and what is legal at each place
    page.do("split", "j", factors=[None, 16])        what a click does: a step on `sch` itself
    page.undo(); page.redo()
    other = page.branch("tile 32", at=2)  a schedule of its own that goes on from step 2
    page.compare("main", "tile 32")       both programs side by side
    print(page.code)                      the steps so far, as a cell of Python

All programs travel with the page, so a saved notebook steps and compares with no kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlcnb.core import cells
from mlcnb.core.errors import MLCError, ScheduleError
from mlcnb.core.text import visible
from mlcnb.machine.prediction import cpu
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.offers.candidates import Call
from mlcnb.tir.schedule.offers.cell_code import cell_code, cell_lines
from mlcnb.tir.schedule.offers.doing import do
from mlcnb.tir.schedule.offers.legal import LegalStep, LegalSteps, legal_at
from mlcnb.tir.schedule.offers.repairs import repairs
from mlcnb.tir.schedule.record.handles import Handle
from mlcnb.tir.schedule.schedule import Schedule
from mlcnb.view.parts import Part
from mlcnb.view.schedule import call_text
from mlcnb.view.words import clip, listed
from mlcnb.widgets import explorer_parts
from mlcnb.widgets.base import Interactive
from mlcnb.widgets.card import card
from mlcnb.widgets.checks import Checks
from mlcnb.widgets.offers import OFFERS, call_of, calls_of, costs_of, offers_of
from mlcnb.widgets.registry import explores
from mlcnb.widgets.storyboard import FEW, MANY, Storyboard, functions_of, places

#: the branch that is the schedule itself
MAIN = "main"
#: characters of a branch's name
NAME = 40
#: places whose legal steps travel with the page
KEPT = 4
#: seconds of predicting costs for one question of the page: others may come in between
AT_ONCE = 0.25
#: steps that are all predicted, so that a saved page knows them; of more, those on each side of
#: where the schedule stands or the reader looks
ALL, AROUND = 64, 6


@explores("mlcnb.tir.function:PrimFunc")
def of_function(func: PrimFunc, **options: Any) -> Explorer:
    """The page of a function of loops: of a schedule that has no steps yet."""
    return Explorer(Schedule(func), **options)


@explores("mlcnb.tir.schedule.schedule:Schedule")
class Explorer(Interactive):
    """The page of a schedule.

    Args:
        sch: the schedule; what is done in the page is done to it.
        target: the machine that predictions are for; by default this one.
        branches: name -> other schedules to show beside it, such as copies of it.

    Attributes:
        branches: name -> schedule; "main" is `sch` itself.
    """

    module = "explorer"
    traits = ("branch", "step", "loop")

    def __init__(
        self,
        sch: Schedule,
        target: Target | str | None = None,
        branches: Mapping[str, Schedule] | None = None,
    ) -> None:
        self.target = Target(target) if target is not None else None
        self.branches: dict[str, Schedule] = {MAIN: sch}
        self._from: dict[str, tuple[str, int]] = {}
        self._checks = Checks()
        self._functions: set[str] = set()
        self._legal: dict[tuple[PrimFunc, int], LegalSteps] = {}
        #: asked for by the page, which has not asked for the costs yet
        self._unweighed: set[tuple[PrimFunc, int]] = set()
        self._instead: list[LegalStep] = []
        self._shown: dict[str, Any] = {}
        self._looked_at: dict[str, set[int]] = {}
        for name, other in (branches or {}).items():
            self._add(name, other)

    # -- what is done ----------------------------------------------------------------------------

    @property
    def sch(self) -> Schedule:
        """The schedule itself."""
        return self.branches[MAIN]

    @property
    def code(self) -> str:
        """The steps of the schedule so far, as lines of Python that act on `sch`."""
        return cell_code(self.sch)

    def do(self, primitive: str, place: Any, branch: str = MAIN, **arguments: Any) -> Explorer:
        """Do a step, as a click in the page does.

        Args:
            primitive: its name.
            place: a handle, or the name of a block or loop: its first argument; or a list of them,
                for a primitive that takes several.
            branch: the branch that it is done on.
            arguments: the others, by name.

        Raises:
            ScheduleError: it is not legal, or there is no such place.
        """
        sch = self._branch(branch)
        nodes = [self._node(sch, x) for x in (place if isinstance(place, list) else [place])]
        name = nodes[0][0]
        given = [node for _, node in nodes] if len(nodes) > 1 else nodes[0][1]
        self._apply(branch, name, call_of(primitive, sch, name, given, arguments))
        return self

    def legal(self, place: Any, branch: str = MAIN) -> LegalSteps:
        """What is legal at a place now; the page keeps it, so that it is there with no kernel.

        Args:
            place: a handle, or the name of a block or loop.
            branch: the branch to look at.
        """
        sch = self._branch(branch)
        name, node = self._node(sch, place)
        row = next(n for n, x in enumerate(places(sch.mod[name])) if x.node is node)
        found = self._legal_at(sch, sch.position, name, row)
        self._unweighed.discard((sch.mod[name], row))
        self.refresh()
        return found

    def undo(self, branch: str = MAIN) -> Explorer:
        """Take the last step back."""
        self._branch(branch).undo()
        self.refresh()
        return self

    def redo(self, branch: str = MAIN) -> Explorer:
        """Do again what was undone last."""
        self._branch(branch).redo()
        self.refresh()
        return self

    def branch(self, name: str, at: int | None = None, branch: str = MAIN) -> Schedule:
        """Another schedule that goes on from a step of this one, shown beside it.

        Args:
            name: what to call it.
            at: the step; by default the one that the schedule stands at.
            branch: the branch to start from.
        """
        sch = self._branch(branch)
        position = sch.position
        sch.goto(position if at is None else at)
        made = sch.copy()
        sch.goto(position)
        self._from[self._add(name, made)] = (branch, made.position)
        self.refresh()
        return made

    def check(self, branch: str = MAIN) -> dict[int, str]:
        """Run the program at each step on the same random arrays: step -> how far it differs from
        the program as given.
        """
        found = self._checks.run(self._branch(branch))
        self.refresh()
        return found

    def compare(self, first: str, second: str) -> explorer_parts.Comparison:
        """Two branches side by side: programs, predictions, and the steps that only one has."""
        return explorer_parts.Comparison(
            first, self._branch(first), second, self._branch(second), self.target
        )

    def _add(self, name: str, sch: Schedule) -> str:
        """Keep a branch under a name of its own."""
        wanted = clip(str(name).strip(), NAME) or "branch"
        free = wanted
        for number in range(2, 1000):
            if free not in self.branches:
                break
            free = f"{wanted} {number}"
        self.branches[free] = sch
        return free

    def _apply(self, branch: str, name: str, call: Call) -> None:
        """Do a call on a branch; steps that were undone there stay as a branch of their own."""
        sch = self._branch(branch)
        position, last = sch.position, len(sch.steps) - 1
        undone = sch.goto(last).copy() if last > position else None
        sch.goto(position)
        sch._met = None  # a click belongs to no cell
        with cells.outside():
            do(sch, name, call)
        if undone is not None:
            self._from[self._add("undone", undone)] = (branch, position)
        self.refresh()

    def _branch(self, name: str) -> Schedule:
        if name not in self.branches:
            raise MLCError(
                f"there is no branch {clip(str(name))!r}", hint=f"there are {listed(self.branches)}"
            )
        return self.branches[name]

    def _node(self, sch: Schedule, place: Any) -> tuple[str, Any]:
        """The function and node of a handle, or of the name of a block or loop."""
        if isinstance(place, Handle):
            return sch.state.node(place)
        for name in functions_of(sch):
            for found in places(sch.mod[name]):
                if place == found.name:
                    return name, found.node
        known = (x.name for n in functions_of(sch) for x in places(sch.mod[n]))
        raise ScheduleError(
            f"there is no block or loop {clip(str(place))!r}",
            hint=f"there are {listed(dict.fromkeys(known), 12)}",
        )

    def _legal_at(self, sch: Schedule, at: int, name: str, row: int) -> LegalSteps:
        func = sch.steps[at].mod[name]
        if (func, row) not in self._legal:
            other = sch
            if at != sch.position:
                now = sch.position
                other = sch.goto(at).copy()
                sch.goto(now)
            self._legal[func, row] = legal_at(other, name, places(func)[row].node)
        return self._legal[func, row]

    # -- what is asked from the page -------------------------------------------------------------

    def on_legal(self, branch: str, at: int, name: str, row: int) -> dict[str, Any]:
        """What is legal at a place of a step; the page shows it, and asks for the costs then."""
        sch, name = self._branch(branch), self._function(branch, name)
        func = sch.steps[at].mod[name]
        if (func, row) not in self._legal:
            self._unweighed.add((func, row))
        found = self._legal_at(sch, at, name, row)
        return offers_of(func, found, self.target, (func, row) not in self._unweighed)

    def on_weigh(self, branch: str, at: int, name: str, row: int, first: int) -> dict[str, Any]:
        """What the calls that are legal at a place are predicted to cost, from the `first` on."""
        sch, name = self._branch(branch), self._function(branch, name)
        func = sch.steps[at].mod[name]
        found = self._legal_at(sch, at, name, row)
        costs = costs_of(found, self.target, first, AT_ONCE)
        if first + len(costs) >= min(len(found), OFFERS):
            self._looked_at.setdefault(branch, set()).add(at)
            self._unweighed.discard((func, row))
            self.refresh()  # so that it is there when the notebook is opened again
        return {"costs": costs}

    def on_costs(self, branch: str, at: int) -> dict[str, Any]:
        """Predict the steps around one that the reader looks at."""
        self._branch(branch)
        self._looked_at.setdefault(branch, set()).add(at)
        self.refresh()
        return {}

    def on_apply(self, branch: str, name: str, row: int, n: int) -> dict[str, Any]:
        """Do the n-th of the legal steps at a place; of those refused, be told why."""
        sch, name = self._current(branch), self._function(branch, name)
        found = self._legal_at(sch, sch.position, name, row)
        calls = calls_of(found)
        self._apply(branch, name, calls[n])
        return self._stands(branch)

    def on_do(
        self, branch: str, name: str, row: int, primitive: str, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        """Do a step with arguments of the reader's own."""
        sch, name = self._current(branch), self._function(branch, name)
        node = places(sch.mod[name])[row].node
        self._apply(branch, name, call_of(primitive, sch, name, node, arguments))
        return self._stands(branch)

    def on_repair(self, branch: str, name: str, n: int) -> dict[str, Any]:
        """Do one of the steps that the last card offered."""
        self._current(branch)
        if (call := self._instead[n].call) is not None:
            self._apply(branch, self._function(branch, name), call)
        return self._stands(branch)

    def on_goto(self, branch: str, at: int) -> dict[str, Any]:
        """Stand at a step."""
        self._current(branch).goto(at)
        self.refresh()
        return self._stands(branch)

    def on_branch(self, branch: str, at: int, name: str) -> dict[str, Any]:
        """Begin a branch at a step."""
        self.branch(name, at, branch)
        return self._stands(list(self.branches)[-1])

    def on_drop(self, branch: str) -> dict[str, Any]:
        """Forget a branch."""
        if branch == MAIN or self._branch(branch) is self.sch:
            raise MLCError("the schedule itself is no branch that can be dropped")
        del self.branches[branch]
        self.refresh()
        return self._stands(MAIN)

    def on_check(self, branch: str) -> dict[str, Any]:
        """Run all steps of a branch."""
        self.check(branch)
        return self._stands(branch)

    def on_function(self, branch: str, name: str) -> dict[str, Any]:
        """Show one more function."""
        self._functions.add(self._function(branch, name))
        self.refresh()
        return self._stands(branch)

    def _function(self, branch: str, shown: str) -> str:
        """The function of a name as the page has it, hidden characters spelled out."""
        for name in functions_of(self._branch(branch)):
            if visible(name) == shown:
                return name
        raise MLCError(f"there is no loop function {clip(shown)!r}")

    def refusal(self, error: MLCError) -> dict[str, Any]:
        """The card of a refused step, and of every other error its text."""
        told = super().refusal(error)
        if isinstance(error, ScheduleError):
            self._instead = repairs(error)
            told["card"] = card(error, self._instead, self.target)
        return told

    def _stands(self, branch: str) -> dict[str, Any]:
        return {"branch": branch, "at": self._branch(branch).position}

    def _current(self, branch: str) -> Schedule:
        """The branch, if the page has seen it as it is.

        Raises:
            MLCError: a cell has gone on with it since.
        """
        sch = self._branch(branch)
        if self._shown.get(branch) is not sch.mod and branch in self._shown:
            self.refresh()
            raise MLCError("a cell has changed this schedule since: the page now shows it as it is")
        return sch

    # -- what is shown ---------------------------------------------------------------------------

    def version(self) -> Any:
        """The programs that its branches stand at, and those that could be done again."""
        return [
            (name, sch.position, len(sch.steps), sch.mod, sch.steps[-1].mod)
            for name, sch in self.branches.items()
        ]

    def snapshot(self) -> Mapping[str, Any]:
        """All branches with all their steps and programs, and the legal steps asked for so far."""
        board = Storyboard(self.target)
        names = self._shown_functions()
        made = [self._branch_json(board, name, sch, names) for name, sch in self.branches.items()]
        self._shown = {name: sch.mod for name, sch in self.branches.items()}
        every = functions_of(self.sch)
        return {
            "title": f"Schedule of {listed((clip(x, 40) for x in every), 3)}",
            "functions": names,
            "others": [x for x in every if x not in names][:200],
            "target": explorer_parts.machine(self.target),
            "width": cpu(self.target).lanes("float32"),
            "branches": made,
            "legal": self._legal_json(names),
            **board.json(),
        }

    def _branch_json(
        self, board: Storyboard, name: str, sch: Schedule, names: list[str]
    ) -> dict[str, Any]:
        steps = []
        looked_at = {0, sch.position, *self._looked_at.get(name, ())}
        for step in sch.steps:
            asked = len(sch.steps) <= ALL or any(
                abs(step.number - at) <= AROUND for at in looked_at
            )
            most = FEW if step.number in looked_at else 0
            most = MANY if step.number in self._looked_at.get(name, ()) else most
            numbers = [
                board.add(x, step.mod[x], asked, most) if x in step.mod else -1 for x in names
            ]
            badge = self._checks.badge(sch, step)
            call = (
                "as given"
                if step.instruction is None
                else clip(call_text(sch, step, kinds=False), 160)
            )
            steps.append([call, badge, numbers])
        lines, heads = cell_lines(sch, len(sch.steps) - 1)
        return {
            "name": name,
            "from": list(self._from[name]) if name in self._from else None,
            "at": sch.position,
            "steps": steps,
            "code": lines,
            "heads": heads,
        }

    def _shown_functions(self) -> list[str]:
        """The functions that a step changed, or that were asked for; else the first."""
        every = functions_of(self.sch)
        changed = set(self._functions)
        for sch in self.branches.values():
            changed |= {
                x
                for x in functions_of(sch)
                if len({id(step.mod[x]) for step in sch.steps if x in step.mod}) > 1
            }
        found = [x for x in every if x in changed]
        working = self.sch.func_working_on
        first = working.name_hint if working is not None and working.name_hint in every else None
        return found or [first or every[0]] if every else []

    def _legal_json(self, names: list[str]) -> list[dict[str, Any]]:
        """What was asked about programs that a branch stands at now."""
        now = {sch.mod[x] for sch in self.branches.values() for x in names if x in sch.mod}
        found: list[dict[str, Any]] = []
        for (func, row), steps in list(self._legal.items())[::-1]:
            if func in now and len(found) < KEPT:
                branch = next(
                    b for b, sch in self.branches.items() if func in sch.mod.functions.values()
                )
                name = next(x for x in names if self.branches[branch].mod[x] is func)
                at = self.branches[branch].position
                found.append(
                    {
                        "branch": branch,
                        "at": at,
                        "name": name,
                        "row": row,
                        "answer": offers_of(
                            func, steps, self.target, (func, row) not in self._unweighed
                        ),
                    }
                )
        return found

    def parts(self) -> Sequence[Part]:
        """Steps, the last diff, the loops, what was asked, and the code."""
        functions = list(self.sch.mod.functions.values())
        asked = [x for (func, _), x in self._legal.items() if func in functions][-KEPT:]
        return explorer_parts.explorer(self, asked)
