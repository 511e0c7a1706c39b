"""Pages of the documentation whose code and output are promised to agree."""

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from sklearn.datasets import make_moons

import skdiffclust

DOC = Path(__file__).resolve().parents[1] / "doc"


def blocks(page, directive):
    """Return the dedented contents of a page's directives, without their options."""
    text = (DOC / page).read_text(encoding="utf-8")
    pattern = rf"^( *)\.\. {re.escape(directive)}\n((?:\1 +.*\n|\n)*)"
    found = []
    for match in re.finditer(pattern, text + "\n", flags=re.MULTILINE):
        # Options end at the first empty line.
        _, _, content = match[2].partition(
            "\n\n" if match[2].strip()[0] == ":" else "\n"
        )
        found.append(dedent(content).strip())
    return found


def run(code, folder):
    """Run code in a fresh process in a folder, with warnings as errors."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import skdiffclust\n" + code],
        cwd=folder,
        env={**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(DOC.parent)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_the_landing_page_prints_what_it_says(tmp_path):
    (code,) = blocks("index.rst", "plot::")
    (expected,) = blocks("index.rst", "code-block:: text")
    # Agg says that it shows nothing.
    assert run(code.replace("plt.show()", ""), tmp_path) == expected


def test_getting_started_prints_what_it_says(tmp_path):
    code = blocks("getting_started.rst", "plot::")
    assert all(len(block.splitlines()) < 30 for block in code)
    expected = blocks("getting_started.rst", "code-block:: text")
    printed = run("\n".join(code).replace("plt.show()", ""), tmp_path)
    spaces = re.compile(r"\s+")  # pandas pads its headings
    assert spaces.sub(" ", printed) == spaces.sub(" ", " ".join(expected))
    assert len((tmp_path / "labelled.csv").read_text().splitlines()) == 179


def test_what_is_said_to_those_who_come_from_elsewhere():
    """Evaluate every call of ours in the tables of that page."""
    names = {name: getattr(skdiffclust, name) for name in skdiffclust.__all__}
    numbers = {"k": 3, "eps": 1.0, "m": 5, "s": 5, "r": 0.01}
    text = (DOC / "coming_from.rst").read_text("utf-8")
    cells = re.findall(r"^     - (.*(?:\n       .*)*)", text, flags=re.MULTILINE)
    calls = [
        call
        for cell in cells
        for call in re.findall(r"``((?:[A-Z]\w*)\([^`]*?\))(?:\.\w+|``)", cell)
    ]
    assert len(calls) > 15
    for call in calls:
        estimator = eval(call.replace("\n", " "), names | numbers)
        for name in estimator.get_params():
            assert hasattr(estimator, name)
    X, _ = make_moons(50, random_state=0)
    forest = names["SpanningForestClustering"](2).fit(X)
    for method in re.findall(r"forest\.(\w+)", text):
        assert hasattr(forest, method), method
