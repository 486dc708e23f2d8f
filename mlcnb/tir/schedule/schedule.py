"""Schedule: a loop program, changed one legal step at a time, that can be walked back and forth.

    sch = Schedule(matmul)
    C = sch.get_block("C")
    i, j, k = sch.get_loops(C)
    i0, i1 = sch.split(i, [None, 8])
    sch.reorder(i0, j, k, i1)
    sch.undo()

Each primitive is a function in `primitives/`, one file each, and one line here. API and semantics
are those of
TVM 0.21's `tir.Schedule`; what is not legal raises ScheduleError and leaves the program as it was.
"""

from __future__ import annotations

import time
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import IntegerRangeError, NoFunctionError, ScheduleError
from mlcnb.core.lazy import missing
from mlcnb.ir.expr import GlobalVar, Var
from mlcnb.ir.module import IRModule
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import primitives as do
from mlcnb.tir.schedule.edit.layouts import with_separators
from mlcnb.tir.schedule.edit.prepare import asked, prepared
from mlcnb.tir.schedule.legality.judge import PROVED, RULE, Judge
from mlcnb.tir.schedule.legality.regions import symbols
from mlcnb.tir.schedule.record.handles import BlockRV, Gone, Handle, LoopRV, Mark, describe, name_of
from mlcnb.tir.schedule.record.history import History
from mlcnb.tir.schedule.record.instruction import Instruction
from mlcnb.tir.schedule.record.rerun import meet
from mlcnb.tir.schedule.record.state import Change, Random, Snapshot, State, StmtSRef
from mlcnb.tir.schedule.record.step import Primitive, leaves, resolved, step
from mlcnb.tir.schedule.record.trace import Trace


class Schedule(History, display.Shown):
    """A program with the steps that have been done to it.

    Args:
        mod: an IRModule or a PrimFunc; it is never changed.
        seed: of the sampling primitives; None for a fixed one.
        debug_mask: accepted for TVM's sake; nothing here can be inconsistent.
        error_render_level: "detail" shows the program under an error, "fast" and "none" do not.
        enable_check: False is the same as `check="none"`.
        check: "default" refuses what cannot be shown legal, by quick rules and, where these refuse,
            by islpy; "rules" by the rules alone; "dependence" proves each step with islpy;
            "numeric" runs the program before and after each step through the reference
            interpreter; "both" does both; "none" trusts the caller. `sch.steps[i].proof` says what
            was proved.
    """

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(missing("Schedule", name, dir(self)), name=name, obj=self)

    def __init__(
        self,
        mod: IRModule | PrimFunc,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
        check: str = "default",
    ) -> None:
        given = asked(
            mod, check=check, error_render_level=error_render_level, debug_mask=debug_mask
        )
        self.check = check if enable_check else "none"
        self._judge = Judge(self.check)
        self.error_render_level = error_render_level
        start = Snapshot(
            prepared(given, self.check != "none"),
            _main(given),
            Random.start(1 if seed is None else seed),
        )
        super().__init__(start)

    # -- what is there ---------------------------------------------------------------------------

    @property
    def mod(self) -> IRModule:
        """The module as it is now."""
        return self._snapshot.mod

    @property
    def state(self) -> Snapshot:
        """The snapshot that is current: module, handles, instructions."""
        return self._snapshot

    @property
    def trace(self) -> Trace:
        """The instructions so far."""
        return Trace(self._snapshot.instructions)

    @property
    def func_working_on(self) -> GlobalVar | None:
        """The function in which `get_block` looks when no function is named."""
        name = self._snapshot.working_on
        return GlobalVar(name) if name else None

    def work_on(self, func_name: str) -> None:
        """Look for blocks in this function from now on, and for its sizes (`symbol`) in its shapes.

        Raises:
            MLCError: the module has no such function.
        """
        self.mod[func_name]
        self._snapshot.working_on = func_name

    def get(self, rand_var_or_sref: Any) -> Any:
        """The Block or For that a handle stands for, or the number that was drawn.

        Their fields are those of TVMScript: `sch.get(loop).extent`, `sch.get(block).reads`.

        Raises:
            ScheduleError: the handle's block or loop was taken away, or is of another schedule.
        """
        if isinstance(rand_var_or_sref, Handle):
            return self._snapshot.node(rand_var_or_sref)[1]
        if isinstance(rand_var_or_sref, StmtSRef):
            return rand_var_or_sref.stmt
        if isinstance(rand_var_or_sref, Var):
            return self._snapshot.values[rand_var_or_sref]
        return rand_var_or_sref

    def symbol(self, name: str, func_name: str | None = None) -> Var:
        """The variable of that name among the parameters and dimensions of a function.

        For `factors` and extents that are to be made of it.

        Raises:
            ScheduleError: there is none, or more than one.
        """
        func = self.mod[func_name or self._function_of({})]
        named = [v for v in symbols(func) if v.name == name]
        if len(named) != 1:
            raise ScheduleError(
                f"{len(named) or 'no'} variables of the function have the name {name!r}", root=func
            )
        return named[0]

    def get_sref(self, rand_var_or_stmt: Any) -> StmtSRef:
        """Where the loop or block of a handle stands: its node (with its extent or its axes) and
        what it stands in.

        Raises:
            ScheduleError: the handle's block or loop was taken away.
        """
        return self._snapshot.get_sref(self.get(rand_var_or_stmt))

    def describe(self, handle: Handle, at: int | None = None) -> str:
        """What a handle stands for now, or stood for at a step, in words.

        A loop with its extent, a block by its name: `loop i in 0..8 of block B`. A handle that is
        gone is described as well, and not refused.
        """
        then = self._snapshot if at is None else self._snapshots[at]
        if handle not in then.handles:
            return self._describe_missing(handle)
        name, n = then.handles[handle]
        if isinstance(n, Gone):
            return f"{n.what}, taken by {n.by}"
        return describe(n, then.tree(name))

    def _describe_missing(self, handle: Handle) -> str:
        """A handle of a step that was undone, or of one that other steps have replaced."""
        for later in self._snapshots[self._now + 1 :]:
            if handle in later.handles:
                return f"{name_of(later.handles[handle][1])}, not made yet"
        return f"{type(handle).__name__} of a step that is not part of the schedule"

    def show(self, **options: Any) -> None:
        """Print the program as it is now.

        With shapes, dtypes and regions as TVMScript. `options` are those of `script`: style,
        dialect, …

        Raises:
            MLCError: `script` has no such option.
        """
        display.load("mlcnb.script:show")(self._shown(), **options)  # type: ignore[call-arg]

    def _shown(self) -> IRModule | PrimFunc:
        return next(iter(self.mod.functions.values())) if len(self.mod) == 1 else self.mod

    def __repr__(self) -> str:
        return display.text(self._shown())

    # -- how a step is done ----------------------------------------------------------------------

    def _do(self, primitive: Primitive, arguments: dict[str, Any]) -> Any:
        """Do a step; where it is refused, not even the trace remembers it."""
        meet(self)
        now = self._snapshot
        known = len(now.instructions)
        try:
            return self._done(primitive, arguments)
        except ScheduleError:
            del now.instructions[known:]
            raise
        except IntegerRangeError as error:
            del now.instructions[known:]
            raise ScheduleError(f"{primitive.name}: {error.message}", hint=error.hint) from error

    def _done(self, primitive: Primitive, arguments: dict[str, Any]) -> Any:
        """Resolve the arguments, run the primitive, keep what it made, hand out handles."""
        started = time.perf_counter()
        arguments = {k: self._named(primitive, k, v) for k, v in arguments.items()}
        now = self._snapshot
        name = self._function_of(arguments)
        dice = Random(now.seed)
        state = State(now.mod, now.tree(name), dice, self._judge.is_strict)
        made, proof = self._run(primitive, state, arguments)
        result = made.outputs if isinstance(made, Change) else made
        if isinstance(made, Change):
            proof = self._keep(primitive, name, made, proof)
            arguments.update(made.notes)
        outputs = self._handed_out(result, name)
        self._snapshot.seed = dice.state
        self._record(primitive, arguments, outputs, state.decided)
        if isinstance(made, Change):
            self._finish(time.perf_counter() - started, proof)
        return outputs

    def _named(self, primitive: Primitive, parameter: str, value: Any) -> Any:
        """A block given by its name becomes a handle."""
        if parameter not in primitive.block_parameters or not isinstance(value, str | list | tuple):
            return value
        if isinstance(value, str):
            return self.get_block(value)
        return [self.get_block(v) if isinstance(v, str) else v for v in value]

    def _function_of(self, arguments: dict[str, Any]) -> str:
        named = arguments.get("func_name")
        if named:
            return getattr(named, "name_hint", named)
        given = leaves(arguments)
        owners = [self._snapshot.node(x)[0] for x in given if isinstance(x, Handle)]
        if len(set(owners)) > 1:
            raise ScheduleError(f"the handles belong to different functions: {', '.join(owners)}")
        if owners:
            return owners[0]
        if not self._snapshot.working_on:
            names = ", ".join(v.name_hint for v in self.mod)
            raise NoFunctionError(
                "the schedule does not know which function to be working on",
                hint=f"work_on one of {names}, or pass func_name",
            )
        return self._snapshot.working_on

    def _run(
        self, primitive: Primitive, state: State, arguments: dict[str, Any]
    ) -> tuple[Any, str]:
        """What the primitive gives, and how it is known to be legal so far."""
        now = self._snapshot
        nodes = {k: resolved(v, lambda h: now.node(h)[1], now.values) for k, v in arguments.items()}
        primitive.check(nodes)
        spread = nodes.pop(primitive.varargs) if primitive.varargs else ()
        dice = state.random.state
        try:
            return primitive.function(state, *spread, **nodes), RULE
        except ScheduleError as refusal:
            state.random.state = dice

            def again(unchecked: State) -> Any:
                return primitive.function(unchecked, *spread, **nodes)

            made = self._judge.second_opinion(primitive.name, state, refusal, again)
            if made is not None:
                return made, PROVED
            if self.error_render_level != "detail":
                refusal.root = refusal.evidence = None
            raise

    def _keep(self, primitive: Primitive, name: str, change: Change, proof: str) -> str:
        """Make the change the current snapshot, if it is legal; how that is known."""
        label = f"step {self._now + 1} ({primitive.name})"
        before = self._snapshot
        after = before.after(name, change, label)
        old, tree = before.tree(name).func, after.tree(name)
        proof = self._judge.verdict(primitive.name, old, tree, change, label, proof)
        self._append(after)
        return proof

    def _handed_out(self, result: Any, name: str) -> Any:
        """Handles for nodes, variables for drawn numbers; anything else as it is."""
        if isinstance(result, list):
            return [self._handed_out(r, name) for r in result]
        if isinstance(result, s.For | s.Block | Mark):
            handle = (BlockRV if isinstance(result, s.Block) else LoopRV)(self)
            self._snapshot.handles[handle] = (name, result)
            return handle
        if isinstance(result, int) and not isinstance(result, bool):
            drawn = Var(f"v{len(self._snapshot.values)}")
            self._snapshot.values[drawn] = result
            return drawn
        return result

    def _record(
        self, primitive: Primitive, arguments: dict[str, Any], outputs: Any, decided: list[Any]
    ) -> None:
        given = dict(arguments)
        given.pop("decision", None)
        decision = decided[0] if decided else None
        if "func_name" in given:
            given["func_name"] = given["func_name"] or self._snapshot.working_on
        listed = tuple(outputs) if isinstance(outputs, list) else (outputs,)
        made = tuple(o for o in listed if isinstance(o, Handle | Var))
        inst = Instruction.of(primitive.name, given, made, decision)
        self._snapshot.instructions.append(inst)

    # -- the primitives, one line each -----------------------------------------------------------

    get_block = step(do.get_block)
    get_sblock = get_block
    get_loops = step(do.get_loops)
    get_child_blocks = step(do.get_child_blocks)
    get_producers = step(do.get_producers)
    get_consumers = step(do.get_consumers)
    get_output_blocks = step(do.get_output_blocks)

    sample_categorical = step(do.sample_categorical)
    sample_perfect_tile = step(do.sample_perfect_tile)
    sample_partitioned_tile = step(do.sample_partitioned_tile)
    sample_compute_location = step(do.sample_compute_location)

    split = step(do.split)
    fuse = step(do.fuse)
    loop_partition = step(do.loop_partition)
    merge = step(do.merge)
    reorder = step(do.reorder)
    reorder_block_iter_var = step(do.reorder_block_iter_var)
    add_unit_loop = step(do.add_unit_loop)
    parallel = step(do.parallel)
    vectorize = step(do.vectorize)
    unroll = step(do.unroll)
    bind = step(do.bind)
    compute_at = step(do.compute_at)
    reverse_compute_at = step(do.reverse_compute_at)
    compute_inline = step(do.compute_inline)
    reverse_compute_inline = step(do.reverse_compute_inline)
    cache_read = step(do.cache_read)
    cache_write = step(do.cache_write)
    cache_inplace = step(do.cache_inplace)
    cache_index = step(do.cache_index)
    reindex = step(do.reindex)
    reindex_cache_read = step(do.reindex_cache_read)
    reindex_cache_write = step(do.reindex_cache_write)
    transform_layout = with_separators(step(do.transform_layout))
    transform_block_layout = step(do.transform_block_layout)
    set_scope = step(do.set_scope)
    storage_align = step(do.storage_align)
    set_dtype = step(do.set_dtype)
    unsafe_set_dtype = step(do.unsafe_set_dtype)
    set_axis_separator = step(do.set_axis_separator)
    unsafe_hide_buffer_access = step(do.unsafe_hide_buffer_access)
    annotate_buffer_access = step(do.annotate_buffer_access)
    decompose_reduction = step(do.decompose_reduction)
    rfactor = step(do.rfactor)
    fuse_reduction_epilogue = step(do.fuse_reduction_epilogue)
    blockize = step(do.blockize)
    tensorize = step(do.tensorize)
    pad_einsum = step(do.pad_einsum)
    winograd = step(do.winograd)
    decompose_padding = step(do.decompose_padding)
    rolling_buffer = step(do.rolling_buffer)
    read_at = step(do.read_at)
    write_at = step(do.write_at)
    annotate = step(do.annotate)
    unannotate = step(do.unannotate)

    def can_decompose_padding(self, block: Any, loop: Any) -> bool:
        """Whether `decompose_padding` would be accepted; nothing is done, nothing recorded.

        Asked on a copy, for the loop's extents as they are. False also where a handle is gone:
        nothing is raised.
        """
        try:
            self.copy().decompose_padding(block, loop)
        except ScheduleError:
            return False
        return True


def _main(mod: IRModule) -> str:
    """The function to work on when none is named: the only PrimFunc, or `main`; else none."""
    names = [v.name_hint for v, f in mod.of_kind(PrimFunc).items()]
    if len(names) == 1:
        return names[0]
    return "main" if "main" in names else ""
