"""The command: python -m tests.benchmarks SUITE [NAME …] [--threads N …] [--json FILE]"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tests.benchmarks import calls, machine, memory, models, schedule, threads


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("suite", choices=["models", "schedule", "memory", "threads", "calls"])
    parser.add_argument("names", nargs="*", help="parts of names; all without any")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each pair")
    parser.add_argument("--json", type=Path, help="write the figures here")
    args = parser.parse_args()
    if args.suite == "schedule":
        print(machine.line(machine.describe("islpy", "numpy")), flush=True)
        for timing in schedule.run():
            print(timing, flush=True)
        return
    if args.suite == "threads":
        print(machine.line(machine.describe("llvmlite", "numpy")), flush=True)
        threads.run(max(args.threads))
        return
    facts = machine.describe("onnxruntime", "llvmlite", "numpy")
    print(machine.line(facts), flush=True)
    if args.suite == "memory":
        memory.run(args.names, max(args.threads))
        return
    if args.suite == "calls":
        calls.run()
        return
    timings = models.run(args.names, args.threads, args.seconds)
    print(models.summary(timings))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(
            json.dumps({"machine": facts, "models": models.as_json(timings)}, indent=1)
        )


if __name__ == "__main__":
    main()
