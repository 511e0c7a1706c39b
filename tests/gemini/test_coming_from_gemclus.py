"""The page for users of gemclus: its blocks of our code run."""

import re
import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

PAGE = Path(__file__).parents[2] / "doc" / "coming_from_gemclus.rst"


def test_the_blocks_run(capsys):
    text = PAGE.read_text("utf-8")
    blocks = re.findall(r"code-block:: python\n\n((?:    .*\n|\n)+)", text)
    assert len(blocks) == 7
    names = {}
    for block in blocks:
        code = "\n".join(line.removeprefix("    ") for line in block.splitlines())
        with warnings.catch_warnings():
            # Objectives without distances, which may find fewer clusters.
            warnings.simplefilter("ignore", ConvergenceWarning)
            exec(compile(code, PAGE.name, "exec"), names)
    assert " <= " in capsys.readouterr().out
    assert text.count("code-block:: none") == 6
