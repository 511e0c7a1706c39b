"""Learning through clustering: results of the paper, on the data available."""

import numpy as np
import pytest
import torch  # noqa: F401  (reproduce_forests needs it: see conftest.py)
from reproduce_forests import denoise, error, fit, problem

# Trained for few epochs, as in the paper.
pytestmark = [pytest.mark.paper, pytest.mark.few_epochs]


def test_unit_noise_leaves_the_raw_clustering_right():
    assert all(error(*problem(seed, 1.0)) == 0 for seed in range(10))


def test_a_linear_map_leaves_out_the_noise():
    found = [denoise(seed) for seed in range(5)]
    assert np.median([raw for raw, _ in found]) > 0.15
    steps = [500 if steps is None else steps for _, steps in found]
    assert np.median(steps) < 250


def test_digits_with_100_labels_and_three_classes_withheld():
    trial = {"learning_rate": 3e-3, "weight_decay": 1e-4}
    methods = "ours", "cross-entropy", "raw"
    found = {
        m: [fit("digits", m, trial, seed, 100, 3, "test") for seed in range(3)]
        for m in methods
    }
    clustering, probe = (
        {method: np.array([each[error] for each in found[method]]) for method in found}
        for error in ("clustering", "probe")
    )
    assert (clustering["ours"] < clustering["cross-entropy"]).all()
    assert (clustering["ours"] < clustering["raw"]).all()
    assert probe["ours"].mean() < probe["cross-entropy"].mean()
