"""Write the tables that pages of the documentation include.

    python tests/tables/write_pages.py

`test_tables.py` holds what is written equal to the tables.
"""

from contract_table import CONTRACT
from fault_table import FAULTS
from proven import as_rst, page_of

if __name__ == "__main__":
    for table in (FAULTS, CONTRACT):
        page_of(table).parent.mkdir(exist_ok=True)
        page_of(table).write_text(as_rst(table), encoding="utf-8")
