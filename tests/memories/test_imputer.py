"""Completion of missing entries: against formulas, loops, and other imputers."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from skdiffclust import AssociativeImputer, ClAM
from skdiffclust.metrics import clustering_accuracy


def with_gaps(X, share=0.2, seed=0):
    """Return X with a share of its entries NaN, some seen in each row."""
    hidden = np.random.RandomState([7, seed]).uniform(size=X.shape) < share
    hidden[hidden.all(axis=1), 0] = False
    return np.where(hidden, np.nan, X)


def curve(n=300, seed=0, noise=0.05):
    """Return rows (n, 4) on a curve, which no linear regression describes."""
    rng = np.random.RandomState(seed)
    t = rng.uniform(0, 2 * np.pi, size=n)
    X = np.stack([np.cos(t), np.sin(t), np.cos(2 * t), np.sin(2 * t)], axis=1)
    return X + noise * rng.randn(n, 4)


def error(imputer, X, shown):
    """Return the mean squared error of what an imputer completes."""
    return np.square(imputer.fit_transform(shown) - X)[np.isnan(shown)].mean()


def test_without_attraction_the_mean_of_a_normal_distribution(global_random_seed):
    # Its regressions, from samples with two of five entries missing: if the variance of
    # these was ignored, the first slope would be .8.
    rng = np.random.RandomState(global_random_seed)
    covariance = np.array([[1.0, 0.6, 0.3], [0.6, 1.0, 0.0], [0.3, 0.0, 1.0]])
    X = rng.multivariate_normal(np.zeros(3), covariance, size=4000)
    imputer = AssociativeImputer(inverse_temperature=0.0, linear_correction=True)
    imputer.fit(with_gaps(X, 0.4, global_random_seed))
    for hidden, seen in ([1, 2], [0]), ([0], [1, 2]), ([2], [0, 1]):
        samples = np.full((len(seen) + 1, 3), np.nan)
        samples[:, seen] = np.eye(len(seen) + 1, len(seen))
        found = imputer.transform(samples)[:, hidden]
        slopes = np.linalg.solve(
            covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, hidden)]
        )
        np.testing.assert_allclose(found[:-1] - found[-1], slopes, atol=0.15)


def test_without_correction_the_mean_under_the_softmax(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.randn(30, 5) * [1, 2, 3, 4, 5] + 7
    beta = 1.7
    imputer = AssociativeImputer(
        inverse_temperature=beta, linear_correction=False, far_values="observed"
    )
    shown = with_gaps(rng.randn(20, 5) * [1, 2, 3, 4, 5] + 7, 0.4, global_random_seed)
    found = imputer.fit(X).transform(shown)
    np.testing.assert_allclose(imputer.memories_, X)
    for sample, completed in zip(shown, found, strict=True):
        seen = ~np.isnan(sample)
        far = np.square((X - sample) / X.std(axis=0))[:, seen].mean(axis=1) * 5
        share = np.exp(-beta * far) / np.exp(-beta * far).sum()
        np.testing.assert_allclose(completed[~seen], share @ X[:, ~seen], atol=1e-10)


def test_memories_are_completed_by_the_other_ones():
    X = [[0.0, 1.0], [0.1, np.nan], [5.0, 7.0], [5.1, 9.0]]
    imputer = AssociativeImputer(inverse_temperature=1e4, linear_correction=False)
    np.testing.assert_allclose(imputer.fit(X).memories_[1], [0.1, 1.0])


def test_temperature_follows_the_data(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    plane = rng.randn(300, 2) @ rng.randn(2, 5) + 0.1 * rng.randn(300, 5)
    linear = AssociativeImputer(random_state=global_random_seed)
    linear.fit(with_gaps(plane, seed=global_random_seed))
    assert linear.linear_correction_
    curved = AssociativeImputer(random_state=global_random_seed)
    curved.fit(with_gaps(curve(seed=global_random_seed), seed=global_random_seed))
    assert curved.inverse_temperature_ > 0
    given = AssociativeImputer(inverse_temperature=3.0, linear_correction=False)
    given.fit(with_gaps(plane))
    assert given.inverse_temperature_ == pytest.approx(3.0)
    assert not given.linear_correction_


@pytest.mark.parametrize("share", [0.1, pytest.param(0.4, marks=pytest.mark.long)])
def test_as_good_as_neighbours_and_better_than_means(share):
    X = StandardScaler().fit_transform(load_iris().data)
    blobs, _ = make_blobs(150, n_features=6, centers=5, random_state=0)
    ours, theirs, means = [], [], []
    for rows in (X, StandardScaler().fit_transform(blobs), curve(150)):
        for seed in range(3):
            shown = with_gaps(rows, share, seed)
            ours.append(error(AssociativeImputer(random_state=seed), rows, shown))
            theirs.append(error(KNNImputer(), rows, shown))
            means.append(error(SimpleImputer(), rows, shown))
    assert np.mean(np.array(ours) <= np.array(theirs)) >= 7 / 9
    assert (np.array(ours) < np.array(means)).all()


def test_seen_entries_stay_and_rows_stand_alone(global_random_seed):
    X = curve(seed=global_random_seed)
    shown = with_gaps(X, seed=global_random_seed)
    before = shown.copy()
    imputer = AssociativeImputer(random_state=global_random_seed).fit(shown)
    whole = imputer.transform(shown)
    np.testing.assert_array_equal(shown, before)
    seen = ~np.isnan(shown)
    np.testing.assert_array_equal(whole[seen], shown[seen])
    assert np.isfinite(whole).all()
    for size in (1, 7):
        parts = [imputer.transform(shown[i : i + size]) for i in range(0, 300, size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    again = pickle.loads(pickle.dumps(imputer)).transform(shown)
    np.testing.assert_array_equal(again, whole)
    same = AssociativeImputer(random_state=global_random_seed).fit_transform(shown)
    np.testing.assert_array_equal(same, whole)


def test_units_change_nothing(global_random_seed):
    shown = with_gaps(curve(seed=global_random_seed), seed=global_random_seed)
    units = np.array([1e-6, 1.0, 1e6, 3.0])
    offset = np.array([0.0, 1e3, 1e6, -5.0])
    plain, moved = (
        AssociativeImputer(random_state=global_random_seed).fit_transform(X)
        for X in (shown, shown * units + offset)
    )
    np.testing.assert_allclose((moved - offset) / units, plain, atol=1e-6)


def test_conventions_of_imputers(global_random_seed):
    pd = pytest.importorskip("pandas")
    shown = with_gaps(curve(seed=global_random_seed)[:60], seed=global_random_seed)
    options = dict(random_state=global_random_seed)
    plain = AssociativeImputer(**options).fit_transform(shown)
    coded = np.where(np.isnan(shown), -1.5, shown)
    assert not (shown == -1.5).any()
    imputer = AssociativeImputer(missing_values=-1.5, **options)
    np.testing.assert_array_equal(imputer.fit_transform(coded), plain)
    with pytest.raises(ValueError, match="contains NaN"):
        imputer.fit(shown)
    # A feature without entries is dropped, or kept as zeros; flags come last.
    names = ["a", "b", "empty", "c", "d"]
    scaling = pd.DataFrame(np.insert(shown, 2, np.nan, axis=1), columns=names)
    for keep in (False, True):
        params = dict(add_indicator=True, keep_empty_features=keep)
        ours = AssociativeImputer(**params, **options).set_output(transform="pandas")
        theirs = SimpleImputer(**params).set_output(transform="pandas")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Skipping features without any observed")
            expected = theirs.fit_transform(scaling)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = ours.fit_transform(scaling)
        assert ["['empty']" in str(one.message) for one in caught] == [True] * (
            not keep
        )
        assert list(found.columns) == list(expected.columns)
        flags = [name for name in found.columns if name.startswith("missing")]
        assert flags
        np.testing.assert_array_equal(found[flags], expected[flags])
        np.testing.assert_array_equal(found[["a", "b", "c", "d"]], plain)
        if keep:
            assert (found["empty"] == 0).all()


def test_many_samples_few_memories(global_random_seed):
    X = curve(400, seed=global_random_seed)
    shown = with_gaps(X, seed=global_random_seed)
    imputer = AssociativeImputer(n_memories=50, random_state=global_random_seed)
    assert error(imputer, X, shown) < error(SimpleImputer(), X, shown)
    assert imputer.memories_.shape == (50, 4)


def test_the_correction_is_the_regression_of_residuals(global_random_seed):
    # Two clusters: features 0 and 1 rise from one to the other, and in a cluster one
    # rises by as much as the other falls, but for the shrinkage.
    rng = np.random.RandomState(global_random_seed)
    cluster = np.repeat([-5.0, 5.0], 150)
    change = 0.5 * rng.randn(300)
    indicator = cluster + 0.5 * rng.randn(300)
    X = np.column_stack([cluster + change, cluster - change, indicator])
    imputer = AssociativeImputer(inverse_temperature=3.0, linear_correction=True)
    imputer.fit(X)
    lower, upper = imputer.transform([[4.5, np.nan, 5.0], [5.5, np.nan, 5.0]])[:, 1]
    assert 0.96 < lower - upper < 1


def test_of_many_features_correlated_ones_correct_each_other(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    # 50 groups of features, each with a factor of its own.
    X = np.repeat(rng.normal(size=(50, 50)), 21, axis=1)[:, rng.permutation(1050)]
    X += 0.5 * rng.normal(size=X.shape)
    hidden = rng.uniform(size=X.shape) < 0.05
    gaps = np.where(hidden, np.nan, X)
    settings = dict(inverse_temperature=0.0, linear_correction=True, random_state=0)
    imputer = AssociativeImputer(**settings)
    together = imputer.fit_transform(gaps)
    np.testing.assert_allclose(imputer.transform(gaps[:3]), together[:3], rtol=1e-10)
    in_five = [imputer.fit_transform(part) for part in np.split(gaps, 5, axis=1)]
    errors = [
        np.square(filled - X)[hidden].mean()
        for filled in (together, np.hstack(in_five))
    ]
    assert errors[0] < 0.7 * errors[1]


def test_a_covariance_of_few_pairs_is_made_positive():
    # With four of five entries missing, the covariance of the pairs that are seen is
    # indefinite; if it was not corrected, the mean of the errors would be .9.
    errors = []
    for seed in (0, 2):
        rng = np.random.RandomState(seed)
        X = rng.randn(200, 3) @ rng.randn(3, 20) + 0.1 * rng.randn(200, 20)
        shown = with_gaps(X, 0.8, seed)
        imputer = AssociativeImputer(inverse_temperature=0.0, linear_correction=True)
        spread = np.square(X[np.isnan(shown)]).mean()
        errors.append(np.sqrt(error(imputer, X, shown) / spread))
    assert np.mean(errors) < 0.7


def correlated(seed, n=300):
    """Return samples (n, 5) of three factors, and the same with gaps."""
    rng = np.random.RandomState(seed)
    X = rng.randn(n, 3) @ rng.randn(3, 5) + 0.3 * rng.randn(n, 5)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, with_gaps(X, 0.15, seed)


@pytest.mark.parametrize("value", [10.0, 100.0, -1e4])
def test_one_wrong_value_changes_the_error_by_less_than_five_percent(
    value, global_random_seed
):
    X, shown = correlated(global_random_seed)
    wrong = shown.copy()
    row, column = np.argwhere(~np.isnan(shown).any(axis=1))[0, 0], 2
    wrong[row, column] = value
    imputer = AssociativeImputer(random_state=global_random_seed)
    clean = error(imputer, X, shown)
    assert error(imputer, X, wrong) < 1.05**2 * clean
    # It stays, and what is missing beside it is as if it was missing, too.
    beside = wrong[[row]]
    beside[0, 0] = np.nan
    completed = imputer.transform(beside)
    assert completed[0, column] == value
    beside[0, column] = np.nan
    assert completed[0, 0] == imputer.transform(beside)[0, 0]
    if value == -1e4:
        kept = AssociativeImputer(
            far_values="observed", random_state=global_random_seed
        )
        assert error(kept, X, wrong) > 2 * clean


def test_several_far_values_of_a_sample_are_observed(global_random_seed):
    X, shown = correlated(global_random_seed)
    X[0] = shown[0] = 40.0
    imputer = AssociativeImputer(random_state=global_random_seed)
    sample = X[[0]]
    sample[0, 4] = np.nan
    assert imputer.fit(shown).transform(sample)[0, 4] > X[1:, 4].max()


def test_three_wrong_values_of_a_sample(global_random_seed):
    X, shown = correlated(global_random_seed)
    clean = error(AssociativeImputer(random_state=0), X, shown)
    for row in np.flatnonzero(~np.isnan(shown).any(axis=1))[:3]:
        wrong = shown.copy()
        wrong[row, [0, 2, 3]] = [10.0, -100.0, 1e4]
        X[row, [0, 2, 3]] = wrong[row, [0, 2, 3]]
        assert error(AssociativeImputer(random_state=0), X, wrong) < 1.1 * clean
        X[row, [0, 2, 3]] = shown[row, [0, 2, 3]]


def test_one_value_of_a_hundred_in_another_unit(global_random_seed):
    X, shown = correlated(global_random_seed, n=600)
    clean = error(AssociativeImputer(random_state=0), X, shown)
    rng = np.random.RandomState(global_random_seed)
    wrong = shown.copy()
    rows = rng.permutation(np.flatnonzero(~np.isnan(shown[:, 1])))[:6]
    wrong[rows, 1] *= 1000
    assert error(AssociativeImputer(random_state=0), X, wrong) < 1.5 * clean
    kept = AssociativeImputer(far_values="observed", random_state=0)
    assert error(kept, X, wrong) > 3 * clean


def test_far_values_do_not_hide_smaller_ones(global_random_seed):
    # 30 and -50 are far only from the values that remain without the others.
    X, shown = correlated(global_random_seed, n=600)
    clean = error(AssociativeImputer(random_state=0), X, shown)
    wrong = shown.copy()
    rows = np.flatnonzero(~np.isnan(shown[:, 1]))[:6]
    wrong[rows, 1] = [2000.0, 1500.0, 900.0, 30.0, -50.0, -1000.0]
    assert error(AssociativeImputer(random_state=0), X, wrong) < 1.1 * clean


def test_unrelated_features_are_imputed_by_their_mean(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    ours, means = [], []
    for seed in range(4):
        X = rng.randn(30, 60)
        shown = with_gaps(X, 0.5, seed)
        ours.append(error(AssociativeImputer(random_state=seed), X, shown))
        means.append(error(SimpleImputer(), X, shown))
    assert np.mean(ours) < 1.05 * np.mean(means)


def test_far_values_that_others_confirm_are_observed(global_random_seed):
    # A rare event, which changes two features by as much.
    rng = np.random.RandomState(global_random_seed)
    X = rng.randn(600, 4)
    events = rng.permutation(600)[:10]
    X[events, :2] += rng.uniform(60, 120, size=(10, 1))
    imputer = AssociativeImputer(random_state=0).fit(X[1:])
    sample = np.array([[90.0, np.nan, 0.0, 0.0]])
    assert imputer.transform(sample)[0, 1] == pytest.approx(90.0, abs=10.0)
    # One that is larger than all, which a feature confirms and another does not.
    larger = np.array([[200.0, 200.0, 0.0, np.nan]])
    assert imputer.transform(larger)[0, 3] == pytest.approx(0.0, abs=3.0)


def test_imputed_values_are_in_their_range(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = np.exp(rng.randn(200, 2) @ rng.randn(2, 4) + 0.5 * rng.randn(200, 4))
    shown = with_gaps(X, 0.3, global_random_seed)
    options = {"random_state": global_random_seed}
    assert (AssociativeImputer(**options).fit_transform(shown) > 0).all()
    gaps = np.isnan(shown)
    bounded = AssociativeImputer(min_value=0.5, max_value=[1, 2, np.inf, 4], **options)
    found = bounded.fit_transform(shown)
    assert found[gaps].min() >= 0.5
    for feature, most in enumerate([1, 2, np.inf, 4]):
        assert (found[gaps[:, feature], feature] <= most).all()
    np.testing.assert_array_equal(found[~gaps], X[~gaps])
    with pytest.raises(ValueError, match="'max_value' .* one for each of 4"):
        AssociativeImputer(max_value=[1.0, 2.0]).fit(shown)
    with pytest.raises(ValueError, match="'min_value' .* at most max_value"):
        AssociativeImputer(min_value=2.0, max_value=1.0).fit(shown)


@pytest.mark.parametrize("as_given", [list, lambda i: np.isin(np.arange(4), i)])
def test_discrete_features_have_values_that_were_seen(as_given, global_random_seed):
    X, _ = make_blobs(200, n_features=4, random_state=global_random_seed)
    X[:, [1, 3]] = np.round(X[:, [1, 3]])
    shown = with_gaps(X, 0.2, global_random_seed)
    options = {"random_state": global_random_seed}
    imputer = AssociativeImputer(discrete_features=as_given([1, 3]), **options)
    found = imputer.fit_transform(shown)
    plain = AssociativeImputer(**options).fit_transform(shown)
    np.testing.assert_array_equal(found[:, [0, 2]], plain[:, [0, 2]])
    for feature in (1, 3):
        values = np.unique(shown[~np.isnan(shown[:, feature]), feature])
        nearest = np.abs(plain[:, feature, None] - values).min(axis=1)
        gaps = np.abs(plain[:, feature] - found[:, feature])
        np.testing.assert_allclose(gaps, nearest, atol=1e-12)
    bounded = AssociativeImputer(
        discrete_features=as_given([1, 3]), min_value=-0.5, max_value=1.5, **options
    ).fit_transform(shown)
    assert set(bounded[np.isnan(shown[:, 1]), 1]) <= {0.0, 1.0}
    for wrong in ([4], [-1], [0.5], [True, False], [[0]], ["a"], ["1"]):
        with pytest.raises(ValueError, match="'discrete_features' .* mask, indices or"):
            AssociativeImputer(discrete_features=wrong).fit(shown)


def test_discrete_features_by_name(global_random_seed):
    pandas = pytest.importorskip("pandas")
    X, _ = make_blobs(60, n_features=3, random_state=global_random_seed)
    X[:, 2] = np.round(X[:, 2])
    shown = with_gaps(X, 0.2, global_random_seed)
    frame = pandas.DataFrame(shown, columns=["a", "b", "c"])
    options = {"random_state": global_random_seed}
    named = AssociativeImputer(discrete_features=["c"], **options).fit_transform(frame)
    numbered = AssociativeImputer(discrete_features=[2], **options).fit_transform(shown)
    np.testing.assert_array_equal(named, numbered)
    for wrong in (["d"], ["c", "d"]):
        with pytest.raises(ValueError, match="'discrete_features' .* mask, indices or"):
            AssociativeImputer(discrete_features=wrong).fit(frame)


def test_odd_data(global_random_seed):
    options = dict(random_state=global_random_seed)
    X = np.array([[1.0, np.nan], [np.nan, 2.0], [np.nan, np.nan], [3.0, 4.0]])
    found = AssociativeImputer(**options).fit_transform(X)
    assert np.isfinite(found).all()
    # Constant features, equal samples, one sample, nothing missing.
    constant = np.column_stack([np.full(6, 0.1), [1, 2, 3, 4, 5, np.nan]])
    found = AssociativeImputer(**options).fit_transform(constant)
    np.testing.assert_array_equal(found[:, 0], 0.1)
    equal = np.vstack([np.ones((5, 3)), [[1.0, np.nan, 1.0]]])
    np.testing.assert_allclose(AssociativeImputer(**options).fit_transform(equal), 1.0)
    one = AssociativeImputer(**options).fit([[1.0, 2.0]])
    np.testing.assert_allclose(one.transform([[np.nan, 2.0]]), [[1.0, 2.0]])
    rows = curve(20)
    np.testing.assert_array_equal(AssociativeImputer().fit_transform(rows), rows)
    nothing = np.full((4, 2), np.nan)
    with pytest.warns(UserWarning, match=r"\[0 1\]. Set keep_empty_features=True"):
        assert AssociativeImputer().fit_transform(nothing).shape == (4, 0)
    # Units whose squares underflow.
    shown = with_gaps(rows, seed=global_random_seed)
    found = AssociativeImputer(**options).fit_transform(shown)
    small = AssociativeImputer(**options).fit_transform(shown * 1e-170)
    np.testing.assert_allclose(small * 1e170, found, atol=1e-10)
    with pytest.raises(ValueError, match="infinity"):
        AssociativeImputer().fit([[np.inf, 1.0], [1.0, np.nan]])


# ClAM with missing entries.


def test_clusters_are_found_in_spite_of_gaps(global_random_seed):
    X, y = make_blobs(
        300, n_features=6, centers=10 * np.eye(6)[:4], random_state=global_random_seed
    )
    shown = with_gaps(X, 0.3, global_random_seed)
    model = ClAM(4, random_state=global_random_seed).fit(shown)
    # One of the first four features is large. Where it is hidden, and another of them
    # too, a sample may belong to several clusters; of the others every one is right.
    seen = ~np.isnan(shown[:, :4])
    is_known = seen[np.arange(300), y] | (seen.sum(axis=1) == 3)
    assert is_known.mean() > 0.7
    assert clustering_accuracy(y[is_known], model.labels_[is_known]) == 1.0
    np.testing.assert_array_equal(model.predict(shown), model.labels_)
    parts = [model.predict(shown[i : i + 7]) for i in range(0, 300, 7)]
    np.testing.assert_array_equal(np.concatenate(parts), model.labels_)
    completed = model.complete(shown)
    gaps = np.isnan(shown)
    np.testing.assert_array_equal(completed[~gaps], shown[~gaps])
    means = SimpleImputer().fit_transform(shown)
    errors = [
        np.square(filled - X)[is_known][gaps[is_known]].mean()
        for filled in (completed, means)
    ]
    assert errors[0] < 0.3 * errors[1]
    assert np.isfinite(model.transform(shown)).all()
    assert np.isfinite(model.score(shown))
    assert pickle.loads(pickle.dumps(model)).predict(shown).tolist() == (
        model.labels_.tolist()
    )


def test_samples_of_no_weight_complete_no_others(global_random_seed):
    X, shown = correlated(global_random_seed)
    others = np.random.RandomState(global_random_seed).normal(5, 8, size=X.shape)
    weight = np.repeat([1.0, 0.0], len(X))
    given = {"n_clusters": 2, "random_state": global_random_seed}
    alone = ClAM(**given).fit(shown)
    model = ClAM(**given).fit(np.vstack([shown, others]), sample_weight=weight)
    np.testing.assert_array_equal(model.complete(shown), alone.complete(shown))
    np.testing.assert_array_equal(model.labels_[: len(X)], alone.labels_)
    for fit in (ClAM.fit, ClAM.partial_fit):
        rows = np.vstack([X, shown])
        model = fit(ClAM(**given), rows, sample_weight=weight)
        np.testing.assert_array_equal(model.labels_, model.predict(rows))


def test_one_wrong_value_does_not_change_completed_samples(global_random_seed):
    X, shown = correlated(global_random_seed)
    wrong = shown.copy()
    row = np.argwhere(np.isnan(shown[:, 0]) & ~np.isnan(shown[:, 1]))[0, 0]
    wrong[row, 1] = 1e4
    with warnings.catch_warnings():
        # It is still in the sample that the clusters are found among.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ClAM(2, random_state=global_random_seed).fit(wrong)
    gaps = np.isnan(shown)
    errors = np.square(model.complete(wrong) - X)[gaps].mean()
    assert errors < 0.8 * np.square(X[gaps]).mean()


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
def test_memories_complete_new_rows_of_a_fit_without_gaps(metric, global_random_seed):
    X, y = make_blobs(
        200, n_features=6, centers=10 * np.eye(6)[:3], random_state=global_random_seed
    )
    model = ClAM(3, metric=metric, random_state=global_random_seed).fit(X)
    shown = X.copy()
    shown[:, 5] = np.nan
    np.testing.assert_array_equal(model.predict(shown), model.labels_)
    completed = model.complete(shown)
    np.testing.assert_array_equal(completed[:, :5], X[:, :5])
    assert np.abs(completed[:, 5]).max() < 2.0
    np.testing.assert_array_equal(model.complete(X), X)
    assert model.score(shown) == model.score(completed)
    zeros = np.append(np.zeros(5), np.nan)
    assert np.isfinite(model.complete([zeros])).all()


@pytest.mark.parametrize("half_life", [None, 300])
def test_a_sorted_stream_with_gaps(half_life, global_random_seed):
    # Later clusters are unlike the first batch, in which a feature has no values.
    rng = np.random.RandomState(global_random_seed)
    centers = 10 * rng.normal(size=(6, 12))
    X, y = make_blobs(600, 12, centers=centers, random_state=global_random_seed)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    shown = with_gaps(X, 0.2, global_random_seed)
    shown[:100, 5] = np.nan
    options = {"half_life": half_life, "random_state": global_random_seed}
    stream = ClAM(6, **options)
    for start in range(0, 600, 100):
        stream.partial_fit(shown[start : start + 100])
    whole = ClAM(6, **options).fit(shown)
    error, of_whole = (
        np.square(model.complete(shown) - X).mean() for model in (stream, whole)
    )
    assert error < 1.3 * of_whole
    assert adjusted_rand_score(y, stream.predict(shown)) > 0.95


@pytest.mark.filterwarnings("ignore:ClAM takes features without any:UserWarning")
def test_a_feature_without_values_is_left_out(global_random_seed):
    # As scikit-learn's imputers do with keep_empty_features=True: it is zero.
    X, _ = make_blobs(90, n_features=3, random_state=global_random_seed)
    shown = with_gaps(X, 0.1, global_random_seed)
    empty = np.insert(shown, 1, np.nan, axis=1)
    options = {"n_clusters": 3, "random_state": global_random_seed}
    for fit in (ClAM.fit, ClAM.partial_fit):
        for there, without in ((empty, shown), (np.insert(X, 1, np.nan, axis=1), X)):
            model = fit(ClAM(**options), there)
            known = np.delete(model.complete(there), 1, axis=1)
            np.testing.assert_array_equal(model.labels_, model.predict(there))
            np.testing.assert_array_equal(model.cluster_centers_[:, 1], 0.0)
            np.testing.assert_array_equal(model.complete(there)[:, 1], 0.0)
            np.testing.assert_array_equal(
                known[~np.isnan(without)], without[~np.isnan(without)]
            )
            # What a feature has that no training sample had, does not count.
            later = np.where(np.isnan(there), 1e6, there)
            later[:, [0, 2, 3]] = there[:, [0, 2, 3]]
            np.testing.assert_array_equal(model.predict(later), model.labels_)
            imputer = AssociativeImputer(keep_empty_features=True)
            np.testing.assert_array_equal(imputer.fit_transform(there)[:, 1], 0.0)
    # A feature may be missing in a later batch of a stream.
    stream = ClAM(**options).partial_fit(X)
    later = X.copy()
    later[:, 0] = np.nan
    assert np.isfinite(stream.partial_fit(later).cluster_centers_).all()
    with pytest.warns(UserWarning, match=r"any observed value as zeros: \['b'\]"):
        ClAM(**options).fit(pd.DataFrame(empty, columns=list("abcd")))


def test_gaps_that_cannot_be_filled_are_refused():
    with pytest.raises(ValueError, match="'X' parameter of ClAM must have an entry"):
        ClAM(2).fit(np.full((6, 2), np.nan))
    X = np.arange(12.0).reshape(6, 2)
    X[0, 0] = np.nan
    from scipy.sparse import csr_array

    with pytest.raises(ValueError, match="must not contain NaN if it is sparse"):
        ClAM(2).fit(csr_array(X))


@pytest.mark.parametrize("estimator", [AssociativeImputer(), ClAM(2)])
def test_missing_integer_categories_are_refused(estimator):
    # pandas would convert them to the smallest integer.
    pandas = pytest.importorskip("pandas")
    column = pandas.Categorical([1, 2, None] * 10)
    X = pandas.DataFrame({"code": column, "x": range(30)})
    with pytest.raises(ValueError, match="integer categories"):
        estimator.fit(X)
    assert estimator.fit(X.astype({"code": "Int64"})).n_features_in_ == 2
