"""Errors of a selection of variables."""

import numpy as np
import pytest

from skdiffclust.metrics import (
    correct_variable_rate,
    variable_selection_error_rate,
)


def test_rates_of_a_selection():
    true = np.array([True, True, False, False, False])
    assert variable_selection_error_rate(true, true) == 0
    assert correct_variable_rate(true, true) == 1
    everything = np.ones(5, dtype=bool)
    assert variable_selection_error_rate(true, everything) == 1 - 2 / 5
    assert correct_variable_rate(true, everything) == 1
    assert correct_variable_rate(true, ~true) == 0
    with pytest.raises(
        ValueError, match="'support' parameter of correct_variable_rate"
    ):
        correct_variable_rate(true, [0, 1])
    with pytest.raises(ValueError, match="must contain at least one informative"):
        correct_variable_rate(~everything, true)
