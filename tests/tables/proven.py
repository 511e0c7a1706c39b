"""Tables of behaviours by estimator, each cell of which names the test that proves it.

`fault_table` and `contract_table` hold one each. Their pages of the documentation
include what `as_rst` makes of them (``python tests/tables/write_pages.py``).
"""

from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple

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


class Table(NamedTuple):
    """Rows {title: {column: cell}}; a cell is "FILE::TEST" or a Dash."""

    name: str
    heading: str
    rows: dict
    columns: dict = COLUMNS


def cells(test=None, columns=COLUMNS, **others):
    """Return a row: a test for all estimators but the others."""
    return {column: others.get(column, test) for column in columns}


def proof_of(cell):
    """Return "FILE::TEST" of a cell, or None for a dash."""
    return None if isinstance(cell, Dash) else cell


def reason_of(cell):
    """Return the reason of a dash, or None."""
    return getattr(cell, "reason", None)


def as_rst(table):
    """Return the table, with a tick for each test, and the list of its reasons."""
    every = [cell for row in table.rows.values() for cell in row.values()]
    reasons = list(dict.fromkeys(filter(None, map(reason_of, every))))
    letters = [a + b for a in ["", *ascii_lowercase] for b in ascii_lowercase]

    def shown(cell):
        reason = reason_of(cell)
        letter = f" {letters[reasons.index(reason)]}" if reason else ""
        return f"–{letter}" if isinstance(cell, Dash) else "✓"

    lines = [
        ".. Made by tests/tables/write_pages.py: change the table there.",
        "",
        ".. csv-table::",
        f"   :header: {table.heading}, {', '.join(table.columns.values())}",
        f"   :widths: 30{', 10' * len(table.columns)}",
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
