"""PRCut: guarantees, refusals, and the state after a failed run."""

import pickle
import sys
import threading
import types

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.neighbors import KNeighborsTransformer, kneighbors_graph
from sklearn.preprocessing import MinMaxScaler

from skdiffclust import PRCut
from skdiffclust.cuts import _fitting, ratio_cut

# A fit in a tenth of a second.
QUICK = {
    "encoder": "mlp",
    "max_iter": 5,
    "hidden_layer_sizes": (8,),
    "n_init": 2,
    "random_state": 0,
}
FREE = QUICK | {"encoder": None}
ENCODERS = [None, "linear", "mlp"]
CORNERS = [[0, 0], [9, 0], [0, 9], [9, 9]]


@pytest.fixture(scope="module")
def blobs(global_random_seed):
    return make_blobs(120, centers=4, cluster_std=1.5, random_state=global_random_seed)


def symmetric(rng, n, density):
    upper = np.triu(rng.random_sample((n, n)) * (rng.rand(n, n) < density), 1)
    return upper + upper.T


# ---------------------------------------------------------------- what it promises


@pytest.mark.parametrize("cut", ["ratio", "normalized"])
@pytest.mark.parametrize("seed", range(3))
def test_pseudo_labels_never_cut_more_than_spectral_clustering(
    seed, cut, global_random_seed
):
    seed += 1000 * global_random_seed
    X, _ = load_digits(return_X_y=True)
    model = PRCut(10, cut=cut, encoder=None, init="spectral", random_state=seed).fit(X)
    peer = SpectralClustering(10, affinity="precomputed", random_state=seed)
    labels = peer.fit_predict(model.affinity_matrix_)
    normalized = cut == "normalized"
    highest = ratio_cut(model.affinity_matrix_, labels, normalized=normalized).value
    found = model.normalized_cut_ if normalized else model.ratio_cut_
    assert found <= highest * (1 + 1e-12)  # sums in another order
    assert model.n_clusters_ == 10


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("init", ["spectral", "k-means++", "random"])
def test_finds_blobs_and_predicts_them(encoder, init, global_random_seed):
    X, y = make_blobs(
        200, centers=CORNERS[:3], cluster_std=1.5, random_state=global_random_seed
    )
    model = PRCut(3, encoder=encoder, init=init, random_state=global_random_seed).fit(
        X[:150]
    )
    assert adjusted_rand_score(y[150:], model.predict(X[150:])) > 0.8
    assert model.ratio_cut_ == ratio_cut(model.affinity_matrix_, model.labels_).value
    normalized = ratio_cut(model.affinity_matrix_, model.labels_, normalized=True).value
    assert model.normalized_cut_ == normalized


def test_a_line_cannot_part_moons_but_a_perceptron_can(global_random_seed):
    X, y = make_moons(200, noise=0.05, random_state=global_random_seed)
    # Spectral clustering parts some of them elsewhere; the search does not.
    linear, perceptron = (
        PRCut(2, encoder=encoder, init="random", random_state=global_random_seed).fit(X)
        for encoder in ENCODERS[1:]
    )
    assert linear.normalized_cut_ > linear.pseudo_label_normalized_cut_
    assert adjusted_rand_score(y, perceptron.labels_) > 0.9


@pytest.mark.torch
@pytest.mark.parametrize("activation", ["gelu", "relu", "tanh"])
def test_the_activation_is_what_stands_between_the_layers(activation, blobs):
    import torch

    X, _ = blobs
    model = PRCut(4, activation=activation, **QUICK).fit(X)
    rows = torch.from_numpy((X - X.mean(axis=0)) / (X - X.mean(axis=0)).std())
    first, last = (torch.from_numpy(weight) for weight in model.coefs_)
    apply = {**vars(torch), "gelu": torch.nn.functional.gelu}[activation]
    hidden = apply(rows @ first + torch.from_numpy(model.intercepts_[0]))
    np.testing.assert_allclose(model.transform(X), hidden, atol=1e-12)
    logits = hidden @ last + torch.from_numpy(model.intercepts_[1])
    np.testing.assert_allclose(model.predict_proba(X), logits.softmax(1), atol=1e-12)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.few_epochs
def test_labels_are_those_of_predict_ordered_by_size(encoder, blobs):
    X, _ = blobs
    model = PRCut(4, **QUICK | {"encoder": encoder}).fit(X)
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    chunks = [model.predict(X[i : i + 7]) for i in range(0, len(X), 7)]
    np.testing.assert_array_equal(model.labels_, np.concatenate(chunks))
    assert model.labels_.dtype == np.int64
    np.testing.assert_array_equal(model.cluster_sizes_, np.bincount(model.labels_))
    assert (np.diff(model.cluster_sizes_) <= 0).all()
    assignments = model.predict_proba(X)
    np.testing.assert_allclose(assignments.sum(axis=1), 1.0)
    np.testing.assert_array_equal(assignments.argmax(axis=1), model.labels_)
    width = 8 if encoder == "mlp" else 4
    assert model.transform(X).shape == (120, width)
    assert len(model.get_feature_names_out()) == width
    # The number of trees of scikit-learn's search may order ties differently.
    assert model.score(X) == pytest.approx(-model.normalized_cut_, rel=0.05)
    model.set_params(cut="ratio")
    assert model.score(X) == pytest.approx(-model.ratio_cut_, rel=0.05)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_equal_rows_never_part(encoder, blobs):
    X = np.repeat(blobs[0][:60], 2, axis=0)
    model = PRCut(4, n_neighbors=15, **QUICK | {"encoder": encoder}).fit(X)
    assert (model.labels_.reshape(60, 2) == model.labels_[::2, None]).all()
    np.testing.assert_array_equal(model.predict(X[::2]), model.labels_[::2])


@pytest.mark.parametrize("cut", ["ratio", "normalized"])
def test_a_new_row_goes_where_the_cut_is_least(cut, blobs):
    X, _ = blobs
    model = PRCut(4, cut=cut, **FREE).fit(X[:100])
    for row in X[100:110]:
        links = model._predictor.affinity.links(row[None])
        graph = sp.block_array([[model.affinity_matrix_, links.T], [links, None]])
        cuts = [
            ratio_cut(
                graph,
                np.append(model.labels_, label),
                normalized=cut == "normalized",
            ).value
            for label in range(4)
        ]
        assert model.predict(row[None]) == np.argmin(cuts)


@pytest.mark.parametrize("cut", ["ratio", "normalized"])
@pytest.mark.parametrize("affinity", ["ranked_neighbors", "rbf", "transformer"])
def test_new_samples_do_not_depend_on_the_unit_of_a_given_graph(cut, affinity):
    X, y = load_digits(return_X_y=True)
    X, y, new, truth = X[:400] / 16, y[:400], X[400:600] / 16, y[400:600]
    graph = kneighbors_graph(X, 10)
    graph = graph.maximum(graph.T)
    if affinity == "transformer":
        affinity = KNeighborsTransformer(n_neighbors=10)
    model = PRCut(10, cut=cut, affinity=affinity, encoder=None, random_state=0)
    labels = model.fit(X, graph=graph).predict(new)
    assert (
        adjusted_rand_score(truth, labels) > adjusted_rand_score(y, model.labels_) - 0.1
    )
    for factor in (2.0**-20, 2.0**20):
        model.fit(X, graph=factor * graph)
        assert np.array_equal(model.predict(new), labels)


def test_encoders_keep_no_rows_and_nothing_of_torch(blobs):
    X, _ = blobs
    model = PRCut(4, **QUICK).fit(X)
    stored = pickle.dumps(model)
    assert b"torch" not in stored
    np.testing.assert_array_equal(pickle.loads(stored).predict(X), model.labels_)
    assert [w.shape for w in model.coefs_] == [(2, 8), (8, 4)]
    assert [b.shape for b in model.intercepts_] == [(8,), (4,)]
    with pytest.raises(AttributeError):
        model.encoder_  # noqa: B018


@pytest.mark.parametrize("affinity", ["rbf", "cosine"])
@pytest.mark.parametrize("encoder", [None, "mlp"])
def test_dense_affinities(affinity, encoder, global_random_seed):
    X, y = make_blobs(
        60, centers=[[3, 0], [0, 3]], cluster_std=0.5, random_state=global_random_seed
    )
    model = PRCut(2, affinity=affinity, temperature=0.5, **QUICK | {"encoder": encoder})
    assert adjusted_rand_score(y, model.fit(X).labels_) == 1.0
    assert adjusted_rand_score(y, model.predict(X + 1e-3)) == 1.0
    a, b = model.affinity_matrix_[0, 1], X[:2]
    expected = (
        np.exp(-np.sum((b[0] - b[1]) ** 2) / 0.5)
        if affinity == "rbf"
        else np.exp(
            (b[0] @ b[1] / np.linalg.norm(b[0]) / np.linalg.norm(b[1]) - 1) / 0.5
        )
    )
    assert a == pytest.approx(expected)


@pytest.mark.parametrize("affinity", ["rbf", "cosine"])
@pytest.mark.parametrize("temperature", [1e-3, 1e6])
# At the low temperature some rows have no neighbour within reach.
@pytest.mark.filterwarnings("ignore:The graph of PRCut")
@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_extreme_temperatures_stay_finite(affinity, temperature, blobs):
    model = PRCut(4, affinity=affinity, temperature=temperature, **FREE).fit(blobs[0])
    assert np.isfinite(model.ratio_cut_)


def test_affinity_of_a_callable_and_of_a_transformer(blobs):
    X, _ = blobs

    def inverse(X, Y):
        return 1.0 / (1.0 + np.square(X[:, None] - Y[None]).sum(axis=2))

    for affinity in (
        inverse,
        KNeighborsTransformer(n_neighbors=8, mode="distance"),
    ):
        model = PRCut(4, affinity=affinity, **FREE).fit(X)
        np.testing.assert_array_equal(model.predict(X), model.labels_)
        assert len(model.predict(X + 1e-3)) == 120
    assert set(model.affinity_matrix_.data) == {1.0}  # distances are not weights


@pytest.mark.few_epochs
def test_neighbours_are_ranked_unless_others_are_asked_for(blobs):
    X, _ = blobs
    alike = {"affinity": "nearest_neighbors", "n_neighbors": 10}
    ranked = {"affinity": "ranked_neighbors", "n_neighbors": 10}  # 120 x 2
    for encoder, other, expected in (
        (None, {}, ranked),
        (None, {"affinity": "nearest_neighbors"}, alike),
        (None, {"n_neighbors": 15}, ranked | {"n_neighbors": 15}),
        ("mlp", {}, ranked),
        ("mlp", {"n_neighbors": 15}, ranked | {"n_neighbors": 15}),
        ("mlp", {"affinity": "nearest_neighbors"}, alike),
    ):
        parameters = QUICK | {"encoder": encoder, "max_iter": 1}
        found = PRCut(4, **parameters, **other).fit(X)
        same = PRCut(4, **parameters, **expected).fit(X)
        difference = found.affinity_matrix_ - same.affinity_matrix_
        assert not difference.nnz
        np.testing.assert_array_equal(found.predict(X), found.labels_)


@pytest.mark.parametrize("init", ["auto", "spectral", "k-means++"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_sparse_samples_have_the_labels_of_dense_ones(init, metric, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    topics = rng.dirichlet(np.full(40, 0.1), size=3)
    y = rng.randint(3, size=150)
    X = np.stack([rng.multinomial(30, topics[label]) for label in y]) * 1.0
    X += (X > 0) * rng.random_sample(X.shape)  # no ties
    dense = PRCut(3, metric=metric, init=init, random_state=0).fit(X[:120])
    rows = sp.csr_array(X[:120])
    model = PRCut(3, metric=metric, init=init, random_state=0).fit(rows)
    np.testing.assert_array_equal(model.labels_, dense.labels_)
    np.testing.assert_array_equal(model.predict(rows), model.labels_)
    new = sp.csr_array(X[120:])
    np.testing.assert_array_equal(model.predict(new), dense.predict(X[120:]))
    assert model.score(new) == pytest.approx(dense.score(X[120:]))
    if metric == "cosine":
        assert adjusted_rand_score(y[:120], model.labels_) > 0.8
        longer = np.linspace(0.1, 10, 120)[:, None] * X[:120]
        again = PRCut(3, metric=metric, init=init, random_state=0).fit(longer)
        np.testing.assert_array_equal(again.labels_, model.labels_)


def test_a_text_with_words_of_its_own_goes_to_the_nearest_or_is_noise(
    global_random_seed,
):
    rng = np.random.RandomState(global_random_seed)
    X = np.kron(np.eye(2), np.ones((10, 3))) * (1.0 + rng.random_sample((20, 6)))
    X = sp.block_array([[sp.csr_array(X), None], [None, sp.csr_array([[1.0]])]]).tocsr()
    settings = {"metric": "cosine", "n_neighbors": 4, "random_state": 0}
    with pytest.warns(UserWarning, match="The graph of PRCut has 1 nodes in 1 parts"):
        assert (PRCut(2, **settings).fit(X).labels_ >= 0).all()
    with pytest.warns(UserWarning, match="The graph of PRCut has 1 nodes in 1 parts"):
        noise = PRCut(2, small_components="noise", **settings).fit(X).labels_
    assert noise[-1] == -1
    np.testing.assert_array_equal(noise[:20] == noise[0], np.arange(20) < 10)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("affinity", ["ranked_neighbors", "callable", "transformer"])
@pytest.mark.parametrize("fitted", [np.asarray, sp.csr_array])
def test_samples_to_predict_may_be_in_another_container(
    fitted, affinity, metric, global_random_seed
):
    rng = np.random.RandomState(global_random_seed)
    X = rng.uniform(size=(60, 5)) * (rng.uniform(size=(60, 5)) < 0.7) + np.eye(5)[0]
    kinds = {
        "callable": lambda X, Y: sp.csr_array((X @ Y.T) * 1.0),
        "transformer": KNeighborsTransformer(n_neighbors=8),
    }
    model = PRCut(3, affinity=kinds.get(affinity, affinity), metric=metric, **FREE)
    model.fit(fitted(X[:40]))
    np.testing.assert_array_equal(model.predict(X[:40]), model.labels_)
    forms = [np.asarray, sp.csr_array, sp.coo_array, sp.csc_matrix]
    labels = model.predict(fitted(X))
    score = model.score(fitted(X))
    for form in [*forms, lambda X: sp.csr_array(X.astype(np.float32))]:
        rows = form(X)
        if rows.dtype == X.dtype:
            np.testing.assert_array_equal(model.predict(rows), labels)
            assert model.score(rows) == pytest.approx(score)
        assert model.predict_proba(rows).shape == model.transform(rows).shape == (60, 3)


@pytest.mark.parametrize("affinity", ["rbf", "cosine"])
def test_dense_affinities_predict_sparse_samples(affinity, blobs):
    X, _ = blobs
    model = PRCut(4, affinity=affinity, **FREE).fit(X[:100])
    np.testing.assert_array_equal(model.predict(sp.csr_array(X)), model.predict(X))
    with pytest.raises(ValueError, match=r"nearest_neighbors.* for sparse X"):
        model.fit(sp.csr_array(X))


def test_what_an_affinity_does_not_use_is_ignored(blobs):
    X, _ = blobs
    graph = PRCut(4, **FREE).fit(X).affinity_matrix_
    unused = {"n_neighbors": [5], "metric": ["cosine"], "temperature": [2.0]}
    for affinity, used in (
        ("precomputed", []),
        ("rbf", ["temperature"]),
        (KNeighborsTransformer(n_neighbors=8), []),
        ("ranked_neighbors", ["n_neighbors", "metric"]),
    ):
        given = graph if affinity == "precomputed" else X
        model = PRCut(4, affinity=affinity, **FREE)
        labels = model.fit(given).labels_
        others = {n: values for n, values in unused.items() if n not in used}
        for parameters in ParameterGrid(others):
            found = clone(model).set_params(**parameters).fit(given)
            np.testing.assert_array_equal(found.labels_, labels)
    search = GridSearchCV(
        PRCut(4, **FREE),
        {"affinity": ["rbf", "ranked_neighbors"], **unused},
        error_score="raise",
        cv=2,
    )
    assert np.isfinite(search.fit(X).cv_results_["mean_test_score"]).all()


def test_approximate_neighbours_by_name(blobs, monkeypatch):
    X, _ = blobs
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    with pytest.raises(ImportError, match=r"skdiffclust\[nndescent\]"):
        PRCut(4, affinity="nndescent", **FREE).fit(X)

    class Transformer(KNeighborsTransformer):
        """pynndescent's, as far as PRCut knows it."""

        def __init__(self, n_neighbors=30, metric="euclidean", random_state=None):
            super().__init__(n_neighbors=n_neighbors, metric=metric)
            self.random_state = random_state

    module = types.SimpleNamespace(PyNNDescentTransformer=Transformer)
    monkeypatch.setitem(sys.modules, "pynndescent", module)
    for metric in ("euclidean", "cosine"):
        found, exact = (
            PRCut(4, affinity=affinity, metric=metric, n_neighbors=k, **FREE).fit(X)
            for affinity, k in (("nndescent", 8), ("nearest_neighbors", 8))
        )
        same = (found.affinity_matrix_ - exact.affinity_matrix_).nnz
        assert same <= 0.02 * exact.affinity_matrix_.nnz  # ties
        np.testing.assert_array_equal(found.predict(X), found.labels_)


@pytest.mark.long
def test_pynndescent_by_name_and_as_a_transformer():
    # Marked long: its kernels compile for a minute.
    pynndescent = pytest.importorskip("pynndescent")
    X = load_digits().data
    train, new = X[:1200], X[1200:]
    exact = PRCut(10, random_state=0).fit(train)
    for affinity in (
        "nndescent",
        pynndescent.PyNNDescentTransformer(n_neighbors=10, random_state=0),
    ):
        model = PRCut(10, affinity=affinity, random_state=0).fit(train)
        missed = (exact.affinity_matrix_ - model.affinity_matrix_) > 0
        assert missed.nnz <= 0.05 * exact.affinity_matrix_.nnz
        assert model.normalized_cut_ <= 1.05 * exact.normalized_cut_
        np.testing.assert_array_equal(model.predict(train), model.labels_)
        assert adjusted_rand_score(exact.predict(new), model.predict(new)) > 0.8
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(new), model.predict(new))
    sparse = PRCut(10, affinity="nndescent", random_state=0).fit(sp.csr_array(train))
    assert adjusted_rand_score(exact.labels_, sparse.labels_) > 0.8


def test_large_graphs_have_fewer_starts(blobs, monkeypatch):
    graph = PRCut(4, **FREE).fit(blobs[0]).affinity_matrix_
    n_edges = graph.nnz // 2
    ten = PRCut(4, affinity="precomputed")
    assert _fitting.count_starts(ten, graph) == 10
    for budget, expected in ((10 * n_edges, 10), (4 * n_edges, 4), (n_edges, 2)):
        monkeypatch.setattr(_fitting, "_SEARCHED_EDGES", budget)
        assert _fitting.count_starts(ten, graph) == expected
        found, asked = (
            PRCut(4, affinity="precomputed", n_init=n, random_state=0).fit(graph)
            for n in ("auto", expected)
        )
        np.testing.assert_array_equal(found.labels_, asked.labels_)
    for parameters in ({"n_init": 7}, {"init": "spectral"}, {"local_search": False}):
        count = _fitting.count_starts(clone(ten).set_params(**parameters), graph)
        assert count == parameters.get("n_init", 10)


def test_a_precomputed_graph_has_labels_and_no_predict(blobs):
    graph = PRCut(4, **FREE).fit(blobs[0]).affinity_matrix_
    for given in (graph, graph.toarray(), sp.csc_matrix(graph)):
        model = PRCut(4, affinity="precomputed", **FREE).fit(given)
        assert model.ratio_cut_ == ratio_cut(graph, model.labels_).value
    for method in ("predict", "predict_proba", "transform", "score", "partial_fit"):
        assert not hasattr(model, method)


def test_all_labels_known_make_it_a_classifier():
    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    model = PRCut(10, encoder="mlp", n_init=2, random_state=0)
    model.fit(X[:400], partial_labels=y[:400])
    assert adjusted_rand_score(y[:400], model.labels_) == 1.0
    assert adjusted_rand_score(y[400:], model.predict(X[400:])) > 0.6


def test_restarts_without_pseudo_labels_keep_the_best_that_uses_all_clusters(
    blobs, global_random_seed
):
    X, _ = blobs
    settings = {
        "init": "random",
        "local_search": False,
        "max_iter": 15,
        "random_state": global_random_seed,
    }
    for encoder in ("linear", None):
        one = PRCut(4, encoder=encoder, n_init=1, **settings)
        many = PRCut(4, encoder=encoder, n_init=6, **settings)
        few, best = (_fit_quietly(model, X) for model in (one, many))
        assert np.isnan(best.pseudo_label_ratio_cut_)
        assert best.n_clusters_ >= few.n_clusters_
        assert min(best.history_["loss"]) <= min(few.history_["loss"])


def _fit_quietly(model, X):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X)


@pytest.mark.parametrize("objective", ["exact", "bound"])
@pytest.mark.parametrize("sampling", ["full", "pairs", "neighbors"])
def test_soft_training_alone_lowers_the_cut(objective, sampling, global_random_seed):
    X, y = make_blobs(
        90, centers=CORNERS[:3], cluster_std=0.7, random_state=global_random_seed
    )
    model = PRCut(
        3,
        encoder="linear",
        init="random",
        local_search=False,
        objective=objective,
        sampling=sampling,
        batch_size=30,
        learning_rate=0.05,
        max_iter=60,
        n_init=2,
        random_state=global_random_seed,
    ).fit(X)
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(y, model.labels_) > 0.9


def test_a_stream_is_learned_batch_by_batch(global_random_seed):
    X, y = make_blobs(
        600, centers=CORNERS, cluster_std=0.8, random_state=global_random_seed
    )
    model = PRCut(4, encoder="linear", max_iter=20, random_state=global_random_seed)
    for start in range(0, 600, 150):
        before = model.coefs_ if start else None
        kept = [w.copy() for w in before] if start else None
        model.partial_fit(X[start : start + 150])
        if start:  # arrays are replaced, never written
            for old, copy in zip(before, kept, strict=True):
                np.testing.assert_array_equal(old, copy)
            assert model.n_iter_ == len(model.history_["loss"])
    assert adjusted_rand_score(y, model.predict(X)) > 0.9
    assert len(model.labels_) == 150
    assert not hasattr(PRCut(encoder=None), "partial_fit")


def test_a_stream_is_followed_where_its_clusters_go(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    model = PRCut(3, encoder="mlp", random_state=global_random_seed)
    for time in range(21):
        y = rng.randint(3, size=100)
        angle = 2 * np.pi / 3 * (y + time / 20)  # each to the place of the next
        X = 4 * np.column_stack([np.cos(angle), np.sin(angle)])
        X += 0.9 * rng.normal(size=(100, 2))
        if not time:
            model.partial_fit(X)
            rows = [y[model.labels_ == c] for c in range(3)]
            names = np.array([np.bincount(sources, minlength=3) for sources in rows])
            continue
        right = names.argmax(axis=1)[model.predict(X)] == y  # before it is learned
        assert right.mean() > 0.8
        model.partial_fit(X)


@pytest.mark.parametrize("encoder", [None, "mlp"])
def test_the_same_seed_gives_the_same_bits(encoder, blobs):
    first, second = (
        PRCut(4, **QUICK | {"encoder": encoder}).fit(blobs[0]) for _ in range(2)
    )
    np.testing.assert_array_equal(first.labels_, second.labels_)
    assert first.history_ == second.history_


def test_global_random_streams_are_left_alone(blobs):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    PRCut(4, **QUICK).fit(blobs[0])
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_callbacks_see_every_epoch(blobs):
    from sklearn.callback import ScoringMonitor

    monitor = ScoringMonitor(scoring="adjusted_rand_score")
    model = PRCut(4, **QUICK).set_callbacks(monitor).fit(*blobs)
    assert model.n_iter_ == len(model.history_["loss"])
    assert len(monitor.get_logs().data) >= model.n_iter_


# ------------------------------------------------------------------ what it refuses


@pytest.mark.parametrize(
    "change, match",
    [
        ({"n_clusters": 0}, "'n_clusters' parameter of PRCut"),
        ({"n_clusters": 121}, "at most the number of samples, n_samples=120. Got 121"),
        ({"n_clusters": 2.5}, "'n_clusters' parameter of PRCut"),
        ({"n_clusters": "3"}, "'n_clusters' parameter of PRCut"),
        ({"temperature": np.nan}, "'temperature' parameter of PRCut"),
        ({"balance_weight": np.nan}, "'balance_weight' parameter of PRCut"),
        ({"learning_rate": 0.0}, "'learning_rate' parameter of PRCut"),
        ({"averaging_rate": 0.0}, "'averaging_rate' parameter of PRCut"),
        ({"init": "pca"}, "'init' parameter of PRCut"),
        ({"encoder": "tree"}, "'encoder' parameter of PRCut"),
        ({"activation": "sine"}, "'activation' parameter of PRCut must be a str among"),
        ({"hidden_layer_sizes": (0,)}, "'hidden_layer_sizes' parameter of PRCut"),
        ({"device": "abacus"}, "'device' parameter of PRCut must be 'auto' or one of"),
        ({"affinity": "precomputed"}, "'encoder' parameter of PRCut must be None"),
        ({"cut": "min"}, "'cut' parameter of PRCut"),
        ({"max_imbalance": -0.1}, "'max_imbalance' parameter of PRCut"),
        ({"min_cluster_size": 31}, "at most the mean size of a cluster, 30. Got 31"),
        ({"max_imbalance": 0.1, "local_search": False}, "need local_search=True"),
    ],
)
def test_wrong_parameters_are_refused_by_name(change, match, blobs):
    with pytest.raises(ValueError, match=match):
        PRCut(**(QUICK | {"n_clusters": 4} | change)).fit(blobs[0])


@pytest.mark.parametrize(
    "X, match",
    [
        ([[0.0, np.nan], [1.0, 2.0]], "NaN"),
        ([[0.0, np.inf], [1.0, 2.0]], "infinity"),
        (np.array([[1e300], [-1e300], [0.0]]), "distances overflow"),
        (np.array([[1e36], [-1e36], [0.0]], dtype=np.float32), "float32"),
        ([["a"], ["b"]], "must be numeric"),
        (np.array([[1 + 2j], [3]]), "Complex"),
        (np.array(["2020-01-01"], dtype="datetime64[D]")[:, None], "must be numeric"),
        (np.ma.masked_array([[1.0], [2.0]], mask=[[0], [1]]), "masked"),
        (sp.csr_array(np.eye(4)), "sparse X"),
    ],
)
def test_wrong_rows_are_refused(X, match):
    with pytest.raises((ValueError, TypeError), match=match):
        PRCut(2, **QUICK).fit(X)


@pytest.mark.parametrize(
    "graph, match",
    [
        (np.ones((3, 3)), "one vertex for each sample of X, 120. Got 3"),
        (np.ones((120, 3)), "square matrix"),
        (-np.ones((120, 120)), "must not have negative weights"),
        (np.full((120, 120), np.nan), "must be finite. Got NaN"),
    ],
)
def test_wrong_graphs_are_refused(graph, match, blobs):
    with pytest.raises(ValueError, match=match):
        PRCut(4, **QUICK).fit(blobs[0], graph=graph)


@pytest.mark.few_epochs
def test_more_parts_than_clusters_are_put_together_whole(blobs):
    blocks = [np.ones((size, size)) for size in (50, 40, 30)]
    parts = sp.block_diag(blocks, format="csr")
    with pytest.warns(UserWarning, match="3 parts that no edge joins.*n_clusters=2"):
        model = PRCut(2, **FREE).fit(blobs[0], graph=parts)
    np.testing.assert_array_equal(model.labels_, np.repeat([1, 0, 0], [50, 40, 30]))
    assert model.ratio_cut_ == model.normalized_cut_ == 0.0
    parts = sp.block_diag([np.ones((40, 40))] * 3, format="csr")
    assert PRCut(3, **QUICK).fit(blobs[0], graph=parts).pseudo_label_ratio_cut_ == 0.0


def test_own_neighbours_in_more_parts_than_clusters_are_warned_of(global_random_seed):
    X, _ = make_blobs(
        90, centers=CORNERS[:3], cluster_std=0.1, random_state=global_random_seed
    )
    with pytest.warns(UserWarning, match="3 parts that no edge joins"):
        model = PRCut(2, n_neighbors=5, **FREE).fit(X)
    assert model.ratio_cut_ == 0.0 and model.n_clusters_ == 2


def test_isolated_vertices_are_warned_of(blobs):
    graph = PRCut(4, **FREE).fit(blobs[0]).affinity_matrix_.toarray()
    graph[5] = graph[:, 5] = 0.0
    with pytest.warns(UserWarning, match="1 nodes in 1 parts that no edge joins"):
        model = PRCut(4, **FREE).fit(blobs[0], graph=graph)
    X = blobs[0]
    nearest = np.argsort(np.linalg.norm(X - X[5], axis=1))[1]
    assert model.labels_[5] == model.labels_[nearest]
    assert np.isfinite(model.ratio_cut_) and np.isfinite(model.normalized_cut_)


@pytest.fixture(scope="module")
def giant():
    """A ring of 60 nodes, a pair and two single nodes in the middle of the numbers."""
    order = np.r_[0:20, 24:64]
    first, second = order, np.roll(order, -1)
    graph = np.zeros((64, 64))
    graph[first, second] = graph[second, first] = 1.0
    graph[20, 21] = graph[21, 20] = 1.0
    return graph


@pytest.mark.parametrize("init", ["random", "spectral"])
@pytest.mark.parametrize("cut", ["ratio", "normalized"])
def test_a_giant_part_is_cut_and_small_ones_are_put_to_the_largest(giant, init, cut):
    model = PRCut(3, cut=cut, init=init, affinity="precomputed", encoder=None)
    with pytest.warns(UserWarning, match="4 nodes in 3 parts .* into the largest"):
        model.fit(giant)
    assert set(model.labels_[20:24]) == {0}
    np.testing.assert_array_equal(model.cluster_sizes_, [24, 20, 20])
    assert model.ratio_cut_ == pytest.approx(2 / 24 + 2 / 20 + 2 / 20)


def test_small_parts_are_noise_on_request(giant):
    model = PRCut(3, small_components="noise", affinity="precomputed", encoder=None)
    with pytest.warns(UserWarning, match="They are labelled -1"):
        model.fit(giant)
    assert (model.labels_[20:24] == -1).all() and model.n_clusters_ == 3
    np.testing.assert_array_equal(model.cluster_sizes_, [20, 20, 20])
    assert model.ratio_cut_ == pytest.approx(6 / 20)
    assert model.normalized_cut_ == pytest.approx(6 / 40)
    rows = np.arange(64.0)[:, None]
    rows[20:24] = [[1000.0], [1001.0], [5000.0], [5001.0]]
    with pytest.raises(ValueError, match="'small_components' parameter of PRCut"):
        PRCut(3, small_components="noise", encoder="mlp").fit(rows, graph=giant)
    model = PRCut(3, small_components="noise", encoder=None, n_neighbors=2)
    with pytest.warns(UserWarning, match="They are labelled -1"):
        model.fit(rows, graph=giant)
    np.testing.assert_array_equal(model.predict(rows), model.labels_)
    assert model.predict([[1000.5]]) == -1 and model.predict([[3.5]]) >= 0
    np.testing.assert_allclose(model.predict_proba(rows[20:21]), 1 / 3)
    assert model.score(rows) <= 0.0


@pytest.mark.parametrize("init", ["random", "spectral", "k-means++"])
@pytest.mark.parametrize("imbalance", [0.0, 0.1, 0.5])
def test_sizes_stay_within_their_bounds(init, imbalance, global_random_seed):
    sizes = [70, 25, 15, 10]
    X, _ = make_blobs(sizes, centers=CORNERS, random_state=global_random_seed)
    options = FREE | {"init": init, "random_state": global_random_seed}
    model = PRCut(4, max_imbalance=imbalance, **options).fit(X)
    mean = 30
    assert model.cluster_sizes_.max() <= (1 + imbalance) * mean
    assert model.cluster_sizes_.min() >= (1 - imbalance) * mean
    model = PRCut(4, min_cluster_size=20, **options).fit(X)
    assert model.cluster_sizes_.min() >= 20


@pytest.mark.parametrize(
    ("bound", "sizes"),
    [
        ({"max_imbalance": 0.1}, [8, 8]),
        ({"max_imbalance": 0.3}, [10, 6]),
        ({"min_cluster_size": 7}, [9, 7]),
    ],
)
def test_noise_does_not_count_in_the_bounds_on_sizes(bound, sizes):
    graph = sp.block_diag([np.ones((10, 10)), np.ones((6, 6)), np.zeros((8, 8))])
    model = PRCut(2, small_components="noise", affinity="precomputed", random_state=0)
    model.set_params(**bound)
    with pytest.warns(UserWarning, match="They are labelled -1") as warned:
        model.fit(graph)
    assert len(warned) == 1
    np.testing.assert_array_equal(model.cluster_sizes_, sizes)
    np.testing.assert_array_equal(model.labels_ < 0, np.arange(24) >= 16)
    with pytest.raises(ValueError, match="mean size of a cluster, 8. Got 9"):
        model.set_params(min_cluster_size=9).fit(graph)


def test_noise_needs_a_search():
    model = PRCut(2, small_components="noise", init="random", local_search=False)
    with pytest.raises(ValueError, match="'small_components' .* Set local_search=True"):
        model.set_params(affinity="precomputed").fit(np.zeros((9, 9)))


def test_bounds_and_parts_are_those_of_the_first_samples_of_a_stream():
    X, _ = make_blobs([30, 30], centers=CORNERS[:2], shuffle=False, random_state=0)
    model = PRCut(2, encoder="mlp", max_iter=5, min_cluster_size=20, random_state=0)
    model.partial_fit(X)
    some = np.r_[:10, 30:40]
    graph = np.kron(np.eye(5), np.ones((4, 4)))
    model.partial_fit(X[some], graph=graph)  # no error, no warning of parts
    np.testing.assert_array_equal(model.predict(X[some]), model.labels_)


def test_parts_that_bounds_or_links_divide_are_not_said_to_be_whole():
    graph = np.kron(np.eye(3), np.ones((4, 4)))
    model = PRCut(2, affinity="precomputed", max_imbalance=0.0, random_state=0)
    with pytest.warns(UserWarning, match="do not satisfy the bounds .* loosen"):
        model.fit(graph)
    np.testing.assert_array_equal(model.cluster_sizes_, [6, 6])
    assert model.normalized_cut_ > 0
    model.set_params(max_imbalance=None)
    with pytest.warns(UserWarning, match="do not satisfy the bounds .* loosen"):
        model.fit(graph, cannot_link=[[0, 1]])
    with pytest.warns(UserWarning, match="the cut is 0, and whole parts"):
        model.fit(graph)
    assert model.normalized_cut_ == 0


def test_weights_that_sum_to_one_have_a_least_size_below_one():
    X, _ = make_blobs([20, 20, 4], centers=CORNERS[:3], random_state=0)
    options = FREE | {"n_neighbors": 15, "random_state": 0}
    counted = PRCut(3, min_cluster_size=0.2 * 44, **options).fit(X)
    model = PRCut(3, min_cluster_size=0.2, **options)
    model.fit(X, sample_weight=np.full(44, 1 / 44))
    np.testing.assert_array_equal(model.labels_, counted.labels_)
    assert model.cluster_sizes_.min() == 9
    # Of samples, any cluster has as many.
    np.testing.assert_array_equal(model.fit(X).cluster_sizes_, [20, 20, 4])


def test_sizes_are_weights(giant, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    weights = rng.uniform(0.5, 2.0, size=64)
    weights[20:24] = 0.0
    for bound in (
        {"max_imbalance": 0.15},
        {"min_cluster_size": 0.85 * weights.sum() / 3},
    ):
        model = PRCut(3, cut="ratio", affinity="precomputed", random_state=0, **bound)
        with pytest.warns(UserWarning, match="4 nodes in 3 parts"):
            model.fit(giant, sample_weight=weights)
        totals = np.bincount(model.labels_, weights)
        assert totals.min() >= 0.85 * weights.sum() / 3
    for wrong, match in (
        (-weights, "Negative values"),
        (0 * weights, "at least one non-zero"),
    ):
        with pytest.raises(ValueError, match=match):
            PRCut(3, affinity="precomputed").fit(giant, sample_weight=wrong)


@pytest.mark.few_epochs
@pytest.mark.filterwarnings("ignore:PRCut found 1 clusters instead of 2")
@pytest.mark.parametrize("encoder", ["mlp", "linear", None])
@pytest.mark.parametrize("n_weighted", [1, 30])
def test_samples_without_weight_have_a_finite_ratio_cut(
    encoder, n_weighted, global_random_seed
):
    X, y = make_blobs(60, centers=[[0, 0], [4, 0]], random_state=global_random_seed)
    weights = np.where(np.arange(60) < n_weighted, 1.0, 0.0)
    model = PRCut(2, cut="ratio", encoder=encoder, max_iter=3, random_state=0)
    model.fit(X, sample_weight=weights)
    assert np.isfinite([*model.history_["loss"], *model.history_["cut"]]).all()
    if n_weighted > 1:
        assert adjusted_rand_score(y, model.labels_) > 0.8


def test_weights_of_samples_divide_the_ratio_cut(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    graph, weights = symmetric(rng, 7, 0.9), rng.uniform(0.2, 3.0, size=7)
    model = PRCut(2, cut="ratio", affinity="precomputed", random_state=0)
    model.fit(graph, sample_weight=weights)

    def weighted(labels):
        inside = np.eye(2)[labels]
        cuts = np.einsum("ik,ij,jk->k", inside, graph, 1 - inside)
        return (cuts / (weights @ inside)).sum()

    every = [np.array([i >> bit & 1 for bit in range(7)]) for i in range(1, 127)]
    best = min(weighted(labels) for labels in every)
    assert weighted(model.labels_) <= 1.1 * best


@pytest.mark.parametrize("cut", ["ratio", "normalized"])
@pytest.mark.parametrize("bound", [{}, {"max_imbalance": 0.3}])
def test_on_one_graph_a_weight_of_two_is_a_repetition(cut, bound, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.uniform(size=(40, 2))
    weights = rng.randint(1, 4, size=40)
    rows = np.repeat(np.arange(40), weights)
    graph = symmetric(rng, 40, 0.3)
    # Edges between groups of equal samples add up to those of the weighted samples.
    share = graph / np.outer(weights, weights)
    model = PRCut(3, cut=cut, random_state=0, n_init=3, **bound)
    weighted = clone(model).fit(X, sample_weight=weights, graph=graph)
    repeated = clone(model).fit(X[rows], graph=share[rows][:, rows])
    assert adjusted_rand_score(weighted.labels_[rows], repeated.labels_) == 1.0
    assert weighted.normalized_cut_ == pytest.approx(repeated.normalized_cut_)


def test_a_group_too_heavy_for_the_bounds_is_refused():
    X = np.array([[0.0]] * 30 + [[float(i)] for i in range(1, 31)])
    with pytest.raises(ValueError, match="'max_imbalance' parameter .* heaviest group"):
        PRCut(4, max_imbalance=0.2).fit(X)


def test_an_encoder_out_of_bounds_is_warned_of(global_random_seed):
    X, _ = make_moons(200, noise=0.05, random_state=global_random_seed)
    model = PRCut(
        2, encoder="linear", min_cluster_size=100, random_state=global_random_seed
    )
    with pytest.warns(ConvergenceWarning, match="the bounds are 100 and inf: the enc"):
        model.fit(X)


def test_nodes_are_clusters_where_there_are_no_others():
    graph = np.zeros((4, 4))
    graph[0, 1] = graph[1, 0] = 1.0
    model = PRCut(3, affinity="precomputed", encoder=None).fit(graph)
    np.testing.assert_array_equal(model.labels_, [0, 0, 1, 2])


def test_clusters_far_below_the_mean_size_are_warned_of():
    # Two stars and a leaf far out: cut off alone it costs the ratio-cut least.
    n = 600
    rng = np.random.RandomState(0)
    graph = np.triu(rng.rand(n, n) < 0.03, 1).astype(float)
    graph[: n - 1, n - 1] = 0.0
    graph[0, n - 1] = 1.0
    graph = graph + graph.T
    common = {"affinity": "precomputed", "encoder": None, "random_state": 0}
    with pytest.warns(ConvergenceWarning, match="below 1 % of the mean.*'normalized'"):
        PRCut(2, cut="ratio", init="random", **common).fit(graph)
    sizes = PRCut(2, init="random", **common).fit(graph).cluster_sizes_
    assert sizes.min() > 100


def test_an_asymmetric_graph_is_symmetrised_with_a_warning(blobs, global_random_seed):
    X, _ = blobs
    rng = np.random.RandomState(global_random_seed)
    with pytest.warns(UserWarning, match="not symmetric"):
        model = PRCut(4, **FREE).fit(X, graph=rng.rand(120, 120))
    assert abs(model.affinity_matrix_ - model.affinity_matrix_.T).max() == 0


def test_what_needs_rows_is_refused_for_a_graph(global_random_seed):
    graph = symmetric(np.random.RandomState(global_random_seed), 20, 0.9)
    common = {"affinity": "precomputed"} | FREE
    with pytest.raises(ValueError, match="'init' parameter of PRCut"):
        PRCut(2, init="k-means++", **common).fit(graph)
    with pytest.raises(ValueError, match="'graph' parameter of PRCut.fit"):
        PRCut(2, **common).fit(graph, graph=graph)
    with pytest.raises(AttributeError, match="no attribute 'predict'"):
        PRCut(2, **common).fit(graph).predict(graph)


def test_a_callable_of_the_wrong_shape_is_refused(blobs):
    with pytest.raises(ValueError, match=r"return weights of shape \(120, 120\)"):
        PRCut(4, affinity=lambda X, Y: np.ones(3), **QUICK).fit(blobs[0])


def test_contradicting_labels_and_too_few_clusters_are_refused(blobs):
    labels = np.arange(120) % 5
    with pytest.raises(ValueError, match="'n_clusters' parameter must be at least 5"):
        PRCut(4, **QUICK).fit(blobs[0], partial_labels=labels)


# -------------------------------------------------------------- odd data, bad runs


@pytest.mark.parametrize("encoder", ENCODERS)
def test_equal_rows_make_fewer_clusters_with_a_warning(encoder):
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0)
    with pytest.warns(ConvergenceWarning, match="2 clusters instead of 3.*distinct"):
        model = PRCut(3, n_neighbors=12, **QUICK | {"encoder": encoder}).fit(X)
    assert model.n_clusters_ == 2
    assert (model.labels_.reshape(2, 10) == model.labels_[::10, None]).all()


@pytest.mark.parametrize("encoder", ENCODERS)
def test_one_row_is_one_cluster(encoder):
    model = PRCut(1, **QUICK | {"encoder": encoder}).fit([[1.0, 2.0]])
    assert model.labels_.tolist() == [0] and model.ratio_cut_ == 0.0
    with pytest.raises(ValueError, match="at most the number of samples, n_samples=1"):
        PRCut(2, **QUICK | {"encoder": encoder}).fit([[1.0, 2.0]])


@pytest.mark.few_epochs
@pytest.mark.parametrize("encoder", ENCODERS)
def test_offsets_constant_features_and_dtypes_change_nothing(encoder, blobs):
    X = np.round(blobs[0] * 4) / 4
    expected = PRCut(4, **QUICK | {"encoder": encoder}).fit(X).labels_
    moved = np.column_stack([X + 1e6, np.full(120, 7.0)])
    model = PRCut(4, **QUICK | {"encoder": encoder}).fit(moved)
    assert adjusted_rand_score(expected, model.labels_) > 0.8
    scaled = ((X - X.min()) * 4).astype(np.uint8)
    labels = PRCut(4, **QUICK | {"encoder": encoder}).fit(scaled).labels_
    for dtype in (np.int64, ">f8", np.longdouble, object, np.float32):
        other = (
            PRCut(4, **QUICK | {"encoder": encoder}).fit(scaled.astype(dtype)).labels_
        )
        if dtype is np.float32 and encoder is not None:
            assert adjusted_rand_score(labels, other) > 0.95
        else:
            np.testing.assert_array_equal(labels, other)


def test_float32_stays_float32(blobs):
    X = blobs[0].astype(np.float32)
    model = PRCut(4, **QUICK).fit(X)
    assert {w.dtype for w in model.coefs_} == {np.dtype(np.float32)}
    assert model.predict_proba(X).dtype == np.float32


@pytest.mark.few_epochs
@pytest.mark.parametrize("batch_size", [7, 119, 1000])
def test_any_batch_size_works(batch_size, blobs):
    for sampling in ("full", "pairs", "neighbors"):
        model = PRCut(4, batch_size=batch_size, sampling=sampling, **QUICK)
        assert model.fit(blobs[0]).n_clusters_ == 4


def test_diverging_training_keeps_the_best_weights_and_says_so(blobs, monkeypatch):
    from skdiffclust.cuts import _training

    steps = iter(range(10**6))
    true = _training.CutObjective.batch_gradient

    def broken(self, rows, assignments):
        gradient = true(self, rows, assignments)
        return gradient * (np.nan if next(steps) > 2 else 1.0)

    monkeypatch.setattr(_training.CutObjective, "batch_gradient", broken)
    with pytest.warns(ConvergenceWarning, match="diverged in epoch .* learning_rate"):
        model = PRCut(4, **QUICK).fit(blobs[0])
    assert np.isfinite(model.ratio_cut_)
    assert all(np.isfinite(w).all() for w in model.coefs_)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_fit_leaves_the_old_model(error, blobs, monkeypatch):
    from skdiffclust.cuts import _training

    X, _ = blobs
    model = PRCut(4, **QUICK).fit(X)
    labels = model.labels_

    def stop(*args):
        raise error

    monkeypatch.setattr(_training.CutObjective, "batch_gradient", stop)
    with pytest.raises(error):
        model.fit(X[:50])
    assert model.labels_ is labels
    np.testing.assert_array_equal(model.predict(X), labels)
    unfitted = PRCut(4, **QUICK)
    with pytest.raises(error):
        unfitted.fit(X)
    assert not hasattr(unfitted, "n_features_in_")


def test_threads_may_fit_and_predict_at_once(blobs):
    X, _ = blobs
    expected = PRCut(4, **FREE).fit(X).labels_
    found = []

    def work():
        found.append(PRCut(4, **FREE).fit(X).predict(X))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for labels in found:
        np.testing.assert_array_equal(labels, expected)


def test_parameters_and_data_are_never_written(blobs):
    X = blobs[0].copy()
    X.flags.writeable = False
    graph = PRCut(4, **FREE).fit(X).affinity_matrix_
    data, indices = graph.data.copy(), graph.indices.copy()
    model = PRCut(4, **QUICK)
    parameters = str(clone(model).get_params())
    model.fit(X, graph=graph)
    model.score(X)
    assert str(model.get_params()) == parameters
    np.testing.assert_array_equal(graph.data, data)
    np.testing.assert_array_equal(graph.indices, indices)


def test_score_has_a_floor_where_a_cluster_is_missing(blobs):
    X, _ = blobs
    model = PRCut(4, **FREE).fit(X)
    part = X[model.labels_ < 2]
    assert model.score(part) == -4.0
    assert model.set_params(cut="ratio").score(part) < -100
    assert model.score(part[:1]) == 0.0  # one row has no edge


def fuzz(n_graphs, seed):
    """Fit small graphs of every kind; return the messages of those refused."""
    rng = np.random.RandomState(seed)
    messages = []
    for _ in range(n_graphs):
        n, k = rng.randint(2, 24), rng.randint(1, 7)
        graph = symmetric(rng, n, rng.choice([0.0, 0.1, 0.4, 1.0]))
        graph *= 10.0 ** rng.uniform(-6, 6, size=(n, n)) if rng.rand() < 0.4 else 1.0
        graph = np.triu(graph, 1) + np.triu(graph, 1).T
        isolated = rng.rand(n) < rng.choice([0.0, 0.3])
        graph[isolated] = graph[:, isolated] = 0.0
        X = rng.normal(size=(n, 2)) if rng.rand() < 0.8 else np.zeros((n, 2))
        model = PRCut(
            k,
            encoder=[None, None, "linear", "mlp"][rng.randint(4)],
            hidden_layer_sizes=(4,),
            init=["spectral", "k-means++", "random", "auto"][rng.randint(4)],
            local_search=bool(rng.rand() < 0.7),
            cut=["ratio", "normalized"][rng.randint(2)],
            objective=["exact", "bound"][rng.randint(2)],
            sampling=["full", "pairs", "neighbors"][rng.randint(3)],
            batch_size=16,
            max_iter=2,
            n_init=2,
            random_state=seed,
        )
        try:
            model.fit(X, graph=graph)
        except ValueError as error:
            messages.append(str(error))
            continue
        assert np.isfinite(model.ratio_cut_)
        assert np.isfinite(model.predict_proba(X)).all()
        assert 1 <= model.n_clusters_ <= k
    return messages


def refused_for_a_reason(messages):
    """Whether no graph was refused but for its rows or its parts."""
    reasons = ("at most the number of samples",)
    return all(any(reason in text for reason in reasons) for text in messages)


# Small parts, equal rows and emptied clusters are warned of, arithmetic is not.
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_small_graphs_of_every_kind_end_finite_or_with_a_message(global_random_seed):
    assert refused_for_a_reason(fuzz(40, global_random_seed))


# The same graphs, and their warnings.
@pytest.mark.paper
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_thousand_small_graphs_end_finite_or_with_a_message():
    assert refused_for_a_reason(fuzz(1000, 1))


def test_an_affinity_that_is_none_is_refused(blobs):
    with pytest.raises(ValueError, match="'affinity' parameter of PRCut must be"):
        PRCut(4, affinity=LogisticRegression(), **QUICK).fit(blobs[0])
    with pytest.raises(ValueError, match="square matrix of similarities"):
        PRCut(4, affinity=MinMaxScaler(), **QUICK).fit(blobs[0])


def test_weights_of_new_rows_are_checked(blobs):
    X, _ = blobs

    def inverse(X, Y):
        weights = 1.0 / (1.0 + np.square(X[:, None] - Y[None]).sum(axis=2))
        return weights if len(X) == len(Y) else weights * np.nan

    model = PRCut(4, affinity=inverse, **FREE).fit(X)
    with pytest.raises(ValueError, match="must give finite weights of at least 0"):
        model.predict(X[:5] + 0.1)


@pytest.mark.torch
@pytest.mark.few_epochs
def test_a_stream_goes_on_with_what_it_began_with(blobs):
    import torch

    X, _ = blobs
    for begun, changed in (
        ({"encoder": None}, {"encoder": "mlp"}),
        ({}, {"n_clusters": 3}),
        ({}, {"encoder": torch.nn.Linear(2, 4)}),
        ({"encoder": torch.nn.Linear(2, 4)}, {"encoder": "mlp"}),
    ):
        model = PRCut(4, **QUICK).set_params(**begun).fit(X[:60])
        labels = model.labels_
        with pytest.raises(
            ValueError, match="must be those of the first call of partial_fit"
        ):
            model.set_params(**changed).partial_fit(X[60:])
        assert model.labels_ is labels


def test_a_batch_of_a_stream_without_a_cluster_keeps_the_numbers(blobs):
    X, _ = blobs
    model = PRCut(4, **QUICK).fit(X)
    row = X[model.labels_ == 0][:1]
    label = model.predict(row)
    model.partial_fit(np.repeat(row, 5, axis=0))
    assert model.n_clusters_ == 1 and (model.labels_ == label).all()
    np.testing.assert_array_equal(model.cluster_sizes_, [5, 0, 0, 0])


@pytest.mark.parametrize("sampling", ["pairs", "neighbors"])
def test_blocks_are_trained_on_the_bound(sampling, blobs, monkeypatch):
    from skdiffclust.cuts import _training

    monkeypatch.delattr(_training, "expected_cut_with_gradient")
    PRCut(4, objective="exact", sampling=sampling, **QUICK).fit(blobs[0])


def test_hidden_layers_are_no_truth_values(blobs):
    with pytest.raises(ValueError, match="'hidden_layer_sizes' parameter of PRCut"):
        PRCut(4, **QUICK | {"hidden_layer_sizes": (True,)}).fit(blobs[0])


@pytest.mark.parametrize("n", [5, 11, 30])
def test_graphs_without_structure_have_the_same_labels_each_time(n):
    graph = np.ones((n, n)) - np.eye(n)
    model = PRCut(2, affinity="precomputed", encoder=None, random_state=0)
    # Of cuts that are all equal ARPACK would take one at random.
    found = {tuple(model.fit(graph).labels_) for _ in range(10)}
    assert len(found) == 1
