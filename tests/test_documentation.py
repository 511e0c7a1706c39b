"""Pages of the documentation whose code and output are promised to agree."""

import argparse
import ast
import importlib
import os
import re
import shlex
import sys
from pathlib import Path
from textwrap import dedent

import pytest
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


def test_one_text_on_the_modularity():
    pages = DOC / "user_guide"
    texts = [
        (pages / "graph_cuts.rst").read_text(encoding="utf-8"),
        (pages / "tuning.rst").read_text(encoding="utf-8"),
        skdiffclust.GraphCutClustering.__doc__,
        skdiffclust.GraphCutClustering.score.__doc__,
        skdiffclust.PRCut.score.__doc__,
    ]
    text = (
        "may be compared over numbers of clusters on networks, but errs on graphs of "
        "neighbours"
    )
    for each in texts:
        plain = " ".join(each.split())
        assert text in plain and 'use ``n_clusters="auto"`` there' in plain
        assert "search can choose the number" not in plain


def test_a_forest_is_entered_in_the_middle():
    (program,) = [
        block
        for block in blocks("user_guide/spanning_forest.rst", "code-block:: python")
        if "SpanningTree(" in block
    ]
    names = {}
    exec(program, names)
    fitted = skdiffclust.SpanningForestClustering(2).fit(names["X"])
    assert (names["cut"].labels == fitted.labels_).all()
    assert len(names["hdbscan"]) == len(names["X"])


def test_algorithm_1_of_clam_is_a_short_loop():
    (program,) = [
        block
        for block in blocks("user_guide/clam.rst", "code-block:: python")
        if "AssociativeMemory(" in block
    ]
    pytest.importorskip("torch")
    exec(program, names := {})
    assert len(set(names["labels"].tolist())) == 3


def test_a_table_is_clustered_with_and_without_gaps():
    names = {}
    exec("\n".join(blocks("user_guide/mixed_data.rst", "code-block:: python")), names)
    assert names["with_gaps"].isna().to_numpy().any()
    assert len(set(names["labels"])) == 2


def test_getting_started_prints_what_it_says(tmp_path, monkeypatch, capsys):
    code = blocks("getting_started.rst", "plot::")
    assert all(len(block.splitlines()) < 30 for block in code)
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


def commands(script):
    """Return the commands of the pages that run one of the scripts, as words."""
    name = f"benchmarks/{script}"
    found = {
        literal[literal.index(name) :]
        for page in PAGES
        for literal in literals(page)
        if re.match(r"(\w+=\S+ )*(python3? )?" + re.escape(name), literal)
    }
    return [shlex.split(command)[1:] for command in sorted(found)]


def parser_of(tree):
    """Return the parser that a script builds, without the types of its arguments.

    The calls of ``add_argument`` are read, not run: a script imports its peers.
    """
    parser = argparse.ArgumentParser(exit_on_error=False)
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        if getattr(call.func, "attr", None) != "add_argument":
            continue
        options = {}
        for keyword in call.keywords:
            if keyword.arg in ("nargs", "action", "choices"):
                try:
                    options[keyword.arg] = ast.literal_eval(keyword.value)
                except ValueError:
                    continue  # the names of a dictionary: sought in the text below
        parser.add_argument(*map(ast.literal_eval, call.args), **options)
    return parser


SCRIPTS = sorted(
    {
        name
        for page in PAGES
        for name in re.findall(r"benchmarks/(\w+\.py)", page.read_text("utf-8"))
    }
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_commands_of_the_pages_can_be_run(script):
    """Look for the script, for its options, and for every name that it is given."""
    source = (ROOT / "benchmarks" / script).read_text(encoding="utf-8")
    known = source
    for module in re.findall(r"^(?:from|import) (\w+)", source, flags=re.MULTILINE):
        path = ROOT / "benchmarks" / f"{module}.py"
        known += path.read_text(encoding="utf-8") if path.is_file() else ""
    parser = parser_of(ast.parse(source))
    for words in commands(script):
        if "sys.argv" in source:
            values = words
        else:
            values = []
            for value in vars(parser.parse_args(words)).values():
                values += value if isinstance(value, list) else [value]
        for word in map(str, filter(None, values)):
            if not re.fullmatch(r"[\d.-]+|True|.*[./].*", word):
                name = re.escape(word.partition(":")[0])
                assert re.search(rf"(?<![a-z]){name}(?![a-z])", known), (script, word)


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_says_what_was_measured_and_not_its_history(page):
    if page.name == "whats_new.rst":
        return
    text = page.read_text(encoding="utf-8")
    commit = r"\bcommits? [0-9a-f]{7}|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b"
    assert not re.findall(commit, text)
    assert not re.findall(r"(?i)\bbusy\b|\d November \d", text)


def test_which_method_begins_with_three_questions():
    _, start = (DOC / "which_method.rst").read_text("utf-8").split("---\n\n", 1)
    questions = re.findall(r"^\d\. \*\*(.*\?)\*\*", start, flags=re.MULTILINE)
    assert questions == ["Are there gaps?", "Is there a graph?", "Are there labels?"]
    assert start.startswith("1. ")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_files_and_markers_of_the_commands_exist(page):
    for literal in literals(page):
        for path in re.findall(
            r"(?:^|[\s\"])((?:\.ci|tests|examples)/[\w/.*-]+)", literal
        ):
            assert list(ROOT.glob(path)), (page.name, path)
        for marker in re.findall(r"pytest.* -m \"?(\w+)", literal):
            markers = (ROOT / "setup.cfg").read_text(encoding="utf-8")
            assert re.search(rf"^    {marker}:", markers, flags=re.MULTILINE), marker


def test_the_gallery_is_small_and_has_each_example_once():
    examples = {str(path) for path in (ROOT / "examples").glob("*/plot_*.py")}
    assert 0 < len(examples) <= 30
    page = (DOC / "gallery.rst").read_text("utf-8")
    shown = [str(ROOT / name) for name in re.findall(r"\.\./(examples/.*)", page)]
    assert sorted(shown) == sorted(examples)
