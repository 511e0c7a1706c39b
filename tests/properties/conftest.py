"""Profiles of hypothesis: 100 fixed examples by default, 5000 random ones on request.

``python -m pytest tests/properties -m long`` runs the second.
"""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("default", max_examples=100, derandomize=True, deadline=None)
settings.register_profile("long", max_examples=5000, deadline=None)
HERE = Path(__file__).parent


def is_long(config):
    """Whether the longer profile is requested."""
    return config.option.markexpr == "long"


def pytest_configure(config):
    """Load the profile before any test is defined."""
    settings.load_profile("long" if is_long(config) else "default")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Select every property of this folder with ``-m long``."""
    for item in items:
        if is_long(config) and HERE in item.path.parents:
            item.add_marker(pytest.mark.long)
