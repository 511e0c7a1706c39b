"""What several tests of GEMINI share."""

import pytest

from skdiffclust.gemini import _stability


@pytest.fixture
def few_fits(monkeypatch):
    """Fewer subsets, references and numbers of clusters than users have."""
    monkeypatch.setattr(_stability, "_N_SUBSETS", 4)
    monkeypatch.setattr(_stability, "_N_REFERENCES", 3)
    monkeypatch.setattr(_stability, "MOST_CLUSTERS", 5)
