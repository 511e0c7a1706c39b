"""SparseGEMINICV: what is stable, and what is chosen."""

import ast
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from skdiffclust import SparseGEMINICV
from skdiffclust._history import reported_by_the_whole, warn_of_convergence
from skdiffclust.gemini._sparse_gemini_cv import cluster_stability, support_stability

FAST = {
    "n_alphas": 6,
    "n_resamples": 3,
    "n_init": 1,
    "max_iter": 60,
    "learning_rate": 0.03,
    "random_state": 0,
}


def problem(seed=0):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(80, 8))
    X[:, :2] += 4 * np.repeat([-1, 1], 40)[:, None]
    return X


def test_the_informative_features_are_the_stable_ones():
    X = problem()
    stable = SparseGEMINICV(2, min_features=2, **FAST).fit(X)
    assert stable.get_support(indices=True).tolist() == [0, 1]
    assert stable.alpha_ <= stable.alphas_[-1]
    probabilities = stable.selection_probabilities_
    assert probabilities.shape == (6, 8)
    assert (probabilities[:, :2].mean(axis=0) > probabilities[:, 2:].mean()).all()
    assert_array_equal(stable.predict(X), stable.labels_)
    assert stable.transform(X).shape == (80, 2)
    again = SparseGEMINICV(2, min_features=2, **FAST).fit(X)
    assert_array_equal(again.cluster_stability_, stable.cluster_stability_)


def test_stabilities_of_known_cases(global_random_seed):
    same = np.tile([[0, 0, 1, 1]], (3, 1, 1))
    assert_allclose(cluster_stability(same), [1.0])
    assert_allclose(cluster_stability(np.zeros((3, 1, 4), int)), [0.0])
    kept = np.tile([[True, False, False]], (4, 1, 1))
    assert_allclose(support_stability(kept), [1.0])
    assert_allclose(support_stability(np.ones((4, 1, 3), bool)), [0.0])
    rng = np.random.RandomState(global_random_seed)
    chance = rng.uniform(size=(200, 1, 50)) < 0.3
    assert abs(support_stability(chance)[0]) < 0.02


def test_a_path_of_no_step_is_refused():
    with pytest.raises(ValueError, match="'min_features' parameter of SparseGEMINICV"):
        SparseGEMINICV(2, min_features=8, **FAST).fit(problem())


def test_a_subset_with_fewer_rows_than_clusters_is_refused():
    with pytest.raises(ValueError, match="must keep at least n_clusters=3 of the 80 r"):
        SparseGEMINICV(3, sample_fraction=0.02, **FAST).fit(problem())


# The whole fit reports that it found fewer clusters.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_concurrent_fits_leave_the_filters_of_warnings_alone():
    X = problem()
    before = list(warnings.filters)

    def run(seed):
        # Three clusters are too many, which the paths of subsets would report as well.
        SparseGEMINICV(3, min_features=2, **FAST | {"random_state": seed}).fit(X)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))
    assert warnings.filters == before


def test_no_fit_changes_the_filters_of_warnings():
    package = Path(__file__).resolve().parents[2] / "skdiffclust"
    for file in package.rglob("*.py"):
        names = {
            node.attr
            for node in ast.walk(ast.parse(file.read_text("utf-8")))
            if isinstance(node, ast.Attribute)
        }
        assert not names & {"catch_warnings", "simplefilter", "filterwarnings"}, file


def test_the_parts_of_a_fit_leave_its_warnings_to_the_whole():
    with reported_by_the_whole():
        warn_of_convergence("not seen")  # else an error, here
        with ThreadPoolExecutor(1) as pool, pytest.raises(ConvergenceWarning):
            pool.submit(warn_of_convergence, "seen: another thread").result()
    with pytest.warns(ConvergenceWarning, match="seen again"):
        warn_of_convergence("seen again")
