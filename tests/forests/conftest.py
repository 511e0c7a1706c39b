"""A process in which nothing is compiled."""

import pytest


@pytest.fixture
def cold(monkeypatch):
    """A process in which nothing is compiled."""
    monkeypatch.setattr("skdiffclust._compiled.is_ready", lambda kernel: False)
