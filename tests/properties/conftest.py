"""Profiles of hypothesis: 200 fixed examples by default, many random ones on request.

``HYPOTHESIS_PROFILE=long python -m pytest tests/properties`` runs the second.
"""

import os

from hypothesis import settings

settings.register_profile("default", max_examples=200, derandomize=True, deadline=None)
settings.register_profile("long", max_examples=5000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
