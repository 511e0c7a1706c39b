"""Tests that train for a few epochs fit the labels to start from as briefly."""

import pytest

from skdiffclust.cuts import _training


@pytest.fixture(autouse=True)
def few_steps(request, monkeypatch):
    """Fit labels for a tenth of the steps in tests marked ``few_epochs``."""
    if request.node.get_closest_marker("few_epochs"):
        monkeypatch.setattr(_training, "_LEAST_STEPS", 200)
