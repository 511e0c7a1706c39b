"""The tables of the documentation: complete, as on their pages, of tests that exist."""

import pytest
from contract_table import CONTRACT
from fault_table import FAULTS
from proven import ROOT, as_rst, page_of, proof_of, reason_of

TABLES = pytest.mark.parametrize("table", [FAULTS, CONTRACT], ids=lambda t: t.name)


@TABLES
def test_the_page_is_made_of_the_table(table):
    # Otherwise: python tests/tables/write_pages.py
    assert page_of(table).read_text(encoding="utf-8") == as_rst(table)


@TABLES
def test_every_cell_has_a_test_or_a_reason(table):
    for title, row in table.rows.items():
        assert list(row) == list(table.columns), title
        for column, cell in row.items():
            assert cell, (title, column)
            reason = reason_of(cell)
            assert reason is None or len(reason.split()) >= 3, (title, column)
            if proof_of(cell):
                file, name = proof_of(cell).split("::")
                source = (ROOT / "tests" / file).read_text(encoding="utf-8")
                assert f"def {name}(" in source, (title, column, name)


def test_every_fault_has_a_row():
    numbers = [int(title.split()[0]) for title in FAULTS.rows]
    assert numbers[:39] == list(range(1, 40))
    assert numbers == sorted(set(numbers))
