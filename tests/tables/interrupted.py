"""A computation that ends while it writes checkpoints, as if it was killed then."""

import os
from contextlib import contextmanager

import pytest


@contextmanager
def stop_after(n_steps, error=SystemExit):
    """Raise an error after this number of steps is written in checkpoints."""
    replace, n_left = os.replace, [n_steps]

    def stopping(source, target):
        n_left[0] -= not target.exists()
        replace(source, target)
        if not n_left[0]:
            raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", stopping)
        yield


def interrupted(call, n_steps):
    """Call a function that writes checkpoints, and end it after some are written."""
    with stop_after(n_steps), pytest.raises(SystemExit):
        call()
