"""Run a notebook top to bottom in a fresh kernel, as a reader would.

    python tests/run_notebook.py notebooks/00_tour.ipynb --html build/tour.html --print top-1: ratio

    python tests/run_notebook.py notebooks/00_tour.ipynb --keep    (its outputs, into the file)

prints the lines of the notebook's text outputs that start with one of the words, then how many
cells ran, how long they took and the most memory that the kernel held.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"


@dataclass(frozen=True)
class Run:
    """A notebook that has run: the notebook with its outputs, seconds, and peak bytes."""

    notebook: nbformat.NotebookNode
    seconds: float
    peak_bytes: int

    @property
    def cells(self) -> int:
        """How many code cells it has."""
        return sum(cell.cell_type == "code" for cell in self.notebook.cells)


def execute(path: Path, timeout: int = 300) -> Run:
    """Run the notebook in its own folder; the file stays as it is.

    Args:
        path: the notebook.
        timeout: seconds that one cell may take.

    Raises:
        CellExecutionError: a cell raised; the message is the cell and its traceback.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=timeout,
        resources={"metadata": {"path": str(path.resolve().parent)}},
        extra_arguments=["--log-level=ERROR"],  # no word about sockets, which are local
    )
    start = time.perf_counter()
    client.execute()
    return Run(notebook, time.perf_counter() - start, _peak_of_children())


def text_lines(notebook: nbformat.NotebookNode) -> Iterator[str]:
    """The lines of everything that the cells printed or showed as text."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            yield from text.splitlines()


def warnings_of(notebook: nbformat.NotebookNode) -> list[str]:
    """The lines on the error stream that are warnings (progress bars write there too)."""
    return [
        line
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.get("name") == "stderr"
        for line in output["text"].splitlines()
        if "Warning" in line
    ]


def write_html(notebook: nbformat.NotebookNode, source: Path, target: Path) -> None:
    """Write the notebook with its outputs and pictures as one HTML file."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(embed_images=True)
    resources = {"metadata": {"path": str(source.resolve().parent), "name": source.stem}}
    page, _ = exporter.from_notebook_node(notebook, resources)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page, encoding="utf-8")


def without_dead_widgets(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook, its widgets' states changed in place: only those that a cell shows, and what
    these are made of, are left. Progress bars that have gone leave theirs.
    """
    held = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    outputs = [o for c in notebook.cells for o in c.get("outputs", ())]
    shown = [o["data"][VIEW]["model_id"] for o in outputs if VIEW in o.get("data", {})]
    live: set[str] = set()
    while shown:
        name = shown.pop()
        if name in held and name not in live:
            live.add(name)
            shown += re.findall(r"IPY_MODEL_(\w+)", json.dumps(held[name]))
    for name in set(held) - live:
        del held[name]
    if not held:
        notebook.metadata.pop("widgets", None)
    return notebook


def main(argv: Sequence[str] | None = None) -> int:
    """Run the notebook named on the command line; 1 where a cell failed."""
    parser = argparse.ArgumentParser(description="Run a notebook top to bottom.")
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--html", type=Path, help="write the notebook with its outputs here")
    parser.add_argument("--print", nargs="*", default=[], metavar="WORD", dest="words")
    parser.add_argument("--keep", action="store_true", help="write the outputs into the notebook")
    args = parser.parse_args(argv)
    try:
        run = execute(args.notebook)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        print(f"{args.notebook}: {error}", file=sys.stderr)
        return 1
    if args.keep:
        nbformat.write(without_dead_widgets(run.notebook), args.notebook)
    if args.html:
        write_html(run.notebook, args.notebook, args.html)
    for line in text_lines(run.notebook):
        if line.startswith(tuple(args.words)):
            print(line)
    memory = f"{run.peak_bytes / 2**30:.2f} GB"
    print(f"{args.notebook}: {run.cells} cells in {run.seconds:.1f} s, {memory}")
    return 0


def _peak_of_children() -> int:
    """The most memory in bytes that a finished child process held (macOS counts in bytes)."""
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    sys.exit(main())
