"""Pages of the documentation whose code and output are promised to agree."""

import importlib
import os
import re
import shlex
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

import skdiffclust

DOC = Path(__file__).resolve().parents[1] / "doc"


def blocks(page, directive):
    """Return the dedented contents of a page's directives, without their options."""
    text = (DOC / page).read_text(encoding="utf-8")
    pattern = rf"^\.\. {directive}\n(?:   :.*\n(?:   .*\n)*)?\n((?:   .*\n|\n)*)"
    found = re.findall(pattern, text, flags=re.MULTILINE)
    return [dedent(block).strip() for block in found]


def test_labels_from_a_sorted_file_are_nearly_as_good_as_those_of_a_fit(
    tmp_path, monkeypatch
):
    (program,) = [
        block
        for block in blocks("user_guide/large_data.rst", "code-block:: python")
        if "batches(" in block
    ]
    bench_large = importlib.import_module("bench_large")
    X, y = bench_large.sorted_by_class(3000, 10, seed=0)
    monkeypatch.chdir(tmp_path)
    np.save("samples.npy", X)
    program = program.replace("batch_size=2000", "batch_size=1000")
    exec(program, names := {"batches": bench_large.batches})
    whole = skdiffclust.ClAM(10, random_state=0).fit(X).labels_
    for labels in names["labels"]:
        assert adjusted_rand_score(y, labels) > adjusted_rand_score(y, whole) - 0.03


def test_getting_started_prints_what_it_says(tmp_path, monkeypatch, capsys):
    code = blocks("getting_started.rst", "plot::")
    expected = blocks("getting_started.rst", "code-block:: text")
    monkeypatch.chdir(tmp_path)
    # Agg says that it shows nothing.
    program = "\n".join(code).replace("plt.show()", "plt.close()")
    exec(compile(program, "getting_started", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out.strip()
    spaces = re.compile(r"\s+")  # pandas pads its headings
    assert spaces.sub(" ", printed) == spaces.sub(" ", " ".join(expected))
    assert len((tmp_path / "labelled.csv").read_text("utf-8").splitlines()) == 179


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


ROOT = DOC.parent
PAGES = [
    page
    for page in sorted([*DOC.rglob("*.rst"), *ROOT.glob("*.rst"), *ROOT.glob("*.md")])
    if not {"auto_examples", "generated"}.intersection(page.parts)
]


def literals(page):
    """Return the inline literals of a page and the lines of its literal blocks."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    inline = re.compile(r"``(.+?)``", flags=re.DOTALL)
    found = [" ".join(literal.split()) for literal in inline.findall(text)]
    return found + re.findall(
        r"^ {3,}(\S.*)$", inline.sub("", text), flags=re.MULTILINE
    )


def source_of(script):
    """Return the text of a benchmark and of the modules beside it that it imports."""
    folder = ROOT / "benchmarks"
    source = (folder / script).read_text(encoding="utf-8")
    modules = re.findall(r"^(?:from|import) (\w+)", source, flags=re.MULTILINE)
    beside = [folder / f"{module}.py" for module in modules]
    return source + "".join(path.read_text("utf-8") for path in beside if path.exists())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_can_be_run(page):
    """Look for their files and markers, and for every name that a script is given."""
    markers = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    for literal in literals(page):
        for path in re.findall(
            r"(?:^|[\s\"])((?:\.ci|tests|examples|benchmarks)/[\w/.*-]+)", literal
        ):
            assert list(ROOT.glob(path)), path
        for marker in re.findall(r"pytest.* -m \"?(\w+)", literal):
            assert f"\n    {marker}:" in markers or f"\n    {marker}(" in markers
        command = re.match(r"(?:\S+ )*?benchmarks/(\w+\.py)( .*)?$", literal)
        if command is not None:
            source = source_of(command[1])
            for word in shlex.split(command[2] or ""):
                name = re.escape(re.split("[:=]", word)[0])
                if not re.fullmatch(r"[\d.-]+|.*[./].*", word):
                    assert re.search(rf"(?<![a-z]){name}(?![a-z])", source), literal


def test_the_benchmarks_can_be_imported(monkeypatch):
    """Some import private names, and assert that they are there."""
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setattr(os, "environ", os.environ.copy())  # some set variables
    names = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)  # as before, after the test
        del sys.modules[name]
    for name in names:
        importlib.import_module(name)
