"""Every number in the modules of rules is listed with its reason."""

import pytest

pytest.importorskip("networkx")

import rules_numbers
from bench_rules import STRUCTURES


@pytest.mark.parametrize("module", rules_numbers.NUMBERS)
def test_numbers_are_listed(module):
    reasons = rules_numbers.NUMBERS[module]
    found = list(rules_numbers.numbers_in(rules_numbers.path_of(module)))
    assert {name for name, _ in found} == set(reasons)
    assert {kind for kind, _ in reasons.values()} <= set(rules_numbers.KINDS)


def test_numbers_are_found_anywhere(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        "A = (0.5, 1)\n"
        "class B:\n"
        "    c: int = 7\n"
        "    def d(self, e=-3, *, f=9.0):\n"
        "        return [x + 1e-3 for x in e] or True\n",
        encoding="utf-8",
    )
    assert sorted(rules_numbers.numbers_in(path)) == [
        ("A", 0.5),
        ("B", 7),
        ("d", 0.001),
        ("d", 3),
        ("d", 9.0),
    ]


def test_rows_are_of_parts_that_exist():
    for reasons in rules_numbers.NUMBERS.values():
        for kind, reason in reasons.values():
            if kind == "row" and not reason.endswith(".py"):
                for part in reason.split("; "):
                    structure, name = part.split()
                    assert name in STRUCTURES[structure]
