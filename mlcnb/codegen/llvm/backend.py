"""Kernels: PrimFuncs compiled for a CPU, each with everything it went through.

    kernels = build({"matmul": func}, target, schedule=rule)
    kernels["matmul"].llvm_ir, .llvm_ir_optimized, .asm, .object_size, .strip
    kernels["matmul"].run(argv_address)

Each distinct PrimFunc is compiled once, and the disk cache is asked first, by the function's full
text: a hit costs neither scheduling nor lowering nor LLVM. What nobody calls waits for a question.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from mlcnb.codegen.kernel import Kernel, Signature, scheduled_by, signature_of
from mlcnb.codegen.llvm import cache as disk
from mlcnb.codegen.llvm.emit import emit_kernel
from mlcnb.codegen.llvm.engine import Compiled, Options, compile_many
from mlcnb.codegen.llvm.inspect import MachineCode, facts
from mlcnb.codegen.llvm.library import Library, link
from mlcnb.codegen.llvm.names import PREFIX, symbol_of
from mlcnb.codegen.llvm.target_machine import Cpu
from mlcnb.codegen.llvm.workers import WORTHWHILE, Task, Work, Workers
from mlcnb.core.errors import MLCError, TargetError
from mlcnb.core.garbage import collect_young
from mlcnb.target import PLAIN_CPUS, Target
from mlcnb.tir.analysis.meaning import meaning_of
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.transform.lower import Lowering, lower

Schedule = Callable[[PrimFunc, Target], Any]


@dataclass(frozen=True, eq=False)
class Code:
    """What LLVM made of a function.

    Attributes:
        compiled: its module.
        workspace: bytes of scratch memory that it wants.
        messages: texts of its assertions.
        library: where it lies in this process; None if it is for another CPU.
    """

    compiled: Compiled
    workspace: int
    messages: tuple[str, ...]
    library: Library | None = None


class CompiledKernel(Kernel):
    """One kernel: the PrimFunc as given, as scheduled and as lowered, its IR, assembly and code.

    given: its code, or what makes it when it is asked for.
    """

    is_native = True

    def __init__(
        self,
        name: str,
        func: PrimFunc,
        target: Target,
        schedule: Schedule | None,
        given: Code | Callable[[], Code],
    ) -> None:
        self.name = name
        self.func = func
        self.target = target
        self.given = given
        self._schedule = schedule

    @cached_property
    def code(self) -> Code:
        """What LLVM made of it; compiled now, if nobody has asked before."""
        return self.given() if callable(self.given) else self.given

    @property
    def is_made(self) -> bool:  # type: ignore[override]
        """False until somebody asks for the code of a kernel that is never called."""
        return "code" in self.__dict__ or not callable(self.given)

    @property
    def compiled(self) -> Compiled:
        """The module that LLVM compiled."""
        return self.code.compiled

    @cached_property
    def signature(self) -> Signature:  # type: ignore[override]
        """Its parameters, sizes and workspace, as `argv` holds them."""
        return signature_of(self.func, self.code.workspace)

    @property
    def messages(self) -> tuple[str, ...]:
        """Texts of its assertions."""
        return self.code.messages

    @property
    def library(self) -> Library | None:
        """Where it lies in this process; None if it is for another CPU."""
        return self.code.library

    @cached_property
    def schedule(self) -> Any:
        """The schedule that the default rules made (with its trace), or None where none applied."""
        return None if self._schedule is None else self._schedule(self.func, self.target)

    @cached_property
    def scheduled(self) -> PrimFunc:  # type: ignore[override]
        """The PrimFunc after scheduling."""
        return scheduled_by(self.schedule, self.func)

    @cached_property
    def lowered(self) -> PrimFunc:
        """The PrimFunc as plain loops over flat buffers."""
        return lower(self.scheduled)

    @property
    def steps(self) -> Lowering:
        """What every lowering pass made of it; each step is (name, function, seconds)."""
        return lower(self.scheduled, steps=True)

    @property
    def llvm_ir(self) -> str:
        """LLVM IR before optimisation."""
        return self.compiled.ir

    @property
    def llvm_ir_optimized(self) -> str:
        """LLVM IR after optimisation."""
        return self.compiled.ir_after

    @property
    def asm(self) -> str:
        """Assembly text."""
        return self.compiled.assembly

    @property
    def facts(self) -> MachineCode:
        """What its assembly says: vectors, multiply-adds, loads, stores, spills."""
        return facts(self.compiled)

    @property
    def hot_loop(self) -> str:
        """The assembly of the inner loop with the most multiply-adds; "" where nothing loops."""
        return self.facts.hottest.hot_text

    @property
    def object_size(self) -> int:
        """Bytes of the object file."""
        return len(self.compiled.object)

    @property
    def compile_seconds(self) -> float:
        """Seconds that LLVM took when it was compiled (not now, if it came from the cache)."""
        return sum(self.compiled.seconds.values())

    @property
    def address(self) -> int:
        """Where the code is in this process: `i32 kernel(ptr argv)`."""
        if self.library is None:
            raise MLCError(
                f"kernel {self.name} is for {self.target}, not for this machine",
                hint="read its assembly, or compile for the host",
            )
        return self.library[self.symbol]

    @property
    def symbol(self) -> str:
        """The name that the object file defines."""
        return self.compiled.defines[0]

    @property
    def saved(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """What an artifact keeps of it: its entry in the manifest, and files by name."""
        entry = {
            "symbol": self.symbol,
            "workspace": self.signature.workspace,
            "messages": list(self.messages),
        }
        parts = {"ll": self.compiled.ir.encode(), "o": self.compiled.object}
        return entry, {f"{self.symbol}.{end}": data for end, data in parts.items()}


def build(
    funcs: Mapping[str, PrimFunc],
    target: Target,
    schedule: Schedule | None = None,
    progress: Callable[[float], Any] | None = None,
    *,
    symbols: Mapping[str, int] | None = None,
    workers: Workers | None = None,
    later: Collection[str] = (),
) -> dict[str, CompiledKernel]:
    """Compile PrimFuncs; equal ones share their code.

    Args:
        funcs: by name.
        target: an llvm target.
        schedule: (func, target) -> Schedule, PrimFunc or None; what makes a function fast.
        progress: called with 0.5 after each of a kernel's two steps: its IR, its object.
        symbols: addresses of the runtime's functions that kernels may call.
        workers: processes that take a part where there is much to do; none by default.
        later: names of functions that are compiled when somebody asks for their code.

    Raises:
        CodegenError: a function that cannot become code.
    """
    texts = {name: meaning_of(func) for name, func in funcs.items()}
    first: dict[str, str] = {}
    for name, (meaning, _) in texts.items():
        if name not in later:
            first.setdefault(meaning, name)

    def made_of(names: Iterable[str], *shared: Any) -> list[Code]:
        entries = [(name, funcs[name], texts[name]) for name in names]
        made = _Build(entries, target, schedule, *shared).made()
        library = link([m[0] for m in made], symbols) if cpu_of(target).runs_here and made else None
        return [Code(*each, library) for each in made]

    codes = made_of(first.values(), progress or _silent, workers or Workers(0))
    found: dict[str, Code | Callable[[], Code]] = dict(zip(first, codes, strict=True))
    for name, (meaning, _) in texts.items():
        found.setdefault(meaning, cache(lambda name=name: made_of([name], _silent, Workers(0))[0]))
    return {
        name: CompiledKernel(name, func, target, schedule, found[texts[name][0]])
        for name, func in funcs.items()
    }


def cpu_of(target: Target) -> Cpu:
    """LLVM's description of the target's CPU.

    Raises:
        TargetError: a triple of no CPU that kernels can be written for.
    """
    if "mtriple" in target.attrs:
        return _of_triple(str(target.attrs["mtriple"]), target)
    return Cpu.named(target.mcpu, str(target.attrs.get("mattr", "")))


def options_of(target: Target) -> Options:
    """How hard LLVM works for a target: `-opt-level=2`, `-unroll-loops=0`."""
    attrs = target.attrs
    return Options(
        level=int(attrs.get("opt-level", 3)), loop_unroll=bool(attrs.get("unroll-loops", 1))
    )


def _of_triple(triple: str, target: Target) -> Cpu:
    """A CPU of a triple: the one that is named, or the plainest of its architecture."""
    features, here = str(target.attrs.get("mattr", "")), Cpu.host()
    found = Cpu(triple, target.mcpu, features)
    if found.arch not in PLAIN_CPUS:
        raise TargetError(
            f"kernels are written for CPUs of 64 bits, lowest byte first, and {triple!r} is none",
            hint=f"a triple such as riscv64-linux-gnu; there are {', '.join(PLAIN_CPUS)}",
        )
    if target.mcpu in ("host", "native"):
        if found.arch != here.arch:
            raise TargetError(f"mcpu={target.mcpu} is this computer's CPU, and no {found.arch}")
        return replace(Cpu.named("host", features), triple=triple)
    if found.arch == "riscv64" and not features and "mcpu" not in target.attrs:
        return replace(found, features="+m,+a,+f,+d,+c")  # what the systems for it are built with
    return found


#: a function by name, and its whole content (`meaning_of`)
Entry = tuple[str, PrimFunc, tuple[str, str]]
Made = tuple[Compiled, int, tuple[str, ...]]
#: IR, bytes of workspace, texts of assertions
Emitted = tuple[str, int, list[str]]


class _Build:
    """Kernels on their way: from the cache, from workers, or made here.

    LLVM works on the first kernels while the next ones are scheduled and lowered; where there are
    many, workers take their part.
    """

    def __init__(
        self,
        entries: list[Entry],
        target: Target,
        schedule: Schedule | None,
        tell: Callable[[float], Any],
        workers: Workers,
    ) -> None:
        self.entries, self.target, self.schedule = entries, target, schedule
        self.tell, self.workers = tell, workers
        self.cpu = cpu_of(target)
        self.options = options_of(target)
        self.store = disk.user_store()
        self.rules = schedule_name(schedule)
        #: where IR is kept; none of a user's own rules
        self.kept = self.store if self.rules else None
        #: number -> bytes of workspace and texts of assertions, in the order of the modules
        self.facts: dict[int, tuple[int, tuple[str, ...]]] = {}

    def made(self) -> list[Made]:
        """(object, workspace bytes, assertion texts) of each function."""
        objects = compile_many(
            self.modules(),
            self.cpu,
            self.options,
            store=self.store,
            on_done=lambda _: self.tell(0.5),
        )
        found = dict(zip(self.facts, objects, strict=True))
        return [(found[n], *self.facts[n]) for n in range(len(self.entries))]

    def modules(self) -> Iterator[str | Compiled]:
        """IR, or what a worker compiled, of each function, as it is there."""
        missing: list[Task] = []
        for number, (name, func, _) in enumerate(self.entries):
            emitted = _lookup(self.kept, self.key(number))
            if emitted is None:
                missing.append(Task(number, name, func))
            else:
                yield self.noted(number, emitted)
        work = self.shared(missing)
        for task in work.here():
            yield self.emitted(task)
        for task, done in work.there():
            if done is None:
                yield self.emitted(task)
            else:
                self.noted(task.number, (done.ir, done.workspace, done.messages), new=True)
                parts = done.object, done.bitcode
                yield Compiled(done.ir, self.cpu, self.options, parts, done.seconds)

    def shared(self, missing: list[Task]) -> Work:
        """The work, shared with workers where it is worth while, and they can do it."""
        if self.rules and len(missing) >= WORTHWHILE:
            self.workers.start()
        question = {
            "target": str(self.target),
            "cpu": str(self.cpu),
            "rules": self.rules,
        }
        return self.workers.work(missing, question, here_only=self.rules is None)

    def emitted(self, task: Task) -> str:
        """The IR of a function, made here."""
        return self.noted(
            task.number, emit(task.name, task.func, self.target, self.schedule), new=True
        )

    def noted(self, number: int, emitted: Emitted, new: bool = False) -> str:
        """Remember what goes with the IR of a function; the IR."""
        if self.kept is not None and new:
            self.kept.put(self.key(number), json.dumps(emitted).encode())
        self.facts[number] = emitted[1], tuple(emitted[2])
        self.tell(0.5)
        return emitted[0]

    def key(self, number: int) -> str:
        """What the IR is found by: all that it is made from."""
        name, _, text = self.entries[number]
        return "\n".join((PREFIX, str(self.target), str(self.cpu), str(self.rules), name, *text))


def _silent(_step: float) -> None:
    """Nobody wants to know."""


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


def _lookup(store: disk.Store | None, key: str) -> Emitted | None:
    blob = None if store is None else store.get(key)
    if blob is None:
        return None
    ir, workspace, messages = json.loads(blob)
    return ir, workspace, messages


def emit(name: str, func: PrimFunc, target: Target, schedule: Schedule | None) -> Emitted:
    """The LLVM IR of a function: scheduled, lowered, written down."""
    lowered = lower(scheduled_by(schedule(func, target) if schedule else None, func))
    parts = (target.vector_bits, target.features, cpu_of(target).tuning)
    kernel = emit_kernel(lowered, symbol_of(name), *parts)
    collect_young()
    return kernel.ir, kernel.signature.workspace, list(kernel.messages)
