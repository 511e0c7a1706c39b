"""SparseGEMINICV: stability and the choice by it."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from gemini_assignments import Ending, objective_of, trained
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdiffclust import SparseGEMINI, SparseGEMINICV
from skdiffclust.gemini import gemini_score

FAST = {
    "n_alphas": 6,
    "n_resamples": 3,
    "n_init": 1,
    "max_iter": 60,
    "learning_rate": 0.03,
    "random_state": 0,
    # The features themselves; the structure of their space is not tested.
    "kernel": FunctionTransformer(),
}
# Where it does not matter how well the penalty is chosen.
SMALL = {**FAST, "n_alphas": 2, "n_resamples": 2}
# Nor how well the paths are solved: few steps, trained in batches.
QUICK = {**SMALL, "batch_size": 20, "max_iter": 2, "learning_rate": 0.3}
# The structure of features is tested, which takes most of the time.
FEATURES = {"kernel": "linear"}
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


def three_clusters(seed=0):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(90, 8))
    X[:, :2] += 6 * np.array([[0, 0], [1, 0], [0, 1]])[np.arange(90) % 3]
    return X


@pytest.fixture(scope="module")
def two():
    """Return what is fitted to `problem`, which no test may change."""
    return search(2, **FAST).fit(problem())


@pytest.fixture(scope="module")
def three():
    """Return what is fitted to `three_clusters`, which no test may change."""
    return search(3, mode="ovo", **FAST).fit(three_clusters())


def assert_same(found, expected):
    """Compare what subsets and the path of all samples have found."""
    assert found.n_clusters_ == expected.n_clusters_
    for name in ("cluster_stability_", "selection_probabilities_", "uncertainty_"):
        assert_array_equal(getattr(found, name), getattr(expected, name))
    assert_array_equal(found.estimator_.coefs_[0], expected.estimator_.coefs_[0])


@pytest.mark.parametrize("name", ["two", "three"])
def test_the_most_stable_penalty_is_chosen(name, request):
    found = request.getfixturevalue(name)
    path, alphas = found.path_, found.alphas_
    n_clusters = np.array([len(set(labels)) for labels in path.labels])
    is_whole = (n_clusters == n_clusters[0]) & (path.n_features > 0)
    steps = [np.flatnonzero(path.alphas <= alpha).max() for alpha in alphas]
    roots = np.sqrt(found.cluster_stability_.clip(0))
    best = np.argmax(np.where(is_whole[steps], roots * found.support_stability_, -1))
    assert found.stable_alpha_ == alphas[best]
    # The step whose features are closest to those that most subsets select.
    shares = found.selection_probabilities_
    n_other = np.count_nonzero(path.supports != (shares[best] >= 0.5), axis=1)
    is_whole[: steps[0]] = False  # the step without a penalty is not judged
    assert found.alpha_ == path.alphas[is_whole][np.argmin(n_other[is_whole])]
    assert found.get_support(indices=True).tolist() == [0, 1]
    # Bounds, and the features that are stable, by their definitions.
    assert_array_equal(found.stable_features_, shares[best] >= 0.9)
    bounds = shares.sum(axis=1) ** 2 / (0.8 * 8)
    assert_allclose(found.false_selections_, bounds)


def test_what_is_fitted(two):
    X = problem()
    assert_array_equal(two.predict(X), two.labels_)
    assert two.transform(X).shape == (80, 2)
    assert_same(search(2, **FAST).fit(X), two)


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


def test_a_scaled_gamma_is_that_of_the_score():
    X = problem()
    stable = search(2, **FAST | {"kernel": "rbf", "gamma": "scale"}).fit(X)
    assert_allclose(stable.estimator_.gamma_, 1 / X.var(axis=0).sum())
    value = gemini_score(trained(stable.estimator_, X), X, kernel="rbf", gamma="scale")
    assert_allclose(objective_of(stable.estimator_, X), value)
    # The scale is that of the samples of the fit.
    assert objective_of(stable.estimator_, X[:5]) >= 0
    stable.set_params(estimator__kernel="linear", estimator__gamma=None).fit(X)
    assert not hasattr(stable.estimator_, "gamma_")


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


X = problem()


@pytest.mark.parametrize(
    "params, X, known, message",
    [
        ({"n_clusters": []}, X, {}, "'n_clusters' parameter of SparseGEMINICV must"),
        ({"n_clusters": [2, 0]}, X, {}, "'n_clusters' parameter of SparseGEMINICV"),
        ({"n_clusters": 81}, X, {}, "of SparseGEMINICV .* n_samples=80. Got 81"),
        ({"min_features": 8}, X, {}, "'min_features' parameter of SparseGEMINICV"),
        (
            {"n_clusters": 3, "sample_fraction": 0.02},
            X,
            {},
            "must keep at least n_clusters=3 of the 80 samples",
        ),
        ({"sample_fraction": 0.9}, X[:4], {}, "leave at least one of the 4 samples"),
        (
            {"n_clusters": 3},
            X,
            {"sample_weight": np.arange(80) == 3},
            "positive weight.*n_samples=1. Got 3",
        ),
        ({}, X[:, :0], {}, "required by SparseGEMINICV"),
        ({}, X * np.nan, {}, "SparseGEMINICV does not accept missing"),
        (
            {"n_clusters": [2, 3], "objective": "wasserstein"},
            X,
            {"precomputed": np.ones((80, 80))},
            "an integer with distances in place of",
        ),
        (
            {"n_clusters": 3},
            X[:40],
            {"must_link": np.arange(40) * (np.arange(40) > 37)},
            "Subset [12] of 2 .* must be at most 2",
        ),
        (
            {"n_clusters": [4, 5], "kernel": "linear"},
            X[:40],
            {"must_link": np.arange(40) * (np.arange(40) > 37)},
            "at most 3, the number of groups",
        ),
    ],
)
def test_what_is_refused_is_named(params, X, known, message):
    with pytest.raises(ValueError, match=message):
        search(**SMALL | params).fit(X, **known)


def test_one_warning_of_all_paths():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search(2, **QUICK).fit(problem())
    messages = [str(warning.message) for warning in caught]
    (message,) = [each for each in messages if "did not converge" in each]
    assert message.startswith("SparseGEMINICV")


def test_no_fit_changes_the_filters_of_warnings():
    package = Path(__file__).resolve().parents[2] / "skdiffclust"
    changes = re.compile(r"\.(catch_warnings|simplefilter|filterwarnings)\b")
    files = {
        file.name
        for file in package.rglob("*.py")
        if changes.search(file.read_text("utf-8"))
    }
    # It fits the estimators of others, and says so.
    assert files == {"model_selection.py"}


# ------------------------------------------------------------------ candidates


@pytest.mark.parametrize("n_clusters", [[2, 3, 4], "auto"])
def test_the_number_is_found_with_the_features(n_clusters, three):
    X = three_clusters()
    stable = search(n_clusters, mode="ovo", **FAST)
    before = stable.get_params()
    stable.fit(X)
    assert stable.get_params() == before
    assert stable.n_clusters_ == 3
    assert adjusted_rand_score(stable.labels_, np.arange(90) % 3) > 0.95
    assert_array_equal(stable.n_clusters_curve_["n_clusters"], np.arange(2, 10))
    # As if this number had been given.
    assert three.n_clusters_curve_ is None
    assert_same(stable, three)
    assert_array_equal(stable.fit(X * 2.0**20).labels_, three.labels_)


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


def test_samples_of_weight_zero_count_for_nothing(three):
    X = np.vstack([three_clusters(), 40 + three_clusters(1)[:10]])
    weight = np.repeat([0.5, 0.0], [90, 10])  # whose unit has no effect
    stable = search(3, mode="ovo", **FAST).fit(X, sample_weight=weight)
    assert_array_equal(stable.predict(X[:90]), three.labels_)
    for name in ("alphas_", "cluster_stability_", "support_stability_"):
        assert_allclose(getattr(stable, name), getattr(three, name), rtol=1e-6)
    assert_allclose(stable.uncertainty_[:90], three.uncertainty_, atol=1e-12)
    weight[:30] = 5
    other = stable.cluster_stability_
    stable.fit(X, sample_weight=weight)
    assert not np.allclose(stable.cluster_stability_, other)


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
    stable = search(numbers, **QUICK | FEATURES)
    with pytest.warns(ConvergenceWarning, match="separates 1 groups"):
        stable.fit(X, partial_labels=known)
    assert stable.path_.template.n_clusters == found


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
    candidates = {"sparsegeminicv__n_clusters": [2, 3]}
    found = GridSearchCV(pipe, candidates, cv=2, error_score="raise")
    found.fit(X, sample_weight=weights)
    assert np.isfinite(found.best_score_)
    routing = SparseGEMINICV().get_metadata_routing()
    routing.validate_metadata(method="score", params={"sample_weight": weights})


@pytest.mark.few_epochs
@pytest.mark.filterwarnings(
    "ignore:SparseGEMINICV separates:sklearn.exceptions.ConvergenceWarning"
)
@pytest.mark.parametrize("n_clusters", [3, "auto"])
def test_a_fit_goes_on_from_its_checkpoint(n_clusters, tmp_path):
    X = three_clusters()[:45]
    stable = search(n_clusters, mode="ovo", **QUICK | {"n_resamples": 3})
    given = {
        "sample_weight": np.linspace(1, 2, 45),
        "partial_labels": np.where(np.arange(45) < 9, np.arange(45) % 3, -1),
    }
    counter = Ending(10**9)
    whole = clone(stable).set_callbacks(counter).fit(X, **given)
    files = tmp_path / "c"
    # The last subset's epoch, the subset, and the fit are tasks.
    stable.set_callbacks(Ending(10**9 - counter.n_left - 3, KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        stable.fit(X, **given, checkpoint=files)
    assert not hasattr(stable, "labels_")
    n_files = len(list(files.glob("*.npz")))
    stable.set_callbacks().fit(X, **given, checkpoint=files, resume=True)
    assert_same(stable, whole)
    assert 1 < n_files <= len(list(files.glob("*.npz")))
    for name in given:
        other = {key: value for key, value in given.items() if key != name}
        with pytest.raises(ValueError, match="checkpoint"):
            stable.fit(X, **other, checkpoint=files, resume=True)
    with pytest.raises(ValueError, match="checkpoint"):
        stable.fit(X + 1e-3, **given, checkpoint=files, resume=True)
    with pytest.raises(ValueError, match="'random_state' parameter of SparseGEMINICV"):
        stable.set_params(random_state=None).fit(X, checkpoint=files)


# Processes take seconds to start and to load what they need.
@pytest.mark.parametrize(
    "backend", ["threading", pytest.param("loky", marks=pytest.mark.full)]
)
def test_workers_change_nothing(backend, three):
    with parallel_config(backend=backend):
        found = search(3, mode="ovo", n_jobs=2, **FAST).fit(three_clusters())
    assert_same(found, three)


def test_callbacks_of_the_inner_estimator_watch_its_path(two):
    monitor = ScoringMonitor(scoring={"own": lambda model, X, y: model.score(X)})
    watched = search(2, **FAST)
    watched.estimator.set_callbacks(monitor)
    watched.fit(problem())
    logs = monitor.get_logs().data
    assert np.sum(["own" in row for row in logs]) >= len(watched.path_)
    assert_same(watched, two)
    assert "_callback_fit_ctx" not in vars(watched.path_.template)


def test_callbacks_may_end_the_path_or_the_subsets():
    ended = search(2, **FAST)
    ended.estimator.set_callbacks(Ending(1))
    assert len(ended.fit(problem()).path_) == 1
    # Two subsets are needed to be compared.
    ended = search(2, **FAST).set_callbacks(Ending(1)).fit(problem())
    assert set(np.unique(ended.selection_probabilities_)) <= {0, 0.5, 1}
    assert_array_equal(ended.predict(problem()), ended.labels_)


# ------------------------------------------------------------------ a number by chance


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


def test_one_gaussian_has_no_clear_number():
    X = np.random.RandomState(1).normal(size=(90, 4)) * [1, 3, 1, 1]
    with pytest.warns(ConvergenceWarning, match="SparseGEMINICV sees no more struct"):
        search("auto", mode="ovo", **SMALL | FEATURES).fit(X)
    # Where it is allowed, one cluster is found, and no warning is needed.
    one = search([1, 2, 3], mode="ovo", **SMALL | FEATURES).fit(X)
    assert one.n_clusters_ == 1
    assert_array_equal(one.labels_, 0)
    assert_array_equal(one.uncertainty_, 0)
    clear = search([1, 2, 3], mode="ovo", **SMALL | FEATURES).fit(three_clusters())
    assert clear.n_clusters_ == 3
    assert search([1, 1], **SMALL | FEATURES).fit(three_clusters()).n_clusters_ == 1


def test_clusters_are_counted_by_a_precomputed_kernel():
    X = three_clusters()
    stable = search([2, 3], mode="ovo", **SMALL | FEATURES).fit(X, precomputed=X @ X.T)
    assert stable.n_clusters_ == 3
    assert (
        search("auto", **SMALL | FEATURES).fit(X, precomputed=X @ X.T).n_clusters_ == 3
    )


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
    [("normal", 2), ("blocks", 3), ("t", 2), ("normal", 3), ("0 and 1", 2)],
)
def test_no_structure_is_said_whatever_the_number_is(kind, n_clusters):
    X = noise(kind, np.random.RandomState(2))
    with pytest.warns(ConvergenceWarning, match="sees no more structure .* agree by"):
        found = search(n_clusters, **QUICK | FEATURES).fit(X)
    structure = found.structure_test_
    assert len(structure["null_distribution"]) == 19
    assert structure["statistic"] <= max(structure["null_distribution"].max(), 5)
    # One cluster needs no features.
    one = search([1, n_clusters], **QUICK | FEATURES).fit(X)
    assert one.n_clusters_ == 1
    assert not one.get_support().any()
    assert not one.stable_features_.any()


@pytest.mark.few_epochs
@pytest.mark.parametrize("sizes", [(40, 40, 40), (105, 15)])
@pytest.mark.parametrize("form", ["plain", "standardised", "sparse"])
def test_structure_is_seen_whatever_the_sizes_are(sizes, form):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(120, 23))
    X[:, :3] += np.repeat(6 * np.eye(3)[: len(sizes)], sizes, axis=0)
    if form == "standardised":
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    # Two clusters of three are structure as well.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = search(2, **QUICK | FEATURES).fit(
            csr_array(X) if form == "sparse" else X
        )
    messages = [str(warning.message) for warning in caught]
    assert not any("sees no more structure" in message for message in messages)
    assert found.structure_test_["statistic"] > max(
        found.structure_test_["null_distribution"]
    )
    if min(sizes) < 40 and np.bincount(found.labels_).min() > 40:
        assert any("other clusters than k-means" in message for message in messages)


@pytest.mark.few_epochs
@pytest.mark.parametrize("n_groups", [2, 3, 4])
def test_groups_along_one_line_are_structure(n_groups, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(40 * n_groups, 7))
    X[:, :2] += 6 * (np.arange(len(X))[:, None] % n_groups)
    found = search(n_groups, **SMALL | FEATURES).fit(X).structure_test_
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
        found = search(2, **SMALL | FEATURES).fit(X)
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
        found = search(2, **QUICK | FEATURES | params).fit(X, **known)
        assert not hasattr(found, "structure_test_")
    # A Wasserstein distance is one of features.
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
