"""SparseGEMINICV: stability and the choice by it."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from gemini_assignments import objective_of, trained
from interrupted import interrupted
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn import config_context
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdiffclust import SparseGEMINI, SparseGEMINICV
from skdiffclust.gemini import gemini_score
from skdiffclust.gemini._resampling import choose_penalty
from skdiffclust.gemini._stability import (
    cluster_stability,
    support_stability,
)

FAST = {
    "n_alphas": 6,
    "n_resamples": 3,
    "n_init": 1,
    "max_iter": 60,
    "learning_rate": 0.03,
    "random_state": 0,
}
# Where it does not matter how well the penalty is chosen.
SMALL = {**FAST, "n_alphas": 2, "n_resamples": 2}
# Nor how well the paths are solved: few steps, trained in batches.
QUICK = {**SMALL, "batch_size": 20, "max_iter": 2, "learning_rate": 0.3}
OWN = SparseGEMINICV().get_params(deep=False).keys()


def search(n_clusters=2, **params):
    """Return a SparseGEMINICV of parameters of its own and of its estimator."""
    own = {name: params.pop(name) for name in OWN & params.keys()}
    return SparseGEMINICV(SparseGEMINI(**params), n_clusters=n_clusters, **own)


def problem(seed=0):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(80, 8))
    X[:, :2] += 4 * np.repeat([-1, 1], 40)[:, None]
    return X


def test_the_informative_features_are_the_stable_ones():
    X = problem()
    stable = search(2, min_features=2, **FAST).fit(X)
    assert stable.get_support(indices=True).tolist() == [0, 1]
    assert stable.alpha_ <= stable.alphas_[-1]
    probabilities = stable.selection_probabilities_
    assert probabilities.shape == (6, 8)
    assert (probabilities[:, :2].mean(axis=0) > probabilities[:, 2:].mean()).all()
    assert_array_equal(stable.predict(X), stable.labels_)
    assert stable.transform(X).shape == (80, 2)
    again = search(2, min_features=2, **FAST).fit(X)
    assert_array_equal(again.cluster_stability_, stable.cluster_stability_)


def test_clusters_keep_the_order_of_the_first_stage():
    rng = np.random.RandomState(5)
    X = rng.normal(size=(40, 3))
    X[:, :2] += 2 * rng.choice([-1, 1, 0], 40)[:, None]
    stable = search(3, **SMALL).fit(X)
    first = np.bincount(stable.path_.labels[0])
    assert (np.diff(first) <= 0).all()
    # Not by the sizes of the chosen step.
    assert (np.diff(np.bincount(stable.labels_)) > 0).any()
    kept = stable.path_.select(alpha=stable.alpha_).labels_
    np.testing.assert_array_equal(stable.labels_, kept)


def test_a_constant_feature_beside_one_that_separates():
    """No more than `min_features` are selected without a penalty already."""
    x = problem()[:, 0]
    stable = search(2, **FAST).fit(np.column_stack([x, np.ones(len(x))]))
    assert stable.get_support(indices=True).tolist() == [0]
    assert adjusted_rand_score(np.repeat([0, 1], 40), stable.labels_) > 0.9
    # One cluster has no objective for penalties to compare with.
    alone = search(1, **FAST).fit(np.column_stack([x, np.ones(len(x))]))
    assert_array_equal(alone.labels_, 0)


def test_features_that_most_subsets_select_choose_the_step():
    labels = np.array([[0, 1]] * 4 + [[0, 0]])
    supports = np.array(
        [[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]], bool
    )
    path = SimpleNamespace(
        alphas=np.array([0.0, 1.0, 2.0, 3.0, 4.0]),
        labels=labels,
        supports=supports,
        n_features=supports.sum(axis=1),
    )
    # At the first penalty, the path on all samples has three features and the subsets
    # always select the same two; at the second, they agree on nothing.
    alphas = np.array([1.0, 3.0])
    given = np.ones(2), np.array([1.0, 0.0])
    probabilities = np.array([[1, 1, 0, 0], [0.25] * 4])
    assert choose_penalty(path, alphas, *given, probabilities) == (0, 1.0, 2.0)
    # The step without a penalty, which has the same features, is not chosen.
    probabilities[0] = 1
    assert choose_penalty(path, alphas, *given, probabilities) == (0, 1.0, 1.0)
    # Clusters count half as much as features.
    of_clusters, of_features = np.array([0.5, 1.0]), np.array([0.8, 0.6])
    found = choose_penalty(path, alphas, of_clusters, of_features, probabilities)
    assert found[1] == 3.0
    of_clusters[0] = 0.6
    found = choose_penalty(path, alphas, of_clusters, of_features, probabilities)
    assert found[1] == 1.0
    # Without features there is nothing to choose.
    path.n_features[:] = 0
    assert choose_penalty(path, alphas, *given, probabilities) == (0, 0.0, 0.0)


def test_a_scaled_gamma_is_that_of_the_score():
    X = problem()
    stable = search(2, kernel="rbf", gamma="scale", **FAST).fit(X)
    assert_allclose(stable.estimator_.gamma_, 1 / X.var(axis=0).sum())
    value = gemini_score(trained(stable.estimator_, X), X, kernel="rbf", gamma="scale")
    assert_allclose(objective_of(stable.estimator_, X), value)
    # The scale is that of the samples of the fit.
    assert objective_of(stable.estimator_, X[:5]) >= 0


@pytest.mark.parametrize("params", [{}, {"batch_size": 20}], ids=str)
@pytest.mark.few_epochs
def test_the_path_of_all_samples_is_that_of_the_estimator(params):
    X = problem()[8:72]  # weights of 1 / 64 have an exact sum
    stable = search(2, **{**QUICK, "batch_size": None, **params}).fit(X)
    path = clone(stable.estimator_).path(X, min_features=1)
    assert len(path) == len(stable.path_) > 2
    for step, expected in zip(path.steps, stable.path_.steps, strict=True):
        assert step.alpha == expected.alpha
        for array, other in zip(step.weights, expected.weights, strict=True):
            assert_array_equal(array, other)


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


def test_a_subset_with_fewer_rows_than_clusters_is_refused():
    with pytest.raises(ValueError, match="must keep at least n_clusters=3 of the 80 s"):
        search(3, sample_fraction=0.02, **FAST).fit(problem())


def test_errors_name_the_search_and_not_the_estimator_that_it_wraps():
    X = problem()
    with pytest.raises(ValueError, match="n_samples=80. Got 81") as error:
        search(81, **QUICK).fit(X)
    assert "SparseGEMINICV" in str(error.value)
    with pytest.raises(ValueError, match="required by SparseGEMINICV"):
        search(2, **QUICK).fit(X[:, :0])
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="SparseGEMINICV does not accept missing"):
        search(2, **QUICK).fit(X)


# The whole fit reports that it found fewer clusters.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_concurrent_fits_leave_the_filters_of_warnings_alone():
    X = problem()[::2]
    before = list(warnings.filters)

    def run(seed):
        # Three clusters are too many, which the paths of subsets would report as well.
        search(3, min_features=2, **QUICK | {"random_state": seed}).fit(X)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(run, range(3)))
    assert warnings.filters == before


# ------------------------------------------------------------------ candidates


def three_clusters(seed=0):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(90, 8))
    X[:, :2] += 6 * np.array([[0, 0], [1, 0], [0, 1]])[np.arange(90) % 3]
    return X


@pytest.fixture(scope="module")
def three():
    """Return what is fitted to `three_clusters`, which no test may change."""
    return search(3, mode="ovo", **FAST).fit(three_clusters())


def test_the_number_is_chosen_with_the_penalty(three):
    X = three_clusters()
    stable = search([2, 3, 4], mode="ovo", **FAST)
    before = stable.get_params()
    stable.fit(X)
    assert stable.get_params() == before
    assert stable.n_clusters_ == 3
    assert adjusted_rand_score(stable.labels_, np.arange(90) % 3) > 0.95
    assert_array_equal(stable.n_clusters_curve_["n_clusters"], np.arange(2, 10))
    # As if this number had been given.
    alone = three
    assert_array_equal(alone.cluster_stability_, stable.cluster_stability_)
    assert_array_equal(alone.estimator_.coefs_[0], stable.estimator_.coefs_[0])
    assert objective_of(alone.estimator_, X) == objective_of(stable.estimator_, X)
    assert objective_of(stable.path_.select(alpha=stable.alpha_), X) == objective_of(
        stable.estimator_, X
    )
    # Bounds, and the features that are stable, by their definitions.
    share = stable.selection_probabilities_
    bounds = share.sum(axis=1) ** 2 / (0.8 * 8)
    assert_allclose(stable.false_selections_, bounds)
    step = np.flatnonzero(stable.alphas_ == stable.stable_alpha_)[0]
    assert_array_equal(stable.stable_features_, share[step] >= 0.9)


def test_samples_between_clusters_are_uncertain():
    # A third of the distance: the clusters overlap.
    X = three_clusters()
    X[:, :2] -= 4 * np.array([[0, 0], [1, 0], [0, 1]])[np.arange(90) % 3]
    stable = search(3, mode="ovo", **FAST).fit(X)
    ordered = np.sort(stable.predict_proba(X), axis=1)
    is_near = ordered[:, -1] - ordered[:, -2] < 0.3
    found = stable.uncertainty_
    assert found.shape == (90,)
    assert 5 < is_near.sum() < 85
    assert found[is_near].mean() > found[~is_near].mean()


def with_outliers():
    """Return samples of which the last ten are far away, and weights of zero there."""
    X = np.vstack([three_clusters(), 40 + three_clusters(1)[:10]])
    return X, np.repeat([1.0, 0.0], [90, 10])


def test_samples_of_weight_zero_count_for_nothing(three):
    X, weight = with_outliers()
    stable = search(3, mode="ovo", **FAST).fit(X, sample_weight=weight)
    without = three
    assert_array_equal(stable.predict(X[:90]), without.labels_)
    for name in ("alphas_", "cluster_stability_", "support_stability_"):
        assert_allclose(getattr(stable, name), getattr(without, name), rtol=1e-6)
    assert_allclose(stable.uncertainty_[:90], without.uncertainty_, atol=1e-12)
    assert stable.uncertainty_.shape == (100,)
    # The unit of weights has no effect, but weights have.
    half = search(3, mode="ovo", **FAST).fit(X, sample_weight=weight / 2)
    assert_allclose(half.cluster_stability_, stable.cluster_stability_, rtol=1e-9)
    weight[:30] = 5
    other = search(3, mode="ovo", **FAST).fit(X, sample_weight=weight)
    assert not np.allclose(other.cluster_stability_, stable.cluster_stability_)
    with pytest.raises(ValueError, match="positive weight.*n_samples=1. Got 3"):
        stable.fit(X, sample_weight=np.arange(100) == 3)
    with pytest.raises(ValueError, match="leave at least one of the 4 samples"):
        stable.set_params(n_clusters=2, sample_fraction=0.9).fit(X[:4])


def test_links_decide_where_clusters_are():
    # Two clusters of the four are one: the pairs that are said, not the near ones.
    rng = np.random.RandomState(0)
    y = np.arange(60) % 4
    X = rng.normal(size=(60, 6))
    X[:, :2] += 8 * np.array([[0, 0], [0, 1], [2, 0], [2, 1]])[y]
    wanted = y % 2
    stable = search(2, mode="ovo", **SMALL | {"n_init": 2})
    assert adjusted_rand_score(stable.fit(X).labels_, y // 2) == 1
    known = np.where(np.arange(60) % 3, wanted, -1)
    assert adjusted_rand_score(stable.fit(X, partial_labels=known).labels_, wanted) == 1
    # It is the other feature that subsets select.
    share = stable.selection_probabilities_[stable.alphas_ >= stable.stable_alpha_][0]
    assert share[1] == 1
    ends = [np.flatnonzero(y == label)[:10] for label in range(4)]
    must_link = np.vstack([np.c_[ends[0], ends[2]], np.c_[ends[1], ends[3]]])
    cannot_link = np.c_[ends[0], ends[1]]
    stable.fit(X, must_link=must_link, cannot_link=cannot_link)
    assert adjusted_rand_score(stable.labels_, wanted) == 1
    with pytest.raises(ValueError, match="must be at least 2, the number of classes"):
        stable.set_params(n_clusters=1).fit(X, partial_labels=known)


@pytest.mark.few_epochs
@pytest.mark.parametrize("numbers, found", [([1, 3], 3), ([2, 4], 4), ([2, 3, 9], 3)])
def test_numbers_that_links_exclude_are_not_chosen(numbers, found):
    X = np.random.RandomState(0).normal(size=(40, 3))
    known = np.where(np.arange(40) < 6, np.arange(40) // 2, -1)
    stable = search(numbers, **QUICK)
    with pytest.warns(ConvergenceWarning, match="separates 1 groups"):
        stable.fit(X, partial_labels=known)
    assert stable.path_.template.n_clusters == found
    groups = np.where(np.arange(40) < 38, 0, np.arange(40))
    with pytest.raises(ValueError, match="at most 3, the number of groups"):
        search([4, 5], **SMALL).fit(X, must_link=groups)


def test_subsets_select_what_the_weights_say():
    # The two features separate clusters of the first and the second half.
    rng = np.random.RandomState(0)
    X = rng.normal(size=(40, 4))
    X[:20, 0] += 8 * (np.arange(20) % 2)
    X[20:, 1] += 8 * (np.arange(20) % 2)
    for feature, weights in (0, [1, 1e-3]), (1, [1e-3, 1]):
        stable = search(2, **SMALL).fit(X, sample_weight=np.repeat(weights, 20))
        first = stable.selection_probabilities_[:, :2]
        assert (first[:, feature] == 1).all()
        assert first[-1, 1 - feature] == 0


def test_a_subset_that_loses_its_links_is_named():
    X = np.random.RandomState(0).normal(size=(40, 3))
    groups = np.where(np.arange(40) < 38, 0, np.arange(40))
    with pytest.raises(ValueError, match="Subset [12] of 2 .* must be at most 2"):
        search(3, **SMALL).fit(X, must_link=groups)


@pytest.mark.few_epochs
@config_context(enable_metadata_routing=True)
def test_weights_are_routed_to_fit_and_score():
    X = three_clusters()[:45]
    weights = np.random.RandomState(0).choice([1.0, 3.0], size=45)
    stable = search(**QUICK)
    stable.estimator.set_fit_request(sample_weight=True)
    stable.estimator.set_score_request(sample_weight=True)
    direct = clone(stable).fit(X, sample_weight=weights)
    pipe = make_pipeline(FunctionTransformer(), stable)
    pipe.fit(X, sample_weight=weights)
    assert_array_equal(
        pipe[-1].selection_probabilities_, direct.selection_probabilities_
    )
    score = pipe.score(X, sample_weight=weights)
    assert score == direct.score(X, sample_weight=weights)
    assert score != direct.score(X)
    routing = SparseGEMINICV().get_metadata_routing()
    routing.validate_metadata(method="score", params={"sample_weight": weights})


# Processes take seconds to start and to load what they need.
@pytest.mark.parametrize(
    "backend", ["threading", pytest.param("loky", marks=pytest.mark.full)]
)
def test_workers_change_nothing(backend, three):
    one = three
    with parallel_config(backend=backend):
        two = search(3, mode="ovo", n_jobs=2, **FAST).fit(three_clusters())
    assert_array_equal(two.selection_probabilities_, one.selection_probabilities_)
    assert_array_equal(two.cluster_stability_, one.cluster_stability_)
    assert_array_equal(two.estimator_.coefs_[0], one.estimator_.coefs_[0])


@pytest.mark.few_epochs
def test_a_fit_goes_on_from_its_checkpoint(tmp_path):
    X = three_clusters()
    stable = search([2, 3], mode="ovo", **QUICK | {"n_resamples": 3})
    whole = clone(stable).fit(X)
    interrupted(lambda: stable.fit(X, checkpoint=tmp_path), 2)
    assert not hasattr(stable, "labels_")
    stable.fit(X, checkpoint=tmp_path, resume=True)
    assert_array_equal(stable.cluster_stability_, whole.cluster_stability_)
    assert_array_equal(stable.selection_probabilities_, whole.selection_probabilities_)
    assert_array_equal(stable.estimator_.coefs_[0], whole.estimator_.coefs_[0])
    for other in (
        {"X": X + 1e-3},
        {"X": X, "sample_weight": np.linspace(1, 2, len(X))},
    ):
        with pytest.raises(ValueError, match="checkpoint"):
            stable.fit(**other, checkpoint=tmp_path, resume=True)
    with pytest.raises(ValueError, match="'random_state' parameter of SparseGEMINICV"):
        stable.set_params(random_state=None).fit(X, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="must be a folder with resume=True"):
        stable.fit(X, resume=True)


def test_callbacks_of_the_inner_estimator_watch_its_path():
    X = problem()
    monitor = ScoringMonitor(scoring={"own": lambda model, X, y: model.score(X)})
    stable = search(2, **FAST)
    stable.estimator.set_callbacks(monitor)
    watched = stable.fit(X)
    logs = monitor.get_logs().data
    assert np.sum(["own" in row for row in logs]) >= len(watched.path_)
    plain = search(2, **FAST).fit(X)
    assert_array_equal(plain.labels_, watched.labels_)
    assert_array_equal(plain.cluster_stability_, watched.cluster_stability_)
    assert "_callback_fit_ctx" not in vars(watched.path_.template)


def test_a_callback_of_the_inner_estimator_may_end_its_path():
    stable = search(2, **FAST)
    stable.estimator.set_callbacks(Stop())
    assert len(stable.fit(problem()).path_) == 1


class Stop:
    """A callback that asks to stop after each task."""

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        return True

    def teardown(self, estimator, context):
        pass


# ------------------------------------------------------------------ a number by chance


def test_the_number_is_found_with_the_features(three):
    X = three_clusters()
    stable = search("auto", mode="ovo", **FAST)
    before = stable.get_params()
    stable.fit(X)
    assert stable.get_params() == before
    assert stable.n_clusters_ == 3
    assert adjusted_rand_score(stable.labels_, np.arange(90) % 3) > 0.95
    assert_array_equal(stable.n_clusters_curve_["n_clusters"], np.arange(2, 10))
    # As if this number had been given.
    alone = three
    assert alone.n_clusters_curve_ is None
    assert_array_equal(alone.estimator_.coefs_[0], stable.estimator_.coefs_[0])
    assert_array_equal(alone.uncertainty_, stable.uncertainty_)
    other = search("auto", mode="ovo", **FAST).fit(X * 2.0**20)
    assert_array_equal(other.labels_, stable.labels_)


def test_a_stable_half_of_the_clusters_is_not_preferred():
    # Four clusters in two far pairs: two clusters are as stable as four are.
    rng = np.random.RandomState(0)
    y = np.arange(120) % 4
    X = rng.normal(size=(120, 8))
    X[:, :2] += np.array([[0, 0], [0, 7], [30, 0], [30, 7]])[y]
    stable = search([2, 4], mode="ovo", **FAST).fit(X)
    assert stable.n_clusters_ == 4
    assert adjusted_rand_score(stable.labels_, y) > 0.95
    # The largest one up to the number that was counted.
    assert search([2, 3, 8], mode="ovo", **SMALL).fit(X).n_clusters_ == 3


def test_no_number_is_chosen_by_distances():
    X = three_clusters()[::3]
    for n_clusters in ("auto", [2, 3]):
        stable = search(n_clusters, objective="wasserstein", **SMALL)
        with pytest.raises(ValueError, match="an integer with distances in place of"):
            stable.fit(X, precomputed=cdist(X, X))


def test_clusters_are_counted_by_a_precomputed_kernel():
    X = three_clusters()
    stable = search([2, 3], mode="ovo", **SMALL).fit(X, precomputed=X @ X.T)
    assert stable.n_clusters_ == 3
    assert search("auto", **SMALL).fit(X, precomputed=X @ X.T).n_clusters_ == 3


def noise(kind, rng):
    """Return samples without clusters."""
    if kind == "t":
        return rng.standard_t(3, size=(80, 12))
    X = rng.normal(size=(80, 12))
    if kind == "0 and 1":
        return 1.0 * (X > 0.5)
    if kind == "blocks":
        X += 1.5 * np.repeat(rng.normal(size=(80, 3)), 4, axis=1)
    return X


@pytest.mark.few_epochs
@pytest.mark.parametrize(
    ("kind", "n_clusters"),
    [("normal", 2), ("blocks", 3), ("t", 2), ("0 and 1", 2)],
)
def test_no_structure_is_said_whatever_the_number_is(kind, n_clusters):
    X = noise(kind, np.random.RandomState(2))
    with pytest.warns(ConvergenceWarning, match="sees no more structure .* agree by"):
        found = search(n_clusters, **QUICK).fit(X)
    structure = found.structure_test_
    assert len(structure["null_distribution"]) == 19
    assert structure["statistic"] <= max(structure["null_distribution"].max(), 5)
    # One cluster needs no features.
    one = search([1, n_clusters], **QUICK).fit(X)
    assert one.n_clusters_ == 1
    assert not one.get_support().any()
    assert not one.stable_features_.any()


@pytest.mark.few_epochs
@pytest.mark.parametrize(
    ("form", "sizes"),
    [
        ("plain", (105, 15)),
        ("standardised", (105, 15)),
        ("sparse", (40, 40, 40)),
    ],
)
def test_structure_is_seen_whatever_the_sizes_are(form, sizes):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(120, 23))
    X[:, :3] += np.repeat(6 * np.eye(3)[: len(sizes)], sizes, axis=0)
    if form == "standardised":
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    # Two clusters of three are structure as well.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = search(2, **QUICK).fit(csr_array(X) if form == "sparse" else X)
    messages = [str(warning.message) for warning in caught]
    assert not any("sees no more structure" in message for message in messages)
    assert found.structure_test_["statistic"] > max(
        found.structure_test_["null_distribution"]
    )
    if min(sizes) < 40 and np.bincount(found.labels_).min() > 40:
        assert any("other clusters than k-means" in message for message in messages)


@pytest.mark.few_epochs
@pytest.mark.parametrize("n_groups", [2, 4])
def test_groups_along_one_line_are_structure(n_groups, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(40 * n_groups, 7))
    X[:, :2] += 6 * (np.arange(len(X))[:, None] % n_groups)
    found = search(n_groups, **SMALL).fit(X).structure_test_
    assert found["statistic"] > max(found["null_distribution"].max(), 5)


@pytest.mark.few_epochs
@pytest.mark.parametrize("varies_more", ["clusters", "noise"])
def test_selected_features_without_structure_are_warned_of(varies_more):
    # The features of the noise are the same but for small differences.
    rng = np.random.RandomState(0)
    X = rng.normal(size=(120, 8))
    X[:, :2] += 6 * (np.arange(120)[:, None] % 2)
    X[:, 2:] += (9 if varies_more == "noise" else 0) * rng.normal(size=(120, 1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = search(2, **SMALL).fit(X)
    assert found.structure_test_["statistic"] > max(
        found.structure_test_["null_distribution"].max(), 5
    )
    selects_noise = not found.get_support()[:2].any()
    assert selects_noise == (varies_more == "noise")
    messages = [str(warning.message) for warning in caught]
    is_warned = any("more structure than a Gaussian, although" in m for m in messages)
    assert is_warned == selects_noise


@pytest.mark.few_epochs
def test_structure_is_not_looked_for_where_it_is_not_that_of_features():
    X = problem()
    for params, known in (({"kernel": "rbf"}, {}), ({}, {"precomputed": X @ X.T})):
        found = search(2, **QUICK, **params).fit(X, **known)
        assert not hasattr(found, "structure_test_")
    transport = search(2, objective="wasserstein", **(SMALL | {"max_iter": 2}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert "statistic" in transport.fit(X[::4]).structure_test_


def test_numbers_of_clusters_of_equal_and_of_huge_samples(global_random_seed):
    X = np.random.RandomState(global_random_seed).normal(size=(60, 4))
    X[:, :2] += 9 * (np.arange(60)[:, None] % 2)
    stable = SparseGEMINICV(
        n_clusters="auto", n_alphas=3, n_resamples=2, random_state=0
    )
    expected = clone(stable).fit(X)
    assert expected.n_clusters_ == 2
    # A power of two: not even rounding differs, nor is there an overflow.
    huge = clone(stable).fit(X * 2.0**330)
    assert_array_equal(huge.labels_, expected.labels_)
    assert huge.structure_test_["statistic"] == expected.structure_test_["statistic"]
    assert clone(stable).fit(np.full((20, 3), 2.5)).n_clusters_ == 1
