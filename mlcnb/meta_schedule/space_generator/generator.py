"""SpaceGenerator: rules, postprocessors and mutators of a target; the spaces that are ready."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from mlcnb.core.errors import MLCError
from mlcnb.core.text import kind_of
from mlcnb.dlight.looking import is_there, note, tree
from mlcnb.ir.module import IRModule
from mlcnb.meta_schedule.defaults import default_mutators, default_postprocs, default_rules
from mlcnb.meta_schedule.mutator import Mutator
from mlcnb.meta_schedule.part import Part
from mlcnb.meta_schedule.postproc import Postproc
from mlcnb.meta_schedule.schedule_rule import ScheduleRule
from mlcnb.tir.schedule import Schedule

FROM_TARGET = "from-target"


class SpaceGenerator(Part):
    """A space, with rules, postprocessors and mutators of a target; `PySpaceGenerator` is its name
    for those of one's own.

    Args:
        sch_rules: schedule rules, a name of a set of them ("llvm", "cuda", …), "from-target", None.
        postprocs: postprocessors, the same.
        mutator_probs: mutator -> how likely it is, the same.
    """

    folder = "mlcnb.meta_schedule.space_generator"

    def __init__(
        self,
        sch_rules: Any = FROM_TARGET,
        postprocs: Any = FROM_TARGET,
        mutator_probs: Any = FROM_TARGET,
    ) -> None:
        self._asked = sch_rules, postprocs, mutator_probs
        self.sch_rules: Sequence[ScheduleRule] = ()
        self.postprocs: Sequence[Postproc] = ()
        self.mutator_probs: dict[Mutator, float] = {}

    def initialize_with_tune_context(self, context: Any) -> None:
        """Choose the parts that the target wants, each with the context."""
        asked = getattr(self, "_asked", (None, None, None))
        wanted = [context.target if x == FROM_TARGET else x for x in asked]
        self.sch_rules = _made(default_rules, wanted[0])
        self.postprocs = _made(default_postprocs, wanted[1])
        found = wanted[2] if isinstance(wanted[2], dict) else _made(default_mutators, wanted[2])
        self.mutator_probs = dict(found)
        for part in (*self.sch_rules, *self.postprocs, *self.mutator_probs):
            part.initialize_with_tune_context(context)
        super().initialize_with_tune_context(context)

    @classmethod
    def create(cls, kind: Any = "post-order-apply", *args: Any, **options: Any) -> Any:
        """A space by TVM's name of it; a function Schedule -> Schedule is the space of its draws.

        Raises:
            MLCError: there is none of that name.
        """
        if callable(kind) and not isinstance(kind, SpaceGenerator):
            return super().create("schedule-fn", kind, *args, **options)
        if isinstance(kind, list | tuple):
            return super().create("union", [SpaceGenerator.create(x) for x in kind])
        return super().create(kind, *args, **options)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The schedules of a module with one loop function, of known shapes."""
        raise NotImplementedError(f"{type(self).__name__}.generate_design_space")


PySpaceGenerator = SpaceGenerator


def _made(ready: Any, asked: Any) -> Any:
    if asked is None or asked == "none":
        return ()
    return asked if isinstance(asked, list | tuple) else ready(asked)


class PostOrderApply(SpaceGenerator):
    """Every rule (of the target, or one's own) to every block, from the last block to the first.

        for rule in rules:
            for sch in schedules: for block in blocks: schedules of rule.apply(sch, block)

    The blocks are those that were there at the beginning; what a rule adds is left to the
    postprocessors, and a block that was inlined is passed over.

    Args:
        f_block_filter: block -> whether rules see it.
        sch_rules, postprocs, mutator_probs: see `SpaceGenerator`.
    """

    kind = "post-order-apply"

    def __init__(
        self,
        f_block_filter: Callable[[Any], bool] | None = None,
        sch_rules: Any = FROM_TARGET,
        postprocs: Any = FROM_TARGET,
        mutator_probs: Any = FROM_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.f_block_filter = f_block_filter

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The schedules that all rules make, of a function of any shapes and dtypes."""
        first: Schedule = self.context.fresh()
        names = [b.name_hint for b in tree(first).blocks[1:]]
        blocks = [first.get_block("root"), *map(first.get_block, reversed(names))]
        if self.f_block_filter is not None:
            blocks = [b for b in blocks if self.f_block_filter(first.get(b))]
        made = [first]
        for rule in self.sch_rules:
            own = rule.kind == "apply-custom-rule"
            for block in blocks:
                made = [x for sch in made for x in _applied(rule, sch, block, own)]
        return made


def _applied(rule: Any, sch: Schedule, block: Any, own: bool) -> list[Schedule]:
    """What a rule makes of a block; a block with a rule of its own is left to that."""
    if not is_there(sch, block) or (note(sch, block, "schedule_rule") is not None) is not own:
        return [sch]
    return list(rule.apply(sch, block))


class ScheduleFn(SpaceGenerator):
    """The space of what a function of a schedule draws by `sample_…`.

    Args:
        sch_fn: Schedule -> Schedule, several, or None: the one that was given.
        sch_rules, postprocs, mutator_probs: see `SpaceGenerator`.
    """

    kind = "schedule-fn"

    def __init__(
        self,
        sch_fn: Callable[[Schedule], Any],
        sch_rules: Any = None,
        postprocs: Any = None,
        mutator_probs: Any = FROM_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.sch_fn = sch_fn

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """What the function makes, with draws of its own each time.

        Raises:
            MLCError: it gives something else than schedules.
        """
        sch = self.context.fresh()
        made = self.sch_fn(sch)
        found = list(made) if isinstance(made, list | tuple) else [sch if made is None else made]
        for one in found:
            if not isinstance(one, Schedule):
                raise MLCError(
                    f"ScheduleFn: {getattr(self.sch_fn, '__name__', 'the function')} gave "
                    f"{kind_of(one)}",
                    hint="give a Schedule, a list of them, or None for the one that was given",
                )
        return found


class SpaceGeneratorUnion(SpaceGenerator):
    """Several spaces as one: the schedules of all.

    Args:
        space_generators: the spaces.
        sch_rules, postprocs, mutator_probs: see `SpaceGenerator`; they hold for all.
    """

    kind = "union"

    def __init__(
        self,
        space_generators: Sequence[Any],
        sch_rules: Any = FROM_TARGET,
        postprocs: Any = FROM_TARGET,
        mutator_probs: Any = FROM_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.space_generators = [SpaceGenerator.create(x) for x in space_generators]

    def _initialize_with_tune_context(self, context: Any) -> None:
        for space in self.space_generators:
            space.initialize_with_tune_context(context)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The schedules of all, of a function of any shapes and dtypes, in order."""
        return [x for space in self.space_generators for x in space.generate_design_space(mod)]

    def clone(self) -> Self:
        """The same with clones of the spaces."""
        made = super().clone()
        made.space_generators = [x.clone() for x in self.space_generators]
        return made
