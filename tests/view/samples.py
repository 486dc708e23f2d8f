"""Small objects to look at, with any name put wherever a name can be."""

from __future__ import annotations

import dataclasses
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.codegen.cuda.backend import CudaKernel
from mlcnb.codegen.cuda.linked import CudaLinked
from mlcnb.codegen.llvm.apart import PassChange, Remark
from mlcnb.codegen.llvm.backend import Code, CompiledKernel, build
from mlcnb.codegen.llvm.inspect import facts_of_text
from mlcnb.codegen.llvm.linked import Linked
from mlcnb.codegen.races import races
from mlcnb.core.errors import ScheduleError
from mlcnb.core.node import FrozenDict, replace, rewrite, walk
from mlcnb.dlight.decide import Point
from mlcnb.dlight.report import RuleReport
from mlcnb.dlight.rule import Choice, Passed
from mlcnb.ir.expr import Var
from mlcnb.ir.instrument import PassStep, PassTrace, trace
from mlcnb.ir.module import IRModule
from mlcnb.ir.rules import Rule, RuleCount
from mlcnb.ir.span import Span
from mlcnb.ir.transform import module_pass
from mlcnb.machine.gpu import gpu
from mlcnb.machine.roofline import Level, Roofline
from mlcnb.meta_schedule import MemoryDatabase, TuningRecord
from mlcnb.meta_schedule.found import Round, Trial, Tuning
from mlcnb.meta_schedule.space import Candidate, DecisionModel
from mlcnb.meta_schedule.tune import ModelTuning
from mlcnb.observe import access
from mlcnb.observe.benchmark import Benchmark, Timing
from mlcnb.observe.choice import Choices, Measured
from mlcnb.observe.counts import access_counts
from mlcnb.observe.diagnosis import Diagnosis, Finding
from mlcnb.observe.gpu import GpuReport
from mlcnb.observe.image import Classes, ClassScore
from mlcnb.observe.peers import Comparison
from mlcnb.observe.replay import Replay, Stage
from mlcnb.observe.warps.lens import warp_run
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax import expr as rx
from mlcnb.relax.dpl import is_op, is_var
from mlcnb.relax.frontend import nn
from mlcnb.relax.transform.pipeline import get_pipeline
from mlcnb.runtime import threads
from mlcnb.runtime.profile import Profile, Row
from mlcnb.runtime.strip import Strip, Strips
from mlcnb.runtime.tensor import tensor
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.target import Target
from mlcnb.testing.gallery import Example, Gallery
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import CounterExample, LegalSteps, Schedule, legal_steps
from mlcnb.tir.schedule.analysis import analyze
from mlcnb.tir.schedule.legality.polyhedral.carried import Event
from mlcnb.tir.transform import lower
from mlcnb.view.diff import diff
from mlcnb.view.graph import graph
from mlcnb.view.order import Order
from mlcnb.widgets.explorer_parts import Comparison as Branches
from tests.codegen.gpu_programs import matmul_async


@T.prim_func
def matmul(
    A: T.Buffer((16, 8), "float32"),
    B: T.Buffer((8, 32), "float32"),
    C: T.Buffer((16, 32), "float32"),
):
    T.func_attr({"global_symbol": "matmul"})
    for i, j, k in T.grid(16, 32, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


MLP = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 4), dtype="float32"), w: R.Tensor((4, 8), dtype="float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            lv = R.matmul(x, w)
            lv1 = R.nn.relu(lv)
            lv2 = R.add(lv1, lv)
            gv = R.nn.softmax(lv2)
            R.output(gv)
        return gv
"""


def mlp() -> IRModule:
    return parse(MLP)


def named_module(name: str) -> IRModule:
    """A graph whose input, function, variables, attributes and origins have this name."""
    x = rx.Var(name, rx.tensor_info((1, 4), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            lv = bb.emit(op.nn.relu(x), name_hint=name)
            lv1 = bb.emit(op.add(lv, rx.const(np.ones((1, 4), "float32"))), name_hint=name)
            gv = bb.emit_output(op.nn.softmax(lv1), name_hint=name)
        bb.emit_func_output(gv)
    mod = bb.get()
    main = _with_origin(mod["main"], Span("onnx", name))
    main = main.with_attr("global_symbol", name).with_attr("note", name)
    return mod.with_functions({"main": main, name: main})


def _with_origin(function: rx.Function, span: Span) -> rx.Function:
    blocks = []
    for block in function.body.blocks:
        bindings = [replace(b, value=replace(b.value, span=span)) for b in block.bindings]
        blocks.append(replace(block, bindings=tuple(bindings)))
    return replace(function, body=replace(function.body, blocks=tuple(blocks)))


def named_loops(name: str) -> PrimFunc:
    """A loop function whose buffers, loops, block, annotations and attributes have this name."""

    def rule(n: Any) -> Any:
        if isinstance(n, Buffer | Var):
            return replace(n, name=name)
        if isinstance(n, s.Block) and n.iter_vars:
            return replace(n, name_hint=name, annotations=FrozenDict({name: name}))
        return None

    return rewrite(matmul, rule).with_attr("global_symbol", name or "f").with_attr("note", name)


def named_block(name: str) -> s.BlockRealize:
    """The block of the loops."""
    return next(n for n in walk(named_loops(name)) if isinstance(n, s.BlockRealize))


def nests(name: str) -> list[s.Stmt]:
    """Statements with the loops inside."""
    loop = named_loops(name).body.block.body
    x = Var(name, "int32")
    return [loop, s.SeqStmt((loop, loop)), s.IfThenElse(x < 3, loop, loop), s.While(x < 3, loop)]


def scheduled(name: str | None = None) -> Schedule:
    """A schedule after three steps, one of them undone."""
    sch = Schedule(matmul if name is None else named_loops(name))
    block = sch.get_block("C" if name is None else name)
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i, j0, k, j1)
    sch.annotate(i, "note" if name is None else name, name or "outer")
    sch.vectorize(j1)
    return sch.undo()


def tuned(name: str | None = None) -> MemoryDatabase:
    """Three records of one workload: the second the fastest, the third never run."""
    database = MemoryDatabase()
    sch = scheduled(name)
    database.commit(sch, [4e-3, 6e-3], "llvm -mcpu=x86-64-v3")
    sch.redo()
    record = database.commit(sch, 1e-3, "llvm -mcpu=x86-64-v3")
    database.commit_tuning_record(TuningRecord(sch.trace, record.workload))
    return database


def searched(name: str) -> Tuning:
    """A search whose winner, losers and reasons have that name."""
    db = tuned(name)
    sch, other = scheduled(), scheduled(name)
    point = Point(name, (name, "no"), (1.0, 1.1), 1, 0)
    candidates = [
        Candidate(choices, (point,), other if "no" in choices.values() else sch, 1.0, "")
        for choices in ({}, {name: "no"}, {name: name}, {"tile": name})
    ]
    first, best, slow, bad = (Trial(n, c, 1.1, at=n) for n, c in enumerate(candidates))
    first.ratio, first.seconds = 1.0, 1e-3
    best.ratio, best.seconds = 0.8, 8e-4
    slow.ratio, slow.seconds = 7.0, 7e-3
    bad.reason = name
    record = db.get_all_tuning_records()[0]
    return Tuning(
        name,
        [first, best, slow, bad],
        best,
        0.8,
        (0.7, 0.9),
        [({name: name}, name)],
        DecisionModel(),
        record,
        db,
        3.0,
        rounds=[Round(False, {1: 0.8, 2: 7.0}), *(Round(True, {1: r}) for r in (0.7, 0.8, 0.9))],
        levels={name: 5e-4},
    )


def passes(name: str) -> PassTrace:
    """A run of passes, one of which says this name."""

    @module_pass
    def renaming(mod: IRModule, ctx: Any) -> IRModule:
        """Say a name."""
        ctx.note(f"renamed {name}")
        return mod.with_attr("note", name)

    return still(trace([renaming, *get_pipeline("zero").passes], named_module(name)))


def still(run: PassTrace) -> PassTrace:
    """The run with times that do not change from day to day."""
    run.steps = [_still(step) for step in run.steps]
    return run


def _still(step: PassStep) -> PassStep:
    return dataclasses.replace(step, seconds=0.00125)


def profiled(name: str) -> Profile:
    """A profile of two calls."""
    rows = (
        Row(name, "matmul", 1.5e-3, 0.75, 8192, 4096),
        Row("lv1", name, 0.5e-3, 0.25, None, 128),
    )
    return Profile(rows, 2e-3, 10, 2)


def failed(name: str) -> ScheduleError:
    """An error that points into a program."""
    func = named_loops(name)
    loop = next(n for n in statements(func.body) if isinstance(n, s.For))
    return ScheduleError(f"{name} is wrong", where=loop, root=func, hint=f"rename {name}")


def counterexample(name: str) -> CounterExample:
    """Two iterations that conflict."""
    events = [Event(name, {name: n}, n == 0, name, (0, 1)) for n in range(2)]
    return CounterExample(name, *events, name, name, (1,), 2.0, 3.0, ((2,), (3, 4)))


def legal(name: str) -> LegalSteps:
    """What can be done at the block of the loops."""
    sch = scheduled(name)
    return legal_steps(sch, sch.get_block(name))


def everything(name: str) -> dict[str, Any]:
    """An object for each view that has a name in it."""
    run = passes(name)
    return {
        "module": named_module(name),
        "lowered": run.result,
        "function": named_module(name)["main"],
        "loops": named_loops(name),
        "loops in a module": IRModule.make({name: named_loops(name)}),
        "schedule": scheduled(name),
        "trace": scheduled(name).trace,
        "analysis": analyze(named_loops(name)),
        "passes": run,
        "step": run.steps[0],
        "linked": linked(name),
        "lowering": lower(named_loops(name), steps=True),
        "lowering step": lower(named_loops(name), steps=True)["Simplify"],
        "fusion": run["FuseOps"],
        "pipeline": get_pipeline("zero"),
        "pass": run.steps[0].pass_,
        "graph": graph(named_module(name)),
        "pattern": is_op("relax.add")(is_var(name), is_var(name)).explain(named_module(name)),
        "tuning": searched(name),
        "model tuning": ModelTuning([(searched(name), 2)], [name], tuned(name), 3.0),
        "choices": Choices((Measured(name, (name,), 1, {name: 1e-6}, {"blas": name}, name),)),
        "fused graph": graph(run["FuseOps"].after),
        "diff": diff(named_module("x"), named_module(name)),
        "diff of texts": diff(f"a\n{name}\nb", f"a\n{name}{name}\nb\n"),
        "profile": profiled(name),
        "rule": rule_of(name),
        "rule count": RuleCount(rule_of(name), ((),)),
        "found graph": graph(named_module(name), find=name, colour="provenance"),
        "error": failed(name),
        "diff of steps": scheduled(name).diff(),
        "counter-example": counterexample(name),
        "legal steps": legal(name),
        "buffer": named_loops(name).buffers[0],
        "block": named_block(name).block,
        "block with loops": named_block(name),
        **{type(n).__name__: n for n in nests(name)},
        "variable": rx.Var(name),
        "struct info": rx.tensor_info((1, 4), "float32"),
        "target": Target({"kind": "llvm", "mcpu": "x86-64-v3", "mattr": name or "+fma"}),
        "tensor": tensor(np.arange(6.0).reshape(2, 3)),
        "kernel": named_kernel(name),
        "GPU kernel": CudaKernel(name, copied(name), Target("cuda")),
        "linked GPU kernel": CudaLinked(CudaKernel(name, copied(name), Target("cuda"))),
        "machine code": facts_of_text(f"\t.text\nk:\n\tret # {name}\n", "x86_64"),
        "classes": Classes([ClassScore(282, name, 0.386), ClassScore(281, None, 0.25)]),
        "strip": named_strip(name),
        "strips": Strips((named_strip(name), named_strip(name, 2e-6))),
        "roofline": roof(name),
        "replay": replayed(name),
        "accesses": access.replayed(named_loops(name), "1K/2way, 4K", name=name),
        "counted accesses": access_counts(named_loops(name), cache="1K/2way"),
        "warps": warp_run(copied(name), name=name),
        "GPU report": GpuReport(copied(name), gpu("A100"), name),
        "GPU pipeline": GpuReport(copied_ahead(), gpu("A100"), name).pipelines[0],
        "rules": RuleReport(
            Target("cuda"), {name: Choice(name, None, (Passed("gemv", name),))}, (name,)
        ),
        "race": races(racing(name))[0],
        "comparison": Comparison(2.0, 4.0, name, 1, 20, 1e-6),
        "benchmark": Benchmark(
            (Timing(name, 2e-3, 9, 4096, 0.0), Timing("b", 1e-3, 9, 4096, 1e-6)), 1
        ),
        "tuning record": tuned(name).get_all_tuning_records()[0],
        "database": tuned(name),
        "order": Order(named_loops(name)),
        "branches": Branches(name, scheduled(name), name, scheduled(name), None),
        "example": named_example(name),
        "gallery": Gallery({name: {name: named_example(name)}}),
        "nn module": named_nn(name),
        "diagnosis": Diagnosis({name: (Finding(name, name, False, name), Finding("a", "b"))}),
    }


def copied_ahead() -> PrimFunc:
    """A product whose tiles are fetched by asynchronous copies."""
    return matmul_async().schedule.mod["main"]


def racing(name: str) -> PrimFunc:
    """Threads that copy to one element what is in a buffer of this name."""
    func = copied(name)
    block = next(n for n in walk(func.body) if isinstance(n, s.Block) and n.name_hint == "B")
    first = block.iter_vars[0].dom.min

    def to_first(n: Any) -> Any:
        return replace(n, indices=(first,)) if isinstance(n, s.BufferStore) else None

    return func.with_body(rewrite(func.body, to_first))


def named_nn(name: str) -> nn.Module:
    """A module with parts of this name, one of them of open size."""
    made = nn.ModuleDict({name: nn.Sequential(nn.Conv2D("c", 4, 3), nn.ReLU())})
    made.update({f"{name}2": nn.Linear(4, 2)})
    return made


def rule_of(name: str) -> Rule:
    """A rewrite rule with this name."""

    def function() -> None:
        """Does nothing."""

    function.__doc__ = name
    return Rule(f"Pass.{name}", function)


def roof(name: str = "memory") -> Roofline:
    """A machine of round figures."""
    levels = (Level("L1", 32 << 10, 400.0), Level(name, None, 20.0))
    return Roofline(100.0, levels, 2)


def replayed(name: str) -> Replay:
    """Two stages of a schedule."""
    first = Stage(0, ("start",), None, named_strip(name, 400e-9), 0.0)
    last = Stage(3, ("split", "split", name), None, named_strip(name, 100e-9), 1e-7)
    return Replay(name, (first, last), 3, 2)


def named_strip(name: str, seconds: float | None = None) -> Strip:
    """A strip of code that holds the name, measured or not."""
    code = facts_of_text(
        "\t.text\nk:\n.L1:\n\tvfmadd231ps (%rax), %zmm0, %zmm1\n\tjne .L1\n", "x86_64"
    )
    found = (code.hottest, 2, 12, 0, (name,), 8192, 4096)
    return Strip(name, name, *found, seconds, roof(name) if seconds else None)


def named_example(name: str) -> Example:
    """An example on a program with this name in it."""

    def steps():
        sch = Schedule(named_loops(name))
        yield sch
        sch.annotate(sch.get_loops(name)[0], f"{name}.", name)
        yield sch
        sch.get_block(f"{name}.")

    return Example(name, name, steps)


def copied(name: str) -> PrimFunc:
    """B = A, by eight threads."""
    A = te.placeholder((8,), name=name)
    sch = Schedule(te.create_prim_func([A, te.compute((8,), lambda i: A[i], name="B")]))
    sch.bind(sch.get_loops("B")[0], "threadIdx.x")
    return sch.mod["main"]


def linked(name: str) -> Linked:
    """The forms of a kernel under this name, with remarks and passes that hold it."""
    kernel = build({"k": named_loops(name)}, Target("llvm"), symbols=threads.symbols())["k"]
    kernel.name = name
    made = Linked(kernel)
    told = Remark(3, name, 2), PassChange(name, name, (name,), (f"{name}!", name))
    made.__dict__["_observed"] = observed = Future()
    observed.set_result(([told[0]], [told[1]]))
    return made


def named_kernel(name: str) -> Any:
    """A compiled kernel under this name, and code that holds the name."""
    func = named_loops(name)
    compiled = SimpleNamespace(
        ir=f"define i32 @k() {{ ; {name}\n  ret i32 0\n}}",
        ir_after=f"; {name}",
        assembly=f"\t.text\nk:\n\tret # {name}\n",
        object=b"",
        seconds={"parse": 0.001},
        cached=False,
        cpu=SimpleNamespace(cpu=name, arch="x86_64"),
    )
    made: Any = compiled
    return CompiledKernel(name, func, Target("llvm"), None, Code(made, 0, ()))
