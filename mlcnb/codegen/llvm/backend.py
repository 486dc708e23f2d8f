"""Kernels: PrimFuncs compiled for a CPU, each with everything it went through.

    kernels = build({"matmul": func}, target, schedule=rule)
    kernels["matmul"].llvm_ir, .llvm_ir_optimized, .asm, .object_size, .strip
    kernels["matmul"].run(argv_address)

Each distinct PrimFunc is compiled once, and the disk cache is asked first, by the function's full
text: a hit costs neither scheduling nor lowering nor LLVM, and none of the three is loaded for it.
What nobody calls waits for a question.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from mlcnb.codegen.families import scheduled_alike
from mlcnb.codegen.kernel import Kernel, Signature, scheduled_by, signature_of
from mlcnb.codegen.llvm.engine import Compiled
from mlcnb.codegen.llvm.library import Library, link
from mlcnb.codegen.llvm.making import Making, Schedule
from mlcnb.codegen.llvm.target_machine import cpu_of
from mlcnb.codegen.llvm.workers import Workers
from mlcnb.core.errors import MLCError
from mlcnb.target import Target
from mlcnb.tir.analysis.meaning import meaning_of
from mlcnb.tir.function import PrimFunc

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.inspect import MachineCode
    from mlcnb.tir.transform.lower import Lowering


@dataclass(frozen=True, eq=False)
class Code:
    """What LLVM made of a function.

    Attributes:
        compiled: its module.
        workspace: bytes of scratch memory that it wants.
        messages: texts of its assertions.
        sizes: what it is called with for the sizes that it leaves open, where functions that differ
            in nothing else share it (`codegen.families`).
        general: makes the function of any size that it was made from, for such.
        library: where it lies in this process; None if it is for another CPU.
    """

    compiled: Compiled
    workspace: int
    messages: tuple[str, ...]
    sizes: tuple[int, ...] = ()
    general: Callable[[], PrimFunc | None] | None = None
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
        return replace(signature_of(self.func, self.code.workspace), sizes=self.code.sizes)

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
        """The schedule that the default rules made (with its trace), or None where none applied.

        Of code that functions share: its steps on the function of any size.
        """
        made = None if self._schedule is None else self._schedule(self.func, self.target)
        general = self.code.general() if self.is_made and self.code.general is not None else None
        return made if general is None else scheduled_alike(made, general)

    @cached_property
    def scheduled(self) -> PrimFunc:  # type: ignore[override]
        """The PrimFunc after scheduling."""
        return scheduled_by(self.schedule, self.func)

    @cached_property
    def lowered(self) -> PrimFunc:
        """The PrimFunc as plain loops over flat buffers."""
        from mlcnb.tir.transform.lower import lower

        return lower(self.scheduled)

    @property
    def steps(self) -> Lowering:
        """What every lowering pass made of it; each step is (name, function, seconds)."""
        from mlcnb.tir.transform.lower import lower

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
        from mlcnb.codegen.llvm.inspect import facts

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
            "sizes": list(self.code.sizes),
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
    **_host: Any,
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
        entries = {name: funcs[name] for name in names}
        making = Making(entries, texts, target, schedule, *shared)
        made = making.made()
        library = link([m[0] for m in made], symbols) if cpu_of(target).runs_here and made else None
        return [
            Code(*each, making.general(name) if each[-1] else None, library)
            for name, each in zip(entries, made, strict=True)
        ]

    codes = made_of(first.values(), progress or _silent, workers or Workers(0))
    found: dict[str, Code | Callable[[], Code]] = dict(zip(first, codes, strict=True))
    for name, (meaning, _) in texts.items():
        found.setdefault(meaning, cache(lambda name=name: made_of([name], _silent, Workers(0))[0]))
    return {
        name: CompiledKernel(name, func, target, schedule, found[texts[name][0]])
        for name, func in funcs.items()
    }


def _silent(_step: float) -> None:
    """Nobody wants to know."""
