"""Kernels on their way from functions to objects: from the cache, from workers, or made here.

    PrimFunc ─schedule→ PrimFunc ─lower→ loops ─emit→ IR ─LLVM→ object

LLVM works on the first kernels while the next ones are scheduled and lowered; where there are many,
workers take their part. Functions that differ in one size share what is made (`codegen.families`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from mlcnb.codegen.families import SIZE, Group, Part, groups_of
from mlcnb.codegen.kernel import scheduled_by
from mlcnb.codegen.llvm import cache as disk
from mlcnb.codegen.llvm.engine import Compiled, Options, compile_many
from mlcnb.codegen.llvm.symbols import PREFIX, symbol_of
from mlcnb.codegen.llvm.target_machine import cpu_of
from mlcnb.codegen.llvm.workers import (
    WORTHWHILE,
    WORTHWHILE_SIMULATED,
    Done,
    Task,
    Work,
    Workers,
)
from mlcnb.core.errors import MLCError
from mlcnb.core.garbage import collect_young
from mlcnb.target import Target
from mlcnb.tir.analysis.meaning import meaning_of
from mlcnb.tir.function import PrimFunc

Schedule = Callable[[PrimFunc, Target], Any]
#: a module, bytes of workspace, texts of assertions, values of the sizes that it leaves open
Made = tuple[Compiled, int, tuple[str, ...], tuple[int, ...]]


class Emitted(NamedTuple):
    """IR, bytes of workspace, texts of assertions; values of the sizes that it leaves open."""

    ir: str
    workspace: int
    messages: list[str]
    sizes: tuple[int, ...] = ()


class Making:
    """Functions that become kernels.

    Args:
        funcs: by name, all different.
        texts: by name, what each says (`meaning_of`).
        target: an llvm target.
        schedule: the rules.
        tell: called with 0.5 after each of a kernel's two steps: its IR, its object.
        workers: processes that take a part where there is much to do.
    """

    def __init__(
        self,
        funcs: Mapping[str, PrimFunc],
        texts: Mapping[str, tuple[str, str]],
        target: Target,
        schedule: Schedule | None,
        tell: Callable[[float], Any],
        workers: Workers,
    ) -> None:
        self.names, self.funcs, self.texts = list(funcs), funcs, texts
        self.target, self.schedule = target, schedule
        self.tell, self.workers = tell, workers
        self.cpu = cpu_of(target)
        self.options = options_of(target)
        self.store = disk.user_store()
        self.rules = schedule_name(schedule)
        #: where IR is kept; none of a user's own rules
        self.kept = self.store if self.rules else None
        #: name -> what goes with its IR, in the order of the modules
        self.facts: dict[str, Emitted] = {}
        #: name -> what the rules make of it
        self._ruled: dict[str, Any] = {}
        self.groups = self._groups()
        self._group_of = {name: group for group in self.groups for name in group.members}

    def _groups(self) -> list[Group]:
        """Functions that may share what the rules make of them, if these give schedules."""
        if self.rules is None or self.schedule is None or self.target.kind != "llvm":
            return []
        return groups_of(self.funcs, {name: self.texts[name][0] for name in self.names})

    def general(self, name: str) -> Callable[[], PrimFunc | None]:
        """Makes the function of any size that a function is compiled as."""
        group = self._group_of[name]
        return lambda: group.general

    def made(self) -> list[Made]:
        """What became of each function, in their order."""
        objects = compile_many(
            self.modules(),
            self.cpu,
            self.options,
            store=self.store,
            on_done=lambda _: self.tell(0.5),
        )
        found = dict(zip(self.facts, objects, strict=True))
        told = ((found[name], self.facts[name]) for name in self.names)
        return [(m, f.workspace, tuple(f.messages), tuple(f.sizes)) for m, f in told]

    def modules(self) -> Iterator[str | Compiled]:
        """IR, or what a worker compiled, of each function, as it is there."""
        found = {name: self._lookup(name) for name in self.names}
        groups = [g for g in self.groups if None in map(found.get, g.members)]
        again = {name for group in groups for name in group.members}
        missing: list[Task] = []
        for number, (name, emitted) in enumerate(found.items()):
            if emitted is not None and name not in again:
                yield self.noted(name, emitted)
            elif name not in again:
                missing.append(Task(number, name, self.funcs[name]))
        work = self.shared(missing)
        try:
            for group in groups:
                yield from self.together(group, work)
        finally:
            work.close()
        for task in work.here():
            yield from self.finished(task)
        for task, done in work.there():
            yield from self.finished(task, done)

    def shared(self, missing: list[Task]) -> Work:
        """The work, shared with workers where it is worth while, and they can do it."""
        told = sum(len(self.texts[task.name][0]) for task in missing)
        much = told >= (WORTHWHILE if self.target.kind == "llvm" else WORTHWHILE_SIMULATED)
        if self.rules and much:
            self.workers.start()
        much = much or self.workers.are_there
        question = {
            "target": str(self.target),
            "cpu": str(self.cpu),
            "rules": self.rules,
        }
        return self.workers.work(missing, question, here_only=self.rules is None or not much)

    def ruled(self, name: str) -> Any:
        """What the rules make of a function, asked once."""
        if name not in self._ruled:
            assert self.schedule is not None
            self._ruled[name] = self.schedule(self.funcs[name], self.target)
        return self._ruled[name]

    def together(self, group: Group, work: Work) -> Iterator[str | Compiled]:
        """The modules of a group's functions, one of those that are scheduled alike; what workers
        may take is left in `work`.
        """
        for part in group.parts(self.ruled):
            if part.general is None:
                yield from self.apart(part)
                continue
            name = _family_name(part.names[0], part.general, part.schedule.trace)
            func = scheduled_by(part.schedule, part.general)
            task = Task(self.names.index(part.names[0]), name, func, part)
            if work.has_help:
                work.add(task)
            else:
                yield from self.finished(task)

    def finished(self, task: Task, done: Done | None = None) -> Iterator[str | Compiled]:
        """The modules of a task's functions, as a worker made them, else made here."""
        module: str | Compiled
        if done is not None:
            made = Emitted(done.ir, done.workspace, done.messages)
            code = done.object, done.bitcode
            module = Compiled(done.ir, self.cpu, self.options, code, done.seconds)
        elif task.part is None:
            yield self.emitted(task.name)
            return
        else:
            try:
                made = emit(task.name, task.func, self.target, None)
            except MLCError:  # numbers that code is written for are open in it
                yield from self.apart(task.part)
                return
            module = made.ir
        part = task.part or Part([task.name], [])
        for number, name in enumerate(part.names):
            if number:
                self.tell(0.5)  # its object is the first one's
            sizes = tuple(part.sizes[number : number + 1])
            self.noted(name, made._replace(sizes=sizes), new=True)
            yield module

    def apart(self, part: Part) -> Iterator[str]:
        """The IR of each function of a part, made for itself."""
        for name in part.names:
            yield self.emitted(name, lambda *_, of=name: self.ruled(of))

    def emitted(self, name: str, schedule: Schedule | None = None) -> str:
        """The IR of a function, made here."""
        made = emit(name, self.funcs[name], self.target, schedule or self.schedule)
        return self.noted(name, made, new=True)

    def noted(self, name: str, emitted: Emitted, new: bool = False) -> str:
        """Remember what goes with the IR of a function; the IR."""
        if self.kept is not None and new:
            self.kept.put(self.key(name), json.dumps(emitted).encode())
        self.facts[name] = emitted
        self.tell(0.5)
        return emitted.ir

    def key(self, name: str) -> str:
        """What the IR is found by: all that it is made from, the others of its group too."""
        among = self._group_of[name].digest if name in self._group_of else ""
        told = PREFIX, self.target, self.cpu, self.rules, name, *self.texts[name], among
        return "\n".join(map(str, told))

    def _lookup(self, name: str) -> Emitted | None:
        blob = None if self.kept is None else self.kept.get(self.key(name))
        return None if blob is None else Emitted(*json.loads(blob))


def _family_name(name: str, general: PrimFunc, trace: Any) -> str:
    """A name that no kernel has that is made from anything else."""
    said = "\n".join((*meaning_of(general), str(trace))).encode(errors="surrogatepass")
    return f"{name}.{SIZE}.{blake2b(said, digest_size=8).hexdigest()}"


def options_of(target: Target) -> Options:
    """How hard LLVM works for a target: `-opt-level=2`, `-unroll-loops=0`."""
    attrs = target.attrs
    return Options(
        level=int(attrs.get("opt-level", 3)), loop_unroll=bool(attrs.get("unroll-loops", 1))
    )


def schedule_name(schedule: Schedule | None) -> str | None:
    """What tells the rules that come with mlcnb apart in the cache's key.

    None for a user's function: nothing is kept of what it did, for it may be another tomorrow under
    the same name.
    """
    if schedule is None:
        return "none"
    module = getattr(schedule, "__module__", "")
    name = getattr(schedule, "__qualname__", "")
    ours = module.startswith("mlcnb.") and name.isidentifier()
    return f"{module}.{name}" if ours else None


def emit(name: str, func: PrimFunc, target: Target, schedule: Schedule | None) -> Emitted:
    """The LLVM IR of a function: scheduled, lowered, written down."""
    from mlcnb.codegen.llvm.emit.kernel import emit_kernel  # loaded when a kernel is not at hand
    from mlcnb.tir.transform.lower import lower

    lowered = lower(scheduled_by(schedule(func, target) if schedule else None, func))
    parts = (target.vector_bits, target.features, cpu_of(target).tuning)
    kernel = emit_kernel(lowered, symbol_of(name), *parts)
    collect_young()
    return Emitted(kernel.ir, kernel.signature.workspace, list(kernel.messages))
