"""The p-value of structure, candidates, and when a warning is issued."""

import re
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances

from skdiffclust import SpanningForestClustering
from skdiffclust.forests._hierarchy._null import (
    intrinsic_dimension,
)
from skdiffclust.forests._hierarchy._number import (
    falls_of,
    highest_number,
    number_by_falls,
)


def fitted(X, **parameters):
    """Return a fit with "auto", and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SpanningForestClustering("auto", **parameters).fit(X)
    assert all(issubclass(one.category, ConvergenceWarning) for one in caught)
    return model, [str(one.message) for one in caught]


def test_p_values_of_a_line_are_shares(global_random_seed):
    """Of samples without structure that the table was not made of."""
    rng = np.random.default_rng(global_random_seed)
    p = np.array(
        [fitted(rng.uniform(size=(300, 1)))[0].structure_p_value_ for _ in range(80)]
    )
    assert np.mean(p <= 0.05) <= 0.15
    assert 0.05 <= np.mean(p <= 0.2) <= 0.4
    assert len(np.unique(p)) > 20


@pytest.mark.parametrize("d", [2, 5])
def test_normal_samples_have_no_structure(d, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    found = [fitted(rng.normal(size=(200, d))) for _ in range(20)]
    p = np.array([model.structure_p_value_ for model, _ in found])
    assert np.count_nonzero(p == 1) >= 19
    said = "no cut is clear: none gains more than it costs"
    for (_, messages), value in zip(found, p, strict=True):
        assert (value < 1) or said in messages[0]


@pytest.mark.parametrize("n", [200, 1000])
def test_the_dimension_tells_lines_from_planes(n, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    ring = ring + 0.01 * rng.normal(size=(n, 2))
    assert intrinsic_dimension(ring) < 1.5
    assert intrinsic_dimension(rng.uniform(size=(n, 2))) > 1.75
    line = rng.uniform(size=(n, 1))
    assert intrinsic_dimension(line) == pytest.approx(1, abs=0.1)
    # Neither the unit nor repeated samples change it by much.
    assert intrinsic_dimension(2.0**40 * line) == intrinsic_dimension(line)
    assert intrinsic_dimension(np.repeat(line, 2, axis=0)) < 1.5
    assert intrinsic_dimension(np.zeros((30, 2))) == np.inf


def data_sets():
    """Return samples with and without structure."""
    rng = np.random.default_rng(3)
    found = [make_blobs(200, centers=k, random_state=k)[0] for k in range(2, 7)]
    found += [make_moons(150, noise=noise, random_state=0)[0] for noise in (0.05, 0.15)]
    found += [rng.uniform(size=(80, d)) for d in (1, 1, 1, 1, 2, 3)]
    corners = np.array([[0.0, 0.0], [2.3, 0.0], [60.0, 0.0], [62.3, 0.0]])
    rng = np.random.default_rng(1)
    found.append(np.concatenate([c + rng.uniform(-1, 1, (60, 2)) for c in corners]))
    found.append(np.repeat([[0.0], [5.0], [9.0]], 20, axis=0))
    return found


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_there_is_a_warning_exactly_when_it_is_said(metric):
    n_silent = n_two = 0
    for X in data_sets():
        model, messages = fitted(X, metric=metric)
        candidates = model.n_clusters_candidates_
        p = model.structure_p_value_
        assert model.n_clusters_ in candidates
        assert (np.diff(candidates) > 0).all()
        assert candidates.dtype == np.int64
        falls = falls_of(model.n_clusters_curve_["score"])
        by_falls = number_by_falls(falls[: highest_number(len(X)) - 1])
        unclear = p is not None and p > 0.05
        doubtful = len(candidates) > 1 and by_falls != model.n_clusters_
        assert len(messages) == (unclear or doubtful)
        n_silent += not messages
        if unclear:
            said = f"in {100 * p:.0f} of 100 cases" if p < 1 else "none gains more"
            assert said in messages[0]
            several = len(candidates) > 1
            assert ("see n_clusters_candidates_" in messages[0]) == several
        elif doubtful:
            n_two += 1
            others = [str(k) for k in candidates if k != model.n_clusters_]
            for k in others:
                assert re.search(rf"but .*\b{k}\b.* wins? if a cut costs", messages[0])
            assert "see n_clusters_candidates_" in messages[0]
    assert n_silent > 2
    assert n_two > 0


def test_there_is_no_p_value_where_no_null_applies():
    X = make_blobs(120, centers=3, cluster_std=0.3, random_state=0)[0]
    assert 0 < fitted(X)[0].structure_p_value_ < 0.05
    distances = pairwise_distances(X)
    for samples, parameters in (
        (X, {"metric": "manhattan"}),
        (X, {"min_samples": 3}),
        (X, {"cut_rule": "longest"}),
        (distances, {"metric": "precomputed"}),
        (csr_array(X), {}),
        (np.repeat(X[:20], 6, axis=0), {}),
    ):
        assert fitted(samples, **parameters)[0].structure_p_value_ is None
    links = SpanningForestClustering("auto").fit(X, cannot_link=[[0, 1], [2, 3]])
    assert links.structure_p_value_ is None
    given = SpanningForestClustering(3).fit(X)
    assert given.n_clusters_candidates_ is given.structure_p_value_ is None
    threshold = SpanningForestClustering(None, distance_threshold=1.0).fit(X)
    assert threshold.n_clusters_candidates_ is threshold.structure_p_value_ is None
    longest = fitted(X, cut_rule="longest")[0]
    assert longest.n_clusters_candidates_.tolist() == [longest.n_clusters_]


@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_few_samples_without_a_gain_have_the_p_value_one(n):
    model, messages = fitted(np.random.default_rng(0).normal(size=(n, 3)))
    assert model.structure_p_value_ == 1.0
    assert model.n_clusters_ > 1 or n == 1
    # Nothing could be cut in one sample, or in several equal ones.
    assert len(messages) == (n > 1)
    assert fitted(np.zeros((n, 3)))[1] == []


def test_a_cut_with_auto_is_that_of_a_fit():
    X = data_sets()[-2]
    model = SpanningForestClustering(3).fit(X)
    with pytest.warns(ConvergenceWarning, match="2 or 5 win if"):
        labels = model.cut("auto")
    assert np.array_equal(labels, fitted(X)[0].labels_)
    assert model.n_clusters_candidates_ is None
