"""What the README says can be typed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_driver import python

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_python_runs_and_prints_what_is_said():
    """All blocks are one session; what stands below a block is what it prints at its end."""
    code = "\n".join(text for language, text in BLOCKS if language == "python")
    (said,) = (text for language, text in BLOCKS if language == "")
    printed = python(code)
    assert printed.count("def main(") >= 2
    assert said in printed


def test_the_schedule_of_the_readme_computes_the_product():
    code = BLOCKS[[i for i, (language, _) in enumerate(BLOCKS) if language == "python"][1]][1]
    code = (
        "import mlcnb as mlc\n"
        + code
        + (
            "import numpy as np\n"
            "a, b = np.random.default_rng(0).standard_normal((2, 256, 256)).astype('f')\n"
            "c = np.zeros_like(a)\n"
            "matmul(a, b, c)\n"
            "print('largest difference', np.abs(c - a @ b).max() < 1e-3)\n"
        )
    )
    assert python(code).endswith("largest difference True\n")


def test_commands_are_those_there_are():
    from mlcnb import cli

    used = set(re.findall(r"(?:`|^)mlcnb ([a-z]+)", TEXT, re.MULTILINE))
    assert used == set(cli.command_names())


@pytest.mark.parametrize("name", re.findall(r"^\| `(mlc\.[\w.]+)", TEXT, re.MULTILINE))
def test_names_of_the_table_exist(name):
    import mlcnb

    found = mlcnb
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    assert found.__doc__
