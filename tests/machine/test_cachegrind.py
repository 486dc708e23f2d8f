"""Misses that valgrind's cachegrind counts of compiled kernels, beside those of the replay.

An independent model of caches on the machine code that runs. The kernel keeps sums in registers and
reads vectors, so it makes fewer accesses than the loops; lines come in the same order, so misses
are nearly the same.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest

import mlcnb as mlc
from mlcnb.machine.cache import caches
from mlcnb.observe.access import replayed
from mlcnb.testing.gallery.programs import matmul
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import conv2d
from tests.tir.schedule.random_steps import scheduled

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("valgrind") and shutil.which("cc")), reason="needs valgrind and cc"
    ),
]
LEVELS = caches("32K/8way/64B, 256K/8way")
#: what valgrind knows on x86-64
TARGET = "llvm -mcpu=x86-64-v3"
_MAIN = """
#include <stdlib.h>
int mlcnb_cancel = 0;
int entry(void **argv) __asm__("ENTRY");
static const long base[] = {BASES};
int main(int argc, char **argv) {
  char *arena = aligned_alloc(1 << 20, 1 << 24);
  void *args[COUNT + 1];
  for (int i = 0; i < COUNT; ++i) args[i] = arena + base[i];
  args[COUNT] = arena + (1 << 23);
  return entry(args);
}
"""


def counted(func: Any, folder: Any) -> tuple[int, int]:
    """(L1, L2) misses of data in one call of the compiled function, from empty caches."""
    kernel = mlc.compile(func, target=TARGET).kernels[0]
    run = replayed(func, LEVELS)
    bases = [a.base for a in run.program.arrays if a.is_argument]
    main = _MAIN.replace("BASES", ", ".join(map(str, bases))).replace("COUNT", str(len(bases)))
    (folder / "main.c").write_text(main.replace("ENTRY", kernel.symbol))
    (folder / "kernel.s").write_text(str(kernel.asm))
    program = str(folder / "program")
    subprocess.run(
        ["cc", "-O1", "-o", program, str(folder / "main.c"), str(folder / "kernel.s"), "-lm"],
        check=True,
    )
    out = folder / "cachegrind.out"
    sizes = [f"{c.nbytes},{c.ways},{c.line}" for c in LEVELS]
    flags = ["--tool=cachegrind", "--cache-sim=yes", f"--cachegrind-out-file={out}"]
    flags += [f"--D1={sizes[0]}", f"--LL={sizes[1]}"]
    subprocess.run(["valgrind", *flags, program], check=True, capture_output=True)
    return misses_in(out.read_text(), kernel.symbol)


def misses_in(text: str, symbol: str) -> tuple[int, int]:
    """(L1, L2) data misses of one function in cachegrind's file."""
    events = re.search(r"^events: (.*)$", text, re.MULTILINE)
    assert events is not None
    names = events[1].split()
    own = text.partition(f"fn={symbol}\n")[2].partition("fn=")[0]
    rows = [list(map(int, line.split()[1:])) for line in own.splitlines() if line[:1].isdigit()]
    total = dict(zip(names, map(sum, zip(*rows, strict=True)), strict=True))
    return total["D1mr"] + total["D1mw"], total["DLmr"] + total["DLmw"]


def ordered(n: int, order: str) -> Any:
    sch = Schedule(matmul(n, n, n))
    loops = dict(zip("ijk", sch.get_loops("C"), strict=True))
    sch.reorder(*(loops[name] for name in order))
    return scheduled(sch)


def tiled(n: int, tile: int) -> Any:
    sch = Schedule(matmul(n, n, n))
    split = [sch.split(loop, [None, tile]) for loop in sch.get_loops("C")]
    sch.reorder(*(outer for outer, _ in split), *(inner for _, inner in split))
    return scheduled(sch)


PROGRAMS = {
    "matmul 96 ijk": lambda: ordered(96, "ijk"),
    "matmul 96 jki": lambda: ordered(96, "jki"),
    "matmul 128 ijk": lambda: ordered(128, "ijk"),
    "matmul 96 in tiles of 16": lambda: tiled(96, 16),
    "matmul 128 in tiles of 32": lambda: tiled(128, 32),
    "conv2d": lambda: scheduled(Schedule(conv2d(height=20, channels=(2, 2)))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_valgrind_counts(name, tmp_path):
    func = PROGRAMS[name]()
    found = replayed(func, LEVELS)
    ours = tuple(found.counts[level.name].misses for level in LEVELS)
    theirs = counted(func, tmp_path)
    print(f"{name}: replay {ours}, cachegrind {theirs}")
    for mine, other in zip(ours, theirs, strict=True):
        assert abs(mine - other) <= 0.05 * other + 32
