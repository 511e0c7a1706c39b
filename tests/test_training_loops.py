"""The training loops of the user guide, one for each loss, run and train."""

import re
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from skdiffclust import nn

PAGE = Path(__file__).resolve().parents[1] / "doc" / "user_guide" / "learning.rst"
CODE = re.findall(
    r"^\.\. code-block:: python\n\n((?: .*\n|\n)+)",
    PAGE.read_text(encoding="utf-8"),
    flags=re.MULTILINE,
)
SHARED, *LOOPS = [dedent(block).strip() for block in CODE if "step(optimizer" in block]
# The least agreement (ARI) with the digits, of the loops that find clusters.
LEAST = {"AssociativeMemory": 0.45, "GEMINILoss": 0.45, "RatioCutLoss": 0.6}
NAMES = [
    "PartialFenchelYoungLoss",
    "FenchelYoungLoss",
    "PerturbedForest",
    "AssociativeMemory",
    "GEMINILoss",
    "RatioCutLoss",
    "spanning_tree",
]


def test_every_loss_has_a_loop_of_at_most_twenty_lines():
    assert len(LOOPS) == len(NAMES)
    for name, loop in zip(NAMES, LOOPS, strict=True):
        assert f"nn.{name}(" in loop
        assert len(loop.splitlines()) <= 20
    tools = {"gather_over_processes", "standardized_affinity"}
    assert {*NAMES} == {*nn.__all__} - tools


@pytest.mark.parametrize("name", NAMES)
def test_the_loop_of_a_loss_trains(name, global_random_seed):
    scope = {}
    exec(compile(SHARED, "shared", "exec"), scope)
    torch.manual_seed(global_random_seed)
    exec(compile(LOOPS[NAMES.index(name)], name, "exec"), scope)
    losses = np.array(scope["losses"])
    fifth = len(losses) // 5
    assert losses[-fifth:].mean() < losses[:fifth].mean()
    if name in LEAST:
        found = adjusted_rand_score(scope["y"], scope["clusters"])
        print(f"{name}, seed {global_random_seed}: ARI {found:.2f}")
        assert found > LEAST[name]
