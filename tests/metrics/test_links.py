"""Incidence matrices of links."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skdiffclust.metrics import links_to_incidence


def test_incidence_has_two_ones_a_column():
    pairs = np.array([[0, 3], [2, 1], [0, 3]])
    incidence = links_to_incidence(pairs, 5)
    assert isinstance(incidence, sparse.csr_array)
    assert incidence.dtype == np.int8
    expected = np.zeros((5, 3))
    expected[pairs.T, np.arange(3)] = 1
    assert_array_equal(incidence.toarray(), expected)
    assert links_to_incidence([], 4).shape == (4, 0)


@pytest.mark.parametrize(
    "pairs, message",
    [
        ([[1, 1]], "'pairs' parameter of links_to_incidence.* Got sample 1 twice"),
        ([[0, 3]], "'pairs' parameter of links_to_incidence.* Got the index 3"),
        ([[0, -1]], "Got the index -1"),
        ([0, 1], r"index pairs of shape \(n_links, 2\). Got an array of shape \(2,\)"),
        ([[0, 0.5]], "Got the value 0.5"),
    ],
)
def test_incidence_refused(pairs, message):
    with pytest.raises(ValueError, match=message):
        links_to_incidence(pairs, 3)
