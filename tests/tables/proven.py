"""Tables of behaviours by estimator, each cell of which names the test that proves it.

`fault_table` and `contract_table` hold one each. Their pages of the documentation
include what `as_rst` makes of them (``python tests/tables/write_pages.py``), and
`run_cell` runs the test of a cell on the estimator of its column.
"""

import contextlib
import io
from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple

import pytest
from sklearn.base import BaseEstimator

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = {
    "SpanningForestClustering": "Forest Clustering",
    "ClAM": "ClAM",
    "GraphCutClustering": "Graph Cut",
    "PRCut": "PRCut",
    "GEMINI": "GEMINI",
    "SparseGEMINI": "Sparse GEMINI",
    "SparseGEMINICV": "Sparse GEMINI CV",
    "SpanningForestEmbedding": "Forest Embedding",
}


class Dash(NamedTuple):
    """A cell of what cannot be, and why."""

    reason: str


class Gap(NamedTuple):
    """A cell of what is missing: a test that is expected to fail, and why."""

    test: str
    reason: str


class Table(NamedTuple):
    """Rows {title: {column: cell}}; a cell is "FILE::TEST", a Dash or a Gap."""

    name: str
    heading: str
    rows: dict


def cells(test=None, **others):
    """Return a row: a test for all estimators but the others."""
    return {column: others.get(column, test) for column in COLUMNS}


def proof_of(cell):
    """Return "FILE::TEST" of a cell, or None for a dash."""
    return None if isinstance(cell, Dash) else getattr(cell, "test", cell)


def reason_of(cell):
    """Return the reason of a dash or a gap, or None."""
    return getattr(cell, "reason", None)


def as_rst(table):
    """Return the table, with a tick for each test, and the list of its reasons."""
    every = [cell for row in table.rows.values() for cell in row.values()]
    reasons = list(dict.fromkeys(filter(None, map(reason_of, every))))
    letters = [a + b for a in ["", *ascii_lowercase] for b in ascii_lowercase]

    def shown(cell):
        reason = reason_of(cell)
        letter = f" {letters[reasons.index(reason)]}" if reason else ""
        if isinstance(cell, Dash):
            return f"–{letter}"
        return f"missing{letter}" if isinstance(cell, Gap) else "✓"

    lines = [
        ".. Made by tests/tables/write_pages.py: change the table there.",
        "",
        ".. csv-table::",
        f"   :header: {table.heading}, {', '.join(COLUMNS.values())}",
        f"   :widths: 30{', 10' * len(COLUMNS)}",
        "",
    ]
    for title, row in table.rows.items():
        title = title.replace('"', '""')
        lines.append(f'   "{title}", ' + ", ".join(map(shown, row.values())))
    if reasons:
        lines += ["", "The reasons:", ""]
        for letter, reason in zip(letters, reasons, strict=False):
            lines.append(f"- {letter}: {reason}")
    return "\n".join(lines) + "\n"


def page_of(table):
    """Return the path of the part of a page that `as_rst` makes."""
    return ROOT / "doc" / "tables" / f"{table.name}.inc"


class Watch:
    """Run the cases of a test that are about one estimator; note how they end."""

    # The functions that tests of checkpoints are parametrised by.
    OF_FUNCTIONS = {
        "ClAM": {"fit_deep_clam"},
        "SpanningForestEmbedding": {"fit_embedding"},
        "SparseGEMINI": {"walk_path"},
    }

    def __init__(self, column):
        self.column, self.failed, self.n_passed = column, [], 0

    def pytest_collection_modifyitems(self, config, items):
        chosen = [item for item in items if self.is_about(item)]
        items[:] = chosen or items

    def is_about(self, item):
        """Whether a parameter of a case is the estimator, or its name."""
        if not hasattr(item, "callspec"):
            return False
        of_functions = self.OF_FUNCTIONS.get(self.column, ())
        return any(
            type(value).__name__ == self.column
            or getattr(value, "__name__", "") in of_functions
            or (isinstance(value, str) and value.split("-")[0] == self.column)
            for value in item.callspec.params.values()
            if isinstance(value, str | BaseEstimator) or callable(value)
        ) or self.column in item.callspec.id.split("-")

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.failed:
            self.failed.append(report.nodeid)
        elif report.when == "call" and report.passed:
            self.n_passed += 1


def run_cell(cell, column):
    """Run the test of a cell on the estimator of its column; return how it ended."""
    watch = Watch(column)
    arguments = [f"{ROOT / 'tests' / proof_of(cell)}", "-c", str(ROOT / "setup.cfg")]
    arguments += [f"--rootdir={ROOT}", "-x", "-q", "-s", "-p", "no:cacheprovider"]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        pytest.main(arguments, plugins=[watch])
    watch.said = said.getvalue()
    return watch
