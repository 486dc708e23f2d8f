"""The command: python -m tests.benchmarks SUITE [NAME …] [--threads N …] [--json FILE]"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import mlcnb as mlc
from tests.benchmarks import (
    assembly,
    calls,
    conv,
    gemm,
    heads,
    machine,
    memory,
    models,
    narrow,
    odd,
    operators,
    pytorch,
    quantized,
    real,
    report,
    schedule,
    simulated,
    singles,
    starts,
    threads,
    training,
    tuning,
    written,
)
from tests.benchmarks.case import Case
from tests.benchmarks.contestants import (
    AVX2_TARGET,
    AVX2_WORDS,
    DEFAULT,
    OURS,
    PEERS,
    installed,
    versions,
)
from tests.benchmarks.measure import Row, measure

Cases = Callable[[bool], Iterator[Case]]
#: in the order in which `all` runs them
SUITES: dict[str, Cases] = {
    "gemm": gemm.cases,
    "conv": conv.cases,
    "depthwise": conv.depthwise,
    "softmax": operators.softmax,
    "layernorm": operators.layernorm,
    "attention": operators.attention,
    **{name: partial(singles.cases, name) for name in singles.SUITES},
    "heads": heads.cases,
    "odd": odd.cases,
    "written": written.cases,
    "models": models.cases,
}


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    made.add_argument(
        "suite", help=f"all, {', '.join(APART)}, or of {', '.join(SUITES)} one or more: a,b"
    )
    made.add_argument("names", nargs="*", help="parts of cases' names; all without any")
    made.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    made.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(DEFAULT))
    made.add_argument("--seconds", type=float, help="of timing for each case")
    made.add_argument("--quick", action="store_true", help="a few cases of each suite")
    made.add_argument("--no-accuracy", action="store_true", help="without float64 references")
    made.add_argument("--no-roofline", action="store_true", help="without the machine's ceilings")
    made.add_argument("--avx2", action="store_true", help="everybody without AVX-512, if asked to")
    made.add_argument("--cpus", nargs="+", default=list(assembly.CPUS), help="of assembly")
    made.add_argument("--json", type=Path, help="write the figures here, after each row")
    return made


def main(argv: list[str] | None = None) -> int:
    """Read the arguments and run."""
    args = parser().parse_args(argv)
    if args.suite in APART:
        APART[args.suite](args)
        return 0
    suites = list(SUITES) if args.suite == "all" else args.suite.split(",")
    unknown = [s for s in suites if s not in SUITES]
    if unknown:
        parser().error(
            f"no suite {', '.join(unknown)}: there are all, {', '.join([*APART, *SUITES])}"
        )
    if args.avx2 and any(os.environ.get(k) != v for k, v in AVX2_WORDS.items()):
        command = [sys.executable, "-m", "tests.benchmarks", *(argv or sys.argv[1:])]
        return subprocess.run(command, env={**os.environ, **AVX2_WORDS}, check=False).returncode
    run(args, suites)
    return 0


def run(args: argparse.Namespace, suites: list[str]) -> dict[str, Any]:
    """Measure the suites, print each row when it is there, and give (and write) the report."""
    peers, missing = installed(tuple(args.peers))
    facts = machine.describe("llvmlite") | versions(peers)
    asked = [f"{AVX2_TARGET}; {AVX2_WORDS}"] if args.avx2 else []
    print(machine.line(facts), *asked, *(f"{p}: {why}" for p, why in missing.items()), sep="\n")
    rooflines = {} if args.no_roofline else {n: mlc.roofline(n) for n in args.threads}
    for roofline in rooflines.values():
        print(roofline)
    seconds = args.seconds or (0.3 if args.quick else 1.5)
    target = AVX2_TARGET if args.avx2 else "llvm"
    settings = {"threads": args.threads, "seconds": seconds, "quick": args.quick, "suites": suites}
    settings["target"] = target
    rows: list[Row] = []
    start = time.perf_counter()
    for suite in suites:
        print(f"\n{report.heading([OURS, *peers])}", flush=True)
        chosen = _chosen(suite, args)
        found = measure(chosen, args.threads, peers, seconds, not args.no_accuracy, target)
        for row in found:
            rows.append(row)
            print(report.line(row, [OURS, *peers]), flush=True)
            took = time.perf_counter() - start
            print(f"\r{took:.0f} s", end="\r", file=sys.stderr, flush=True)
            data = report.as_json(rows, facts, settings, missing, rooflines)
            if args.json:
                args.json.parent.mkdir(parents=True, exist_ok=True)
                args.json.write_text(json.dumps(data, indent=1), encoding="utf-8")
    print("\ngeometric means of our time by a peer's (below 1: mlcnb is faster)")
    print(*report.summary_lines(rows), sep="\n")
    return report.as_json(rows, facts, settings, missing, rooflines)


def _chosen(suite: str, args: argparse.Namespace) -> Iterator[Case]:
    """The cases of a suite whose names have one of the wanted parts."""
    if suite == "models":
        return models.cases(args.quick, tuple(args.names))
    found = SUITES[suite](args.quick)
    return (c for c in found if not args.names or any(n in c.name for n in args.names))


def _schedule(args: argparse.Namespace) -> None:
    print(machine.line(machine.describe("islpy", "numpy")), flush=True)
    for timing in schedule.run():
        print(timing, flush=True)


def _memory(args: argparse.Namespace) -> None:
    print(machine.line(machine.describe("onnxruntime", "llvmlite", "numpy")), flush=True)
    memory.run(args.names, max(args.threads))


def _threads(args: argparse.Namespace) -> None:
    print(machine.line(machine.describe("llvmlite", "numpy")), flush=True)
    threads.run(max(args.threads))


def _assembly(args: argparse.Namespace) -> None:
    print(assembly.heading())
    for row in assembly.run(args.names, args.cpus):
        print(row, flush=True)


def _calls(args: argparse.Namespace) -> None:
    print(machine.line(machine.describe("onnxruntime", "numpy")), flush=True)
    calls.run()


#: suites with tables of their own
APART: dict[str, Callable[[argparse.Namespace], None]] = {
    "quantized": quantized.run,
    "real": real.run,
    "narrow": narrow.run,
    "torch": pytorch.run,
    "training": training.run,
    "tuning": tuning.run,
    "schedule": _schedule,
    "memory": _memory,
    "starts": starts.run,
    "threads": _threads,
    "assembly": _assembly,
    "calls": _calls,
    "simulated": simulated.run,
    "cubins": simulated.cubins,
}


if __name__ == "__main__":
    sys.exit(main())
