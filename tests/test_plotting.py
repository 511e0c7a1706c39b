"""Displays, by their artists."""

import matplotlib as mpl
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdiffclust import (
    GEMINI,
    GraphCutClustering,
    SpanningForestClustering,
    SparseGEMINI,
    SparseGEMINICV,
)
from skdiffclust.plotting import (
    CondensedTreeDisplay,
    ConnectivityDisplay,
    NClustersCurveDisplay,
    SelectionProbabilityDisplay,
    SpanningForestDisplay,
    SparsePathDisplay,
    TrainingHistoryDisplay,
)

mpl.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def moons():
    return make_moons(60, noise=0.04, random_state=0)


def ends(lines):
    """Return the set of segments of a LineCollection, whichever end comes first."""
    return {frozenset(map(tuple, part)) for part in lines.get_segments()}


# ------------------------------------------------------------------ forests


def test_forest_edges_and_cut_edges(moons):
    X, _ = moons
    forest = SpanningForestClustering(4).fit(X)
    display = SpanningForestDisplay.from_estimator(forest, X)
    expected = {frozenset(map(tuple, X[edge])) for edge in forest.forest_edges_}
    tree = {frozenset(map(tuple, X[edge])) for edge in forest.edges_}
    assert ends(display.edges_) == expected
    assert ends(display.cut_edges_) == tree - expected
    assert len(tree - expected) == 3
    # A line style is (offset, pattern); a solid line has no pattern.
    assert display.cut_edges_.get_linestyle()[0][1] is not None
    assert display.edges_.get_linestyle()[0][1] is None
    assert_array_equal(display.points_.get_offsets(), X)
    colours = display.points_.get_facecolors()
    for cluster in range(4):
        assert len(np.unique(colours[forest.labels_ == cluster], axis=0)) == 1
    assert len(np.unique(colours, axis=0)) == 4


def test_constrained_forest(moons):
    X, y = moons
    forest = SpanningForestClustering(2).fit(X, must_link=[[0, 59]])
    display = SpanningForestDisplay.from_estimator(forest, X)
    expected = {frozenset(map(tuple, X[edge])) for edge in forest.forest_edges_}
    tree = {frozenset(map(tuple, X[edge])) for edge in forest.edges_}
    assert ends(display.edges_) == expected
    assert ends(display.cut_edges_) == tree - expected
    assert len(expected) == 58
    # The link moves samples to the other cluster, by an edge that is not in the tree.
    assert forest.labels_[0] == forest.labels_[59]
    assert expected - tree


def test_forest_on_given_axes_and_with_styles(moons):
    X, _ = moons
    figure, ax = plt.subplots()
    forest = SpanningForestClustering(2).fit(X)
    display = SpanningForestDisplay.from_estimator(
        forest, X, ax=ax, edge_kw={"colors": "blue"}, cut_kw={"linewidths": 4}
    )
    assert display.ax_ is ax and display.figure_ is figure
    assert_array_equal(display.edges_.get_colors()[0], [0, 0, 1, 1])
    assert display.cut_edges_.get_linewidths() == [4]
    # A display can be drawn again, elsewhere.
    assert display.plot().ax_ is not ax


# ------------------------------------------------------------------ connectivity


def test_connectivity_of_hard_labels(moons):
    X, _ = moons
    model = make_pipeline(StandardScaler(), SpanningForestClustering(3)).fit(X)
    display = ConnectivityDisplay.from_estimator(model, X)
    drawn = display.image_.get_array()
    labels = np.sort(model.predict(X))
    assert_array_equal(drawn, labels[:, None] == labels)
    assert_array_equal(model.predict(X)[display.order_], labels)
    # Two borders between three clusters, in both directions; a colour bar.
    borders = {line.get_xdata()[0] for line in display.ax_.lines} - {0, 1}
    assert borders == {np.sum(labels == 0) - 0.5, np.sum(labels < 2) - 0.5}
    assert len(display.ax_.lines) == 4
    assert len(display.figure_.axes) == 2


def test_connectivity_of_probabilities(moons):
    X, _ = moons
    model = GaussianMixture(2, random_state=0).fit(X)
    display = ConnectivityDisplay.from_estimator(model, X, colorbar=False)
    proba = model.predict_proba(X)
    assert_array_equal(display.connectivity, proba @ proba.T)
    assert len(display.figure_.axes) == 1


def test_connectivity_of_several_clusterings():
    labels = [[0, 0, 1, 1], [5, 5, 5, 7], [0, 1, 2, 3]]
    display = ConnectivityDisplay.from_labels(labels)
    assert_array_equal(
        display.connectivity * 3,
        [[3, 2, 1, 0], [2, 3, 1, 0], [1, 1, 3, 1], [0, 0, 1, 3]],
    )
    assert_array_equal(display.order_, [0, 1, 2, 3])


# ------------------------------------------------------------------ training


@pytest.mark.few_epochs
def test_history_of_an_estimator(moons):
    X, _ = moons
    model = GEMINI(2, max_iter=7, n_init=1, tol=0, random_state=0).fit(X)
    display = TrainingHistoryDisplay.from_estimator(model)
    assert set(display.lines_) == set(model.history_)
    for axes, (name, line) in zip(display.axes_, display.lines_.items(), strict=True):
        assert_array_equal(line.get_xdata(), np.arange(1, model.n_iter_ + 1))
        assert_array_equal(line.get_ydata(), model.history_[name])
        assert axes.get_ylabel() == name


def test_history_columns_and_axes():
    history = {"loss": [2.0, 1.0], "objective": [0.0, 3.0]}
    figure, ax = plt.subplots()
    display = TrainingHistoryDisplay(history).plot(
        ax, columns=["objective"], color="red"
    )
    assert list(display.axes_) == [ax] and display.figure_ is figure
    assert display.lines_["objective"].get_color() == "red"
    with pytest.raises(ValueError, match="'columns' .* Got .'accuracy'. instead"):
        TrainingHistoryDisplay(history).plot(columns=["accuracy"])
    with pytest.raises(ValueError, match="'columns' .* Got .. instead"):
        TrainingHistoryDisplay({}).plot()
    with pytest.raises(ValueError, match="'ax' .* 2 Axes. Got 1 instead. Make"):
        TrainingHistoryDisplay(history).plot(ax)


def test_what_an_estimator_does_not_have_is_named(moons):
    X, _ = moons
    forest = SpanningForestClustering().fit(X)
    cut = GraphCutClustering(2, n_init=1, random_state=0).fit(X)
    sparse = SparseGEMINI(2, max_iter=2, n_init=1, random_state=0).fit(X)
    for draw, model, name in (
        (TrainingHistoryDisplay.from_estimator, forest, "history_"),
        (NClustersCurveDisplay.from_estimator, sparse, "n_clusters_curve_"),
        (lambda m: SpanningForestDisplay.from_estimator(m, X), cut, "forest_edges_"),
    ):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'") as caught:
            draw(model)
        assert not isinstance(caught.value, NotFittedError)


# ------------------------------------------------------------------ paths


@pytest.mark.parametrize("model", ["linear", "mlp"])
@pytest.mark.few_epochs
def test_path_of_an_estimator(model):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(40, 4)) + 4 * np.repeat([[0, 0, 0, 0], [1, 1, 0, 0]], 20, 0)
    sparse = SparseGEMINI(
        2, model=model, max_iter=20, learning_rate=0.1, n_init=1, random_state=0
    )
    options = {"min_features": 1, "alpha_multiplier": 1.5}
    display = SparsePathDisplay.from_estimator(sparse, X, **options)
    assert not hasattr(sparse, "labels_")
    path = sparse.path(X, **options)
    assert path.chosen > 0
    assert path.chosen > 0
    alphas = path.alphas[1:]  # the first is zero
    for name in ("objectives", "n_features"):
        (line,) = display.lines_[name]
        assert_array_equal(line.get_xdata(), alphas)
        assert_array_equal(line.get_ydata(), getattr(path, name)[1:])
    curves = np.array([line.get_ydata() for line in display.lines_["weights"]]).T
    assert_array_equal(curves > 0, path.supports[1:])
    assert_array_equal(curves[path.chosen - 1], sparse.feature_norms_)
    for ax in display.axes_:
        (marker,) = [line for line in ax.lines if line.get_linestyle() == ":"]
        assert set(marker.get_xdata()) == {sparse.alpha_}


@pytest.mark.few_epochs
def test_selection_probabilities_by_name():
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 4)) + 6 * np.repeat([[0, 0, 0, 0], [0, 1, 0, 1]], 30, 0)
    names = ["a", "b", "c", "d"]
    stable = SparseGEMINICV(
        SparseGEMINI(n_init=1), n_alphas=5, n_resamples=3, random_state=0
    )
    draw = SelectionProbabilityDisplay.from_estimator
    with pytest.raises(NotFittedError):
        draw(stable)
    stable.fit(pd.DataFrame(X, columns=names))
    assert_array_equal(stable.path_.plot().feature_names, names)
    display = draw(stable)
    assert list(display.lines_) == names
    for name, curve in zip(names, stable.selection_probabilities_.T, strict=True):
        assert_array_equal(display.lines_[name].get_xdata(), stable.alphas_)
        assert_array_equal(display.lines_[name].get_ydata(), curve)
    first, second = display.axes_
    shown = [text.get_text() for text in first.get_legend().get_texts()]
    assert shown == [names[i] for i in np.flatnonzero(stable.stable_features_)]
    assert "b" in shown
    assert "a" not in shown
    assert_array_equal(second.lines[0].get_ydata(), stable.cluster_stability_)
    assert_array_equal(second.lines[1].get_ydata(), stable.support_stability_)
    for ax in display.axes_:
        (marker,) = [line for line in ax.lines if line.get_linestyle() == ":"]
        assert set(marker.get_xdata()) == {stable.stable_alpha_}
    # Without names, and with others; on given axes.
    stable.fit(X)
    assert list(draw(stable).lines_) == ["x0", "x1", "x2", "x3"]
    fig, axes = plt.subplots(1, 2)
    other = draw(stable, feature_names=list("wxyz"), ax=axes)
    assert other.figure_ is fig
    assert list(other.lines_) == list("wxyz")
    with pytest.raises(ValueError, match="a name for each of 4 features. Got 2"):
        draw(stable, feature_names=["a", "b"])
    with pytest.raises(ValueError, match="must be 2 Axes. Got 3"):
        draw(stable, ax=plt.subplots(1, 3)[1])


# ---------------------------------------------------------------- scores of cuts


def test_scores_of_cuts(moons):
    X, _ = moons
    forest = SpanningForestClustering("auto").fit(X)
    display = NClustersCurveDisplay.from_estimator(forest, mark_kw={"linewidth": 3})
    assert_array_equal(
        display.lines_["score"].get_ydata(), forest.n_clusters_curve_["score"]
    )
    assert_array_equal(display.lines_["score"].get_xdata(), np.arange(2, 61))
    (ax,) = display.axes_
    assert ax.lines[1].get_xdata() == [forest.n_clusters_] * 2
    assert ax.lines[1].get_linewidth() == 3
    assert ax.get_yscale() == "log" and ax.get_xlabel() == "number of clusters"


def test_curves_by_number_of_clusters():
    curve = {"n_clusters": [2, 3], "score": [np.inf, 0.0], "stability": [np.nan] * 2}
    display = NClustersCurveDisplay(curve).plot()
    assert list(display.lines_) == ["score"]
    (ax,) = display.axes_
    assert len(ax.lines) == 1 and ax.get_yscale() == "linear"
    display.figure_.canvas.draw()
    axes = plt.subplots(1, 2)[1]
    display.plot(ax=axes, columns=["stability", "score"])
    assert [ax.get_ylabel() for ax in axes] == ["stability", "score"]
    with pytest.raises(ValueError, match="must be 1 Axes. Got 2"):
        display.plot(ax=axes)
    with pytest.raises(ValueError, match="must name some of"):
        display.plot(columns=["n_clusters"])


def polygon(area):
    """Return the corners of an area, its size and its range on the horizontal axis."""
    (path,) = area.get_paths()
    x, y = path.vertices.T
    size = abs(np.sum(x * np.roll(y, 1) - y * np.roll(x, 1))) / 2
    return size, x.min(), x.max()


@pytest.mark.parametrize("method", ["excess_of_mass", "leaf"])
@pytest.mark.parametrize("weights", [None, 3])
def test_areas_of_a_condensed_tree_are_stabilities(method, weights):
    X, _ = make_blobs(120, centers=4, random_state=1)
    X[:4] = X[0]  # an infinite density
    rng = np.random.default_rng(0)
    sample_weight = None if weights is None else rng.uniform(0.5, weights, len(X))
    forest = SpanningForestClustering(2).fit(X, sample_weight=sample_weight)
    _, ax = plt.subplots()
    display = CondensedTreeDisplay.from_estimator(
        forest, min_cluster_size=6, ax=ax, method=method, alpha=0.5
    )
    tree = forest.condensed_tree(6)
    n_samples = tree.n_samples
    n_clusters = len(tree.stability)
    assert display.ax_ is ax and len(display.areas_) == n_clusters > 3
    assert {area.get_alpha() for area in display.areas_} == {0.5}
    shapes = np.array([polygon(area) for area in display.areas_])
    last = tree.density[np.isfinite(tree.density)].max()
    is_equal = np.isin(np.arange(n_clusters), tree.parent[:4] - n_samples)
    # There, equal samples count up to the largest density of the cluster only.
    np.testing.assert_allclose(shapes[~is_equal, 0], tree.stability[~is_equal])
    assert np.all(shapes[is_equal, 0] >= tree.stability[is_equal] - 1e-9)
    assert np.isclose(max(display.ax_.get_ylim()), last, rtol=0.1)
    spans = shapes[:, 1:]
    above = tree.parent[n_samples:] - n_samples
    assert np.all(spans[1:, 0] >= spans[above, 0] - 1e-9)
    assert np.all(spans[1:, 1] <= spans[above, 1] + 1e-9)
    labels = tree.labels(method)
    for cluster, area in enumerate(display.areas_):
        inside = set(labels[tree.parent[:n_samples] - n_samples == cluster])
        colour = mpl.colors.to_rgba(area.get_facecolor()[0])[:3]
        if inside:
            (label,) = inside
            expected = "0.7" if label < 0 else f"C{label}"
            np.testing.assert_allclose(colour, mpl.colors.to_rgb(expected))
