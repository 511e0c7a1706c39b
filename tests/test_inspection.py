"""Descriptions of clusters, against brute force and the rules read back."""

import os
import re

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, make_blobs
from sklearn.metrics import f1_score
from sklearn.tree import DecisionTreeClassifier

from skdiffclust.inspection import ClusterDescriptionDisplay, describe_clusters

mpl.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def mixed_table(seed=0, n_samples=80):
    """Return a table with ties, gaps and categories, and labels with noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 3, n_samples)
    table = pd.DataFrame(
        {
            "length": labels + rng.normal(size=n_samples),
            "count": labels + rng.integers(0, 4, n_samples),
            "island": np.array(["Biscoe", "Dream", "Torgersen"])[
                (np.maximum(labels, 0) + (rng.uniform(size=n_samples) < 0.3)) % 3
            ],
            "tame": rng.uniform(size=n_samples) < 0.2 + 0.2 * labels,
        }
    )
    gaps = rng.uniform(size=(n_samples, 2)) < 0.2
    table.loc[gaps[:, 0], "length"] = np.nan
    table.loc[gaps[:, 1], "island"] = None
    return table, labels


def values_of(table, feature):
    """Return a feature of a description as float64 (n,), gaps as NaN."""
    name, _, level = feature.partition(" is ")
    column = table[name]
    if level:
        column = (column.astype(str) == level).astype(float).where(column.notna())
    return column.to_numpy(dtype=float)


def holds(condition, table):
    """Return where a condition of a rule, as text, holds in a table."""
    text = condition.strip("()")
    either = np.zeros(len(table), dtype=bool)
    if text.endswith(" or missing"):
        text = text.removesuffix(" or missing")
        name = re.search(r"[a-z_]\w*", text.split("< ")[-1])[0]
        either = table[name].isna().to_numpy()
    if found := re.fullmatch(r"(\w+) is (missing|known)", text):
        is_gap = table[found[1]].isna().to_numpy()
        return is_gap if found[2] == "missing" else ~is_gap
    if found := re.fullmatch(r"(\w+) is (not )?(.*)", text):
        column = table[found[1]]
        is_level = (column.astype(str) == found[3]).to_numpy()
        known = column.notna().to_numpy()
        return either | (known & (~is_level if found[2] else is_level))
    number = r"[-+.e\d]+"
    below, name, above, at_most = re.fullmatch(
        rf"(?:({number}) < )?([a-z_]\w*)(?: > ({number}))?(?: <= ({number}))?", text
    ).groups()
    column = table[name].to_numpy(dtype=float)
    result = ~np.isnan(column)
    for lower in filter(None, (below, above)):
        result &= column > float(lower)
    if at_most:
        result &= column <= float(at_most)
    return either | result


def selected_by(rule, table):
    """Return which rows of a table a rule selects."""
    return np.all([holds(each, table) for each in rule.split(" and ")], axis=0)


def best_f1(table, is_inside, max_depth):
    """Return the best F1 of a node below the root of a tree of scikit-learn."""
    encoded = pd.get_dummies(table, columns=["island"], dtype=float)
    gaps = table["island"].isna()
    encoded.loc[gaps, [c for c in encoded if c.startswith("island_")]] = np.nan
    tree = DecisionTreeClassifier(max_depth=max_depth, random_state=0)
    tree.fit(encoded.astype(float), is_inside)
    paths = tree.decision_path(encoded.astype(float)).toarray()
    return max(f1_score(is_inside, path) for path in paths.T[1:])


@pytest.mark.parametrize("seed", range(3))
def test_effects_and_means_are_those_of_all_pairs(seed):
    table, labels = mixed_table(seed)
    found = describe_clusters(table, labels, n_features=None)
    assert_array_equal(found.clusters, [0, 1, 2])
    for cluster in found.clusters:
        for j, feature in enumerate(found.features):
            values = values_of(table, feature)
            inside = values[(labels == cluster) & ~np.isnan(values)]
            outside = values[(labels != cluster) & ~np.isnan(values)]
            larger = np.mean(inside[:, None] > outside)
            equal = np.mean(inside[:, None] == outside)
            effect = larger + equal / 2
            if " is " in feature:
                effect = inside.mean() - outside.mean()
            assert_allclose(found.effects[cluster, j], effect, atol=1e-12)
            strength = larger - np.mean(inside[:, None] < outside)
            assert_allclose(found.strengths[cluster, j], strength, atol=1e-12)
            assert_allclose(found.inside[cluster, j], inside.mean(), atol=1e-12)
            assert_allclose(found.outside[cluster, j], outside.mean(), atol=1e-12)
    strengths = np.take_along_axis(np.abs(found.strengths), found.listed, axis=1)
    assert np.all(np.diff(strengths, axis=1) <= 0)


@pytest.mark.parametrize("max_depth", [1, 2, 3, 6])
@pytest.mark.parametrize("seed", range(4))
def test_rules_in_words_select_the_best_node(seed, max_depth):
    table, labels = mixed_table(seed)
    found = describe_clusters(table, labels, max_depth=max_depth)
    for cluster, rule in zip(found.clusters, found.rules, strict=True):
        is_inside = labels == cluster
        assert len(rule.split(" and ")) <= max_depth
        score = f1_score(is_inside, selected_by(rule, table))
        assert_allclose(score, best_f1(table, is_inside, max_depth))


def test_precision_and_recall_are_held_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 20))
    labels = rng.integers(0, 10, 400)
    found = describe_clusters(X, labels, max_depth=6)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(20)])
    chosen = [selected_by(rule, table) for rule in found.rules]
    seen = [np.mean(labels[rows] == cluster) for cluster, rows in enumerate(chosen)]
    # Labels are independent of the features: one in ten is right by chance.
    assert np.mean(seen) > 0.3
    assert np.mean(found.precision) < 0.2
    assert np.mean(found.recall) < 0.3
    X, labels = make_blobs(200, centers=3, cluster_std=0.1, random_state=0)
    found = describe_clusters(X, labels)
    assert_array_equal(found.precision, 1)
    assert_array_equal(found.recall, 1)


def test_sparse_and_dense_agree_and_sparse_stays_sparse(monkeypatch):
    X = sparse.random_array((200, 30), density=0.2, format="csr", random_state=0)
    X.data -= 0.3
    labels = KMeans(3, n_init=1, random_state=0).fit_predict(X)
    dense = describe_clusters(X.toarray(), labels)
    X.indices = X.indices.astype(np.int64)
    X.indptr = X.indptr.astype(np.int64)
    whole = sparse.csc_array.toarray

    def toarray(self, *args, **kwargs):
        assert self.shape[1] == 1
        return whole(self, *args, **kwargs)

    monkeypatch.setattr(sparse.csc_array, "toarray", toarray)
    for matrix in (X, X.tocoo(), sparse.csr_matrix(X)):
        found = describe_clusters(matrix, labels)
        assert found.rules == dense.rules
        assert_allclose(found.effects, dense.effects)
        assert_allclose(found.inside, dense.inside, atol=1e-15)
        assert_allclose(found.outside, dense.outside, atol=1e-15)
        assert_array_equal(found.precision, dense.precision)
    monkeypatch.undo()
    frame = pd.DataFrame.sparse.from_spmatrix(X, columns=[f"w{j}" for j in range(30)])
    found = describe_clusters(frame, labels)
    assert found.rules == tuple(rule.replace("x", "w") for rule in dense.rules)


def test_pandas_and_polars_agree():
    table, labels = mixed_table()
    table["tame"] = table["tame"].astype("boolean").mask(table["length"] > 2)
    table["island"] = table["island"].astype("category")
    table["count"] = table["count"].astype("Int64").mask(table["count"] == 2)
    found = describe_clusters(table, labels)
    other = pl.DataFrame(
        {
            "length": pl.Series(table["length"].tolist(), nan_to_null=True),
            "count": [None if v is pd.NA else v for v in table["count"]],
            "island": [v if isinstance(v, str) else None for v in table["island"]],
            "tame": [None if v is pd.NA else v for v in table["tame"]],
        },
        schema_overrides={"island": pl.Categorical},
    )
    assert {"Int64", "Boolean", "Categorical"} <= set(map(str, other.dtypes))
    theirs = describe_clusters(other, pl.Series(labels))
    assert theirs.rules == found.rules
    assert_array_equal(theirs.effects, found.effects)
    pd.testing.assert_frame_equal(theirs.to_frame(), found.to_frame())


def test_units_do_not_matter():
    """Also where float32 does not hold the values, or differences overflow."""
    X, labels = load_iris(return_X_y=True)
    found = describe_clusters(X, labels)
    for scale, offset in [(1e-300, 0), (1e300, 0), (1, 1e9), (-1, 0)]:
        other = describe_clusters(scale * X + offset, labels)
        sign = np.sign(scale)
        assert_allclose(other.strengths, sign * found.strengths, atol=1e-12)
        table = pd.DataFrame(scale * X + offset, columns=["x0", "x1", "x2", "x3"])
        for cluster, rule in zip(other.clusters, other.rules, strict=True):
            score = f1_score(labels == cluster, selected_by(rule, table))
            frame = pd.DataFrame(X, columns=table.columns)
            best = selected_by(found.rules[cluster], frame)
            assert_allclose(score, f1_score(labels == cluster, best))


@pytest.mark.parametrize("noise", [-1, "-1", None])
def test_noise_is_outside(noise):
    X, labels = make_blobs(90, centers=3, random_state=0)
    names = np.array(["a", "b", noise], dtype=object)[labels]
    found = describe_clusters(X, names)
    assert_array_equal(found.clusters, ["a", "b"])
    assert_array_equal(found.sizes, [30, 30])
    rest = describe_clusters(X, np.where(labels == 2, -1, labels))
    assert rest.rules == found.rules
    assert_array_equal(rest.clusters, [0, 1])


def test_clusters_of_one_sample_and_equal_samples():
    X = np.array([[0.0], [1], [2], [9]])
    found = describe_clusters(X, [0, 0, 0, 1])
    assert found.rules == ("x0 <= 6", "x0 > 6")
    assert_array_equal(np.isnan(found.precision), [False, True])
    found = describe_clusters(np.ones((8, 2)), [0] * 4 + [1] * 4)
    assert found.rules == ("all samples",) * 2
    assert_array_equal(found.precision, 0.5)
    assert_array_equal(found.effects, 0.5)


def test_tables():
    table, labels = mixed_table()
    found = describe_clusters(table, labels, n_features=2)
    assert repr(found) == "ClusterDescription(3 clusters, 6 features)"
    frame = found.to_frame()
    assert frame.index.name == "cluster"
    assert list(frame.columns) == ["size", "rule", "precision", "recall"]
    assert_array_equal(frame["size"], [np.sum(labels == k) for k in range(3)])
    frame = found.features_to_frame()
    assert list(frame["cluster"]) == [0, 0, 1, 1, 2, 2]
    for _, row in frame.iterrows():
        j = list(found.features).index(row["feature"])
        assert row["effect"] == found.effects[row["cluster"], j]
        assert row["inside"] == found.inside[row["cluster"], j]
        assert row["outside"] == found.outside[row["cluster"], j]
    everything = describe_clusters(table, labels, n_features=None)
    assert len(everything.features_to_frame()) == 3 * 6


def test_display():
    table, labels = mixed_table()
    found = describe_clusters(table, labels, n_features=2)
    display = found.plot()
    shown = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert set(shown) == set(found.features_to_frame()["feature"])
    columns = [list(found.features).index(name) for name in shown]
    assert_array_equal(display.image_.get_array(), found.strengths[:, columns].T)
    written = [float(text.get_text()) for text in display.texts_]
    assert_allclose(written, found.inside[:, columns].T.ravel(), rtol=0.01)
    _, ax = plt.subplots()
    assert ClusterDescriptionDisplay(found).plot(ax=ax).ax_ is ax
    assert ax.figure is ClusterDescriptionDisplay(found).plot(ax).figure_


TABLE = pd.DataFrame({"age": [1, 2, 3, 4]})


@pytest.mark.parametrize(
    "X, labels, message",
    [
        (TABLE, [0, 0, 1], "inconsistent numbers of samples"),
        (TABLE, [0, 0, 0, 0], "Got 1 clusters of 4 of 4 samples"),
        (TABLE, [-1, -1, -1, -1], "Got 0 clusters of 0 of 4 samples"),
        (TABLE, np.array(["a", "a", 1, 1], dtype=object), "strings only"),
        (TABLE.astype(object), [0, 0, 1, 1], "'age' of type object with 1"),
        (pd.DataFrame({"age": [1, None, 3, 4]}, dtype=object), [0, 0, 1, 1], "'age'"),
        (TABLE.assign(day=pd.Timestamp("2026-01-01")), [0, 0, 1, 1], "'day' of type"),
        (TABLE.replace(4, np.inf), [0, 0, 1, 1], "infinity"),
        (pd.DataFrame({"a": [None] * 4}), [0, 0, 1, 1], "0 feature"),
        (sparse.csr_array([[np.nan], [1], [2], [3]]), [0, 0, 1, 1], "contains NaN"),
        ([["a"], ["b"], ["a"], ["b"]], [0, 0, 1, 1], "Encode categories"),
        (np.ma.masked_array(np.eye(4)), [0, 0, 1, 1], "masked array"),
    ],
)
def test_wrong_input_is_refused(X, labels, message):
    with pytest.raises(ValueError, match=message):
        describe_clusters(X, labels)


def test_a_matrix_of_levels_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda name: 2**15)  # pages of memory, and bytes
    table = pd.DataFrame({"name": [f"n{i}" for i in range(17_000)]})
    with pytest.raises(ValueError, match="levels of column 'name'.*identifiers"):
        describe_clusters(table, np.arange(17_000) % 2)
