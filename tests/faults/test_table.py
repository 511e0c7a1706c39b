"""The table of faults in doc/reliability.rst: every cell is a test that there is."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "doc" / "reliability.rst").read_text(encoding="utf-8")
COLUMNS = [
    "ClAM",
    "GEMINI",
    "PRCut",
    "SpanningForestClustering",
    "SpanningForestEmbedding",
    "SparseGEMINI",
    "SparseGEMINICV",
]
# What the fixtures of conftest.py give.
FIXTURES = {
    "quick": {*COLUMNS} - {"SpanningForestEmbedding", "SparseGEMINICV"},
    "clusterer": {*COLUMNS} - {"SpanningForestEmbedding"},
    "estimator": {*COLUMNS},
    "constrained": {"ClAM", "GEMINI", "SpanningForestClustering", "SparseGEMINI"},
}
# (fault, estimator) that cannot happen: no links, no graph, no device, no checkpoint,
# no batches, no training, nothing between all rows.
CANNOT = {
    8: {"SpanningForestEmbedding"},
    9: {"SparseGEMINICV"},
    10: {"SparseGEMINICV"},
    11: {*COLUMNS} - {"SpanningForestClustering", "SpanningForestEmbedding"},
    12: {*COLUMNS} - {"PRCut", "SpanningForestClustering"},
    13: {*COLUMNS} - {"GEMINI", "PRCut", "SpanningForestClustering"},
    14: {*COLUMNS} - {"GEMINI", "PRCut", "SpanningForestClustering"},
    15: {"ClAM", "SpanningForestClustering", "SpanningForestEmbedding"},
    16: {"SpanningForestClustering", "SpanningForestEmbedding"},
    23: {"SpanningForestClustering"},
    24: {"SpanningForestClustering"},
    25: {*COLUMNS} - {"ClAM", "PRCut", "SpanningForestEmbedding"},
    26: {*COLUMNS} - {"ClAM", "PRCut", "SpanningForestEmbedding"},
    28: {*COLUMNS} - {"ClAM", "SpanningForestEmbedding", "SparseGEMINI"},
    29: {*COLUMNS} - {"ClAM", "SpanningForestEmbedding", "SparseGEMINI"},
    34: {"ClAM", "SpanningForestEmbedding"},
    35: {*COLUMNS} - {"SpanningForestClustering"},
    39: {"PRCut", "SparseGEMINICV"},
}
ROWS = re.findall(r'^   "(\d+) .*?", (.*)$', PAGE, re.MULTILINE)
TESTS = re.findall(r"^(\d+)\. ``(.*?)``\n +``(.*?)``$", PAGE, re.MULTILINE)


def estimators_of(file, name):
    """Return the estimators that a test runs on."""
    source = (ROOT / "tests" / file).read_text(encoding="utf-8")
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    assert len(functions) == 1, f"{file} has no test {name}"
    given = {argument.arg for argument in functions[0].args.args}
    if file.startswith("faults/"):
        for fixture, estimators in FIXTURES.items():
            if fixture in given:
                return estimators
    # A test of a room, or of the corridor that all share, names whom it is about.
    return {column for column in COLUMNS if column in source} or {*COLUMNS}


def test_every_fault_has_a_row_and_every_number_a_test():
    assert [int(number) for number, _ in ROWS] == list(range(1, 40))
    assert [int(number) for number, *_ in TESTS] == list(range(1, len(TESTS) + 1))


@pytest.mark.parametrize("fault, cells", ROWS, ids=[number for number, _ in ROWS])
def test_no_cell_is_empty_where_the_fault_can_happen(fault, cells):
    cells = [cell.strip() for cell in cells.split(",")]
    assert len(cells) == len(COLUMNS)
    for estimator, cell in zip(COLUMNS, cells, strict=True):
        cannot = estimator in CANNOT.get(int(fault), ())
        assert (cell == r"\-") == cannot, (estimator, cell)
        if not cannot:
            _, file, name = TESTS[int(cell) - 1]
            shared = file.startswith(("test_", "properties/", "gemini/", "memories/"))
            assert estimator in estimators_of(file, name) or shared, (estimator, name)
