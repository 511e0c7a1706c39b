"""metric="gower" of the clusterers that take tables, against a double loop."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder
from sklearn.utils.estimator_checks import check_estimator

from skdiffclust import GraphCutClustering, SpanningForestClustering
from skdiffclust._gower import gower_encoder

CLUSTERERS = {
    "forest": SpanningForestClustering(3, metric="gower"),
    "graph": GraphCutClustering(3, metric="gower", n_neighbors=5, random_state=0),
}
few_clusters = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning"
)


def table(n=80, share=0.1, n_values=None, seed=0):
    """Return a frame of two clusters with gaps, of `n_values` numbers if given."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    numbers = rng.normal(size=(n, 2)) + 5.0 * y[:, None]
    if n_values is not None:
        numbers = rng.integers(0, n_values, (n, 2)).astype(float)
    frame = pd.DataFrame(
        {
            "size": numbers[:, 0],
            "age": 1e6 + 40.0 * numbers[:, 1],
            "colour": np.where(rng.random(n) < 0.9, y, 1 - y).astype(str),
            "kind": np.where(y, rng.choice(list("pq"), n), rng.choice(list("rs"), n)),
            "owned": (rng.random(n) < 0.9) == y,
        }
    )
    gaps = rng.random(frame.shape) < share
    frame = frame.astype({"colour": object, "owned": object}).mask(gaps)
    return frame.astype({"kind": "category", "owned": "boolean"})


def distances_of(frame, weights=None):
    """Return Gower's distances (n, n) between the rows of a frame, pair by pair."""
    n = len(frame)
    weights = np.ones(n) if weights is None else weights
    rows = [[None if pd.isna(v) else v for v in row] for row in frame.to_numpy(object)]
    parts = np.full((frame.shape[1], n, n), np.nan)
    for f in range(frame.shape[1]):
        known = [r[f] for r, w in zip(rows, weights, strict=True) if r[f] is not None]
        is_number = isinstance(known[0], float)
        for i in range(n):
            for j in range(n):
                p, q = rows[i][f], rows[j][f]
                if p is None or q is None:
                    continue
                parts[f, i, j] = (
                    abs(p - q) / (max(known) - min(known)) if is_number else p != q
                )
        pairs = [
            (weights[i] * weights[j], parts[f, i, j])
            for i in range(n)
            for j in range(i)
            if rows[i] != rows[j] and not np.isnan(parts[f, i, j])
        ]
        w, values = np.array(pairs).T
        parts[f][np.isnan(parts[f])] = w @ values / w.sum()
    distances = parts.mean(axis=0)
    for i in range(n):
        for j in range(n):
            if rows[i] == rows[j]:
                distances[i, j] = 0.0
    return distances


@pytest.mark.parametrize("n_values", [None, 2])
def test_distances_are_those_of_a_double_loop(n_values):
    frame = table(60, 0.2, n_values)
    weights = np.random.default_rng(1).integers(1, 4, len(frame)).astype(float)
    expected = distances_of(frame, weights)
    encoder, encoded = gower_encoder(frame, sample_weight=weights)
    found = encoder.between(encoded, encoded)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)
    assert np.array_equal(found, found.T)
    assert np.array_equal(encoder.encode(frame), encoded, equal_nan=True)
    nearest, distances = encoder.nearest(encoded[:9], encoded, 7)
    order = np.lexsort(np.broadcast_arrays(np.arange(len(frame)), found[:9]))[:, :7]
    assert np.array_equal(nearest, order)
    assert np.array_equal(distances, np.take_along_axis(found[:9], order, axis=1))


@pytest.mark.parametrize("n_values", [None, 2])
@pytest.mark.parametrize("algorithm", ["auto", "prim", "boruvka", "kruskal"])
def test_the_tree_is_the_shortest(n_values, algorithm):
    frame = table(60, 0.2, n_values)
    forest = SpanningForestClustering(2, metric="gower", algorithm=algorithm)
    forest.fit(frame)
    # SciPy takes no edges of length zero.
    expected = minimum_spanning_tree(distances_of(frame) + 1.0).data - 1.0
    np.testing.assert_allclose(
        forest.edge_lengths_, np.sort(expected)[::-1], atol=1e-13
    )


def test_a_complete_table_by_scaled_and_encoded_columns():
    frame = table(200, 0.0)
    frame["age"] -= 1e6
    half = make_pipeline(OneHotEncoder(sparse_output=False), FunctionTransformer(_half))
    encoded = make_column_transformer(
        (MinMaxScaler(), ["size", "age"]), (half, ["colour", "kind", "owned"])
    ).fit_transform(frame)
    plain = SpanningForestClustering(2, metric="manhattan").fit(encoded)
    forest = SpanningForestClustering(2, metric="gower").fit(frame)
    np.testing.assert_allclose(
        forest.edge_lengths_, plain.edge_lengths_ / 5, rtol=1e-13
    )
    assert adjusted_rand_score(forest.labels_, plain.labels_) == 1.0


def _half(X):
    """Return half of X: two entries of one-hot codes differ where levels do."""
    return 0.5 * X


@few_clusters
@pytest.mark.parametrize("name", CLUSTERERS)
@pytest.mark.parametrize("n_clusters", [3, 12])
def test_equal_rows_never_part_and_predictions_are_labels(name, n_clusters):
    for seed in range(5):
        frame = table(90, 0.3, 2, seed)
        model = clone(CLUSTERERS[name]).set_params(n_clusters=n_clusters).fit(frame)
        assert np.array_equal(model.predict(frame), model.labels_)
        assert [*model.predict(frame[5:6])] == [model.labels_[5]]
        rows = frame.astype(object).where(frame.notna(), None).apply(tuple, axis=1)
        assert pd.Series(model.labels_).groupby(rows).nunique().max() == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"min_samples": 4},
        {"n_perturbations": 5, "consensus": True, "random_state": 0},
        {"n_clusters": None, "distance_threshold": 0.3},
    ],
)
def test_other_parameters_of_the_forest(settings):
    frame = table(80, 0.1)
    forest = SpanningForestClustering(2, metric="gower").set_params(**settings)
    labels = forest.fit(frame).labels_
    assert np.array_equal(forest.predict(frame), labels)
    assert adjusted_rand_score(labels, np.arange(80) % 2) > 0.9
    given = clone(forest).set_params(metric="precomputed").fit(distances_of(frame))
    assert adjusted_rand_score(given.labels_, labels) == 1.0
    order = np.random.default_rng(0).permutation(80)
    if not forest.n_perturbations:
        forest.fit(frame.iloc[order])
        assert adjusted_rand_score(forest.labels_, labels[order]) == 1.0


@few_clusters
@pytest.mark.parametrize("name", CLUSTERERS)
def test_links(name):
    frame = table(80, 0.1)
    model = CLUSTERERS[name].fit(frame, must_link=[[0, 1]], cannot_link=[[2, 4]])
    assert model.labels_[0] == model.labels_[1]
    assert model.labels_[2] != model.labels_[4]
    assert np.array_equal(model.predict(frame), model.labels_)


def test_weights_are_repetitions_and_none_is_absence():
    frame = table(80, 0.2)
    # Far out, where nothing but a range of one sample could matter.
    frame.loc[0, "size"] = 1e9
    frame.loc[0, "kind"] = "r"
    weights = np.random.default_rng(0).integers(0, 3, 80).astype(float)
    weights[0] = 0.0
    weighted = SpanningForestClustering(3, metric="gower").fit(frame, None, weights)
    repeated = np.repeat(np.arange(80), weights.astype(int))
    expected = clone(weighted).fit(frame.iloc[repeated])
    assert np.array_equal(expected.labels_, weighted.labels_[repeated])
    assert np.array_equal(expected.predict(frame), weighted.labels_)
    longest = weighted.edge_lengths_[:20]
    np.testing.assert_allclose(expected.edge_lengths_[:20], longest, rtol=1e-13)


@pytest.mark.parametrize("name", CLUSTERERS)
def test_containers(name):
    frame = table(80, 0.1)
    expected = clone(CLUSTERERS[name]).fit(frame)
    columns = {c: [None if pd.isna(v) else v for v in frame[c]] for c in frame}
    in_polars = clone(expected).fit(pl.DataFrame(columns))
    assert np.array_equal(in_polars.labels_, expected.labels_)
    assert np.array_equal(in_polars.predict(frame), expected.labels_)
    assert [*in_polars.feature_names_in_] == [*frame]
    objects = np.array([*columns.values()], dtype=object).T
    is_category = [False, False, True, True, True]
    for features in (is_category, [2, 3, 4], [-3, -2, -1]):
        other = clone(expected).set_params(categorical_features=features)
        assert np.array_equal(other.fit(objects).labels_, expected.labels_)
        assert np.array_equal(other.fit(objects.tolist()).labels_, expected.labels_)
        missing = frame.to_numpy(object)
        assert np.array_equal(other.predict(missing), expected.labels_)
    by_name = {"categorical_features": ["colour", "kind", "owned"]}
    by_name = clone(expected).set_params(**by_name).fit(frame)
    assert np.array_equal(by_name.labels_, expected.labels_)


def test_an_array_is_of_numbers():
    X = np.random.default_rng(0).integers(0, 4, (60, 3))
    forest = SpanningForestClustering(2, metric="gower").fit(X)
    plain = SpanningForestClustering(2, metric="manhattan").fit(X / np.ptp(X, axis=0))
    np.testing.assert_allclose(forest.edge_lengths_, plain.edge_lengths_ / 3)
    codes = SpanningForestClustering(2, metric="gower", categorical_features=[0, 1, 2])
    shares = SpanningForestClustering(2, metric="hamming").fit(X)
    np.testing.assert_allclose(codes.fit(X).edge_lengths_, shares.edge_lengths_)
    none = SpanningForestClustering(2, metric="gower", categorical_features=None)
    assert np.array_equal(none.fit(pd.DataFrame(X)).edges_, forest.edges_)


def test_what_training_does_not_know():
    frame = pd.DataFrame(
        {"a": [0.0, 1.0, 2.0], "b": ["x", "y", "x"], "c": [7.0, 7.0, np.nan]}
    )
    encoder, encoded = gower_encoder(frame)
    new = pd.DataFrame({"a": [4.0, np.nan], "b": ["z", "x"], "c": [9.0, 7.0]})
    found = encoder.between(encoder.encode(new), encoded)
    # Beyond the range more than 1; an unseen level 1; a constant 0; a gap its mean.
    expected = [[2 + 1, 1.5 + 1, 1 + 1], [2 / 3, 2 / 3 + 1, 2 / 3]]
    np.testing.assert_allclose(found, np.array(expected) / 3)


@pytest.mark.parametrize("name", CLUSTERERS)
def test_names_and_numbers_of_features(name):
    frame = table(80, 0.1)
    model = CLUSTERERS[name].fit(frame)
    assert model.n_features_in_ == 5
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"age": "years"}))
    with pytest.raises(ValueError, match="expecting 5 features"):
        model.fit(frame.to_numpy(object)[:, [0, 1, 0, 1, 0]]).predict([[0.0, 1.0]])


@pytest.mark.parametrize("name", CLUSTERERS)
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (pd.DataFrame({"a": [1, 2, None]}, dtype=object), "'a' of type object with 1"),
        (pd.DataFrame({"a": pd.date_range("2020", periods=3)}), "'a' of type datetime"),
        (pl.DataFrame({"a": [[1.0], [2.0]]}), "'a' of type List"),
        (pl.DataFrame({"a": [{"b": 1}, {"b": 2}]}), "'a' of type Struct"),
        (pd.DataFrame({"a": [["x"], ["y"]]}), "'a' with others instead: unhashable"),
        (pd.DataFrame({"a": [1.0, 1j]}), "'a' of type complex128"),
        (pd.DataFrame({"a": [1.0, np.inf, np.nan]}), "infinity in column 'a'"),
        (np.array([[1.0], [np.inf]]), "contains infinity"),
        (np.array([["1.5"], ["2"]], dtype=object), "Got 0 of type object"),
        (np.array([["1.5"], ["2"]]), "Got 0 of type object|Got 0 of type <U3"),
        (np.array([[1], [2]], dtype="m8[D]"), "Got 0 of type timedelta64"),
        (csr_array(np.eye(3)), "must be dense with metric='gower'. Got a sparse"),
        (pl.LazyFrame({"a": [1.0, 2.0]}), "LazyFrame instead. Collect"),
        (pd.DataFrame({"a": []}), r"samples and features. Got shape \(0, 1\)"),
        (np.ma.masked_array(np.eye(3)), "masked array"),
        ([1.0, 2.0], "Expected 2D array"),
    ],
)
def test_refused_tables(name, X, message):
    with pytest.raises(ValueError, match=message):
        clone(CLUSTERERS[name]).set_params(n_clusters=1).fit(X)


@pytest.mark.parametrize("features", [["b"], [2], [True], "a", [[0]], [0.5]])
def test_refused_categorical_features(features):
    forest = SpanningForestClustering(2, metric="gower", categorical_features=features)
    with pytest.raises(ValueError, match="'categorical_features' parameter"):
        forest.fit(pd.DataFrame({"a": [1.0, 2.0], "c": [1.0, 2.0]}))


@pytest.mark.parametrize("affinity", ["rbf", "precomputed", np.dot])
def test_a_graph_of_other_affinities_is_refused(affinity):
    graph = GraphCutClustering(2, affinity=affinity, metric="gower")
    with pytest.raises(ValueError, match="'affinity' parameter .* metric='gower'"):
        graph.fit(table())


@pytest.mark.parametrize("name", CLUSTERERS)
def test_a_fitted_estimator_is_stored(name):
    frame = table(80, 0.1)
    model = CLUSTERERS[name].fit(frame)
    stored = skops.io.dumps(model)
    trusted = skops.io.get_untrusted_types(data=stored)
    for loaded in (
        pickle.loads(pickle.dumps(model)),
        skops.io.loads(stored, trusted=trusted),
    ):
        assert np.array_equal(loaded.predict(frame), model.labels_)


def test_the_graph_joins_the_nearest_samples():
    frame = table(60, 0.05)
    graph = GraphCutClustering(
        2, affinity="nearest_neighbors", n_neighbors=4, metric="gower", random_state=0
    ).fit(frame)
    distances = distances_of(frame)
    np.fill_diagonal(distances, np.inf)
    expected = distances <= np.sort(distances, axis=1)[:, 3:4] * (1 + 1e-9)
    found = graph.affinity_matrix_.toarray() > 0
    assert np.array_equal(found, expected | expected.T)
    assert graph.score(frame) == pytest.approx(graph.score(frame.iloc[::-1]))


# Where a table may have any type, a column that is none of numbers is a ValueError.
EXPECTED_FAILURES = {"check_dtype_object": "is refused by a ValueError of ours"}
REPETITIONS = {
    "check_sample_weight_equivalence_on_dense_data": "a repeated sample is a neighbour"
}


@few_clusters
@pytest.mark.parametrize("name", CLUSTERERS)
def test_scikit_learn_checks(name):
    expected = EXPECTED_FAILURES | (REPETITIONS if name == "graph" else {})
    results = check_estimator(
        CLUSTERERS[name], expected_failed_checks=expected, on_skip=None
    )
    found = {r["check_name"] for r in results if r["status"] == "xfail"}
    assert found == set(expected)
    tags = CLUSTERERS[name].__sklearn_tags__().input_tags
    assert tags.allow_nan
    assert tags.categorical
    assert not tags.sparse
