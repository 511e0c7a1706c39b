"""The tables of the documentation are those of tests that exist."""

import pytest
from contract_table import CONTRACT
from fault_table import FAULTS
from proven import ROOT, as_rst, page_of, proof_of


@pytest.mark.parametrize("table", [FAULTS, CONTRACT], ids=lambda table: table.name)
def test_the_page_is_made_of_the_table_and_every_test_exists(table):
    # Otherwise: python tests/tables/write_pages.py
    assert page_of(table).read_text(encoding="utf-8") == as_rst(table)
    for title, row in table.rows.items():
        for proof in filter(None, map(proof_of, row.values())):
            file, name = proof.split("::")
            source = (ROOT / "tests" / file).read_text(encoding="utf-8")
            assert f"def {name}(" in source, (title, name)
