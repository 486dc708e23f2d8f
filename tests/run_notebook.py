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
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from mlcnb.cli._saved import VIEW, made_of, put_away, states, take_back
from mlcnb.cli.lab import JUPYTER


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
        record_timing=False,  # so that a cell that shows the same is the same
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


def text_of(cell: nbformat.NotebookNode) -> str:
    """All that one cell printed or showed as text."""
    return "\n".join(text_lines(nbformat.v4.new_notebook(cells=[cell])))


def unseen(notebook: nbformat.NotebookNode) -> list[str]:
    """The claims of cells that their outputs do not bear out.

    What the text around a cell says of its output stands as patterns in its metadata: "claims".
    """
    return [
        f"cell {number}: {claim}"
        for number, cell in enumerate(notebook.cells)
        for claim in cell.metadata.get("claims", ())
        if not re.search(claim, text_of(cell), re.MULTILINE)
    ]


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
    from traitlets.config import Config

    settings = json.loads((JUPYTER / "jupyter_config.json").read_text())
    exporter = HTMLExporter(config=Config(settings), embed_images=True)
    resources = {"metadata": {"path": str(source.resolve().parent), "name": source.stem}}
    page, _ = exporter.from_notebook_node(notebook, resources)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page, encoding="utf-8")


def without_dead_widgets(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook, changed in place: progress bars are gone, and so are widgets' states, but for
    those that a cell shows and what these are made of.
    """
    held = states(take_back(notebook))
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = _joined([o for o in cell.outputs if not _is_progress(o, held)])
    outputs = [o for c in notebook.cells for o in c.get("outputs", ())]
    live = made_of(
        [o["data"][VIEW]["model_id"] for o in outputs if VIEW in o.get("data", {})], held
    )
    for name in set(held) - live:
        del held[name]
    if not held:
        notebook.metadata.pop("widgets", None)
    return notebook


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Texts of one stream that only a progress bar parted are one."""
    joined: list[nbformat.NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and output.get("name") and last.get("name") == output["name"]:
            joined[-1] = nbformat.from_dict({**last, "text": last["text"] + output["text"]})
        else:
            joined.append(output)
    return joined


def _is_progress(output: nbformat.NotebookNode, held: dict[str, Any]) -> bool:
    """Whether this is a progress bar: a widget, text that stopped on its way, or what is left."""
    if output.get("name") == "stderr":
        return not output["text"].strip() or re.search(r"\d%\|", output["text"]) is not None
    data = output.get("data", {})
    if data == {"text/plain": ""}:
        return True  # mlcnb's own, which is done
    if VIEW not in data or "text/html" in data:
        return False
    parts = made_of([data[VIEW]["model_id"]], held)
    return any(held[name]["model_name"] == "FloatProgressModel" for name in parts) or (
        re.search(r"\d%\|", data.get("text/plain", "")) is not None
    )


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
        nbformat.write(put_away(without_dead_widgets(run.notebook)), args.notebook)
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
