"""PRCut: guarantees, refusals, and the state after a failed run."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import block_diag
from sklearn.base import clone
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from skdiffclust import GraphCutClustering, PRCut
from skdiffclust.cuts import ratio_cut

# A fit in a tenth of a second.
QUICK = {
    "encoder": "mlp",
    "max_iter": 5,
    "hidden_layer_sizes": (8,),
    "n_init": 2,
    "random_state": 0,
}
FREE = {"n_init": 2, "random_state": 0}
ENCODERS = [None, "linear", "mlp"]
CORNERS = [[0, 0], [9, 0], [0, 9], [9, 9]]


def clusterer(encoder, k, **parameters):
    """Return PRCut with an encoder, or GraphCutClustering without."""
    if encoder is not None:
        return PRCut(k, encoder=encoder, **parameters)
    both = GraphCutClustering().get_params().keys() - {"init"}
    return GraphCutClustering(k, **{n: v for n, v in parameters.items() if n in both})


@pytest.fixture(scope="module")
def blobs(global_random_seed):
    return make_blobs(120, centers=4, cluster_std=1.5, random_state=global_random_seed)


def symmetric(rng, n, density):
    upper = np.triu(rng.random_sample((n, n)) * (rng.rand(n, n) < density), 1)
    return upper + upper.T


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
        model = clusterer(
            [None, None, "linear", "mlp"][rng.randint(4)],
            k,
            hidden_layer_sizes=(4,),
            init=None if rng.rand() < 0.5 else "random",
            cut=["ratio", "normalized"][rng.randint(2)],
            objective=["exact", "bound"][rng.randint(2)],
            batch_size=16,
            max_iter=2,
            n_init=2,
            random_state=seed,
        )
        try:
            model.fit(X, precomputed=graph)
        except ValueError as error:
            messages.append(str(error))
            continue
        assert np.isfinite(model.ratio_cut_)
        assert set(model.predict(X)) <= set(range(k))
        assert 1 <= model.n_clusters_ <= k
    return messages


def refused_for_a_reason(messages):
    """Whether no graph was refused but for its rows or its parts."""
    reasons = ("at most the number of samples",)
    return all(any(reason in text for reason in reasons) for text in messages)


def _fit_quietly(model, X):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("init", [KMeans(), "random"])
def test_finds_blobs_and_predicts_them(encoder, init, global_random_seed):
    X, y = make_blobs(
        200, centers=CORNERS[:3], cluster_std=1.5, random_state=global_random_seed
    )
    model = clusterer(encoder, 3, init=init, random_state=global_random_seed)
    model.fit(X[:150])
    assert adjusted_rand_score(y[150:], model.predict(X[150:])) > 0.8
    assert model.ratio_cut_ == ratio_cut(model.affinity_matrix_, model.labels_).value
    normalized = ratio_cut(model.affinity_matrix_, model.labels_, normalized=True).value
    assert model.normalized_cut_ == normalized


def test_a_line_cannot_part_moons_but_a_perceptron_can(global_random_seed):
    X, y = make_moons(200, noise=0.05, random_state=global_random_seed)
    linear, perceptron = (
        PRCut(2, encoder=encoder, random_state=global_random_seed).fit(X)
        for encoder in ENCODERS[1:]
    )
    assert linear.normalized_cut_ > linear.init_normalized_cut_
    assert adjusted_rand_score(y, perceptron.labels_) > 0.9


@pytest.mark.torch
@pytest.mark.parametrize("activation", ["gelu", "relu", "tanh"])
@pytest.mark.few_epochs
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
    model = clusterer(**QUICK | {"encoder": encoder, "k": 4}).fit(X)
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    chunks = [model.predict(X[i : i + 7]) for i in range(0, len(X), 7)]
    np.testing.assert_array_equal(model.labels_, np.concatenate(chunks))
    assert model.labels_.dtype == np.int64
    np.testing.assert_array_equal(model.cluster_sizes_, np.bincount(model.labels_))
    assert (np.diff(model.cluster_sizes_) <= 0).all()
    if encoder is not None:
        assignments = model.predict_proba(X)
        np.testing.assert_allclose(assignments.sum(axis=1), 1.0)
        np.testing.assert_array_equal(assignments.argmax(axis=1), model.labels_)
    if encoder == "mlp":
        assert model.transform(X).shape == (120, 8)
        assert len(model.get_feature_names_out()) == 8
    elif encoder == "linear":
        assert not hasattr(model, "transform")
    assert 0.5 < model.score(X) < 1.0


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.few_epochs
def test_equal_rows_never_part(encoder, blobs):
    X = np.repeat(blobs[0][:60], 2, axis=0)
    # From labels of a low cut: five epochs may empty clusters of others.
    options = QUICK | {"encoder": encoder, "k": 4, "n_neighbors": 15, "n_init": 10}
    model = clusterer(**options).fit(X)
    assert (model.labels_.reshape(60, 2) == model.labels_[::2, None]).all()
    np.testing.assert_array_equal(model.predict(X[::2]), model.labels_[::2])


@pytest.mark.few_epochs
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
@pytest.mark.few_epochs
def test_dense_affinities(affinity, encoder, global_random_seed):
    X, y = make_blobs(
        60, centers=[[3, 0], [0, 3]], cluster_std=0.5, random_state=global_random_seed
    )
    parameters = QUICK | {"encoder": encoder, "k": 2, "temperature": 0.5}
    model = clusterer(affinity=affinity, **parameters)
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


@pytest.mark.few_epochs
@pytest.mark.parametrize("objective", ["exact", "bound"])
def test_a_graph_alone_has_free_logits(objective, global_random_seed):
    X, y = make_blobs(
        120, centers=CORNERS, cluster_std=1.5, random_state=global_random_seed
    )
    graph = GraphCutClustering(4, **FREE).fit(X).affinity_matrix_
    found = GraphCutClustering(4, affinity="precomputed", random_state=0).fit(graph)
    model = PRCut(4, affinity="precomputed", objective=objective, random_state=0)
    model.fit(graph)
    np.testing.assert_array_equal(model.init_labels_, found.labels_)
    assert model.normalized_cut_ <= found.normalized_cut_ * (1 + 1e-12)
    recipe = model.set_params(init="random", n_init=10, max_iter=200)
    recipe.fit(graph)
    assert np.isnan(recipe.init_normalized_cut_) and recipe.init_labels_ is None
    # Far above chance, and far below the search: see the guide.
    assert adjusted_rand_score(y, recipe.labels_) > 0.25
    for method in ("predict", "predict_proba", "transform", "score", "partial_fit"):
        assert not hasattr(model, method)


@pytest.mark.few_epochs
def test_labels_to_start_from(global_random_seed):
    X, y = make_blobs(
        120, centers=CORNERS, cluster_std=2.5, random_state=global_random_seed
    )
    search = GraphCutClustering(4, **FREE).fit(X)
    model = PRCut(4, **QUICK).fit(X)
    np.testing.assert_array_equal(model.init_labels_, search.labels_)
    assert model.init_normalized_cut_ == search.normalized_cut_
    assert model.init_ratio_cut_ == search.ratio_cut_
    graph = model.affinity_matrix_
    names = np.array([7, -1, 30, 2])[y]
    model = PRCut(4, **QUICK | {"init": names}).fit(X)
    assert adjusted_rand_score(model.init_labels_, y) == 1
    assert model.init_ratio_cut_ == pytest.approx(ratio_cut(graph, y).value)
    for wrong, match in (
        (y[:7], r"one integer for each of 120 samples. Got .* of shape \(7,\)"),
        (y / 3, "Got an array of float64"),
        (np.arange(120) % 5, "at most n_clusters=4 different labels. Got 5"),
    ):
        with pytest.raises(ValueError, match=match):
            PRCut(4, **QUICK | {"init": wrong}).fit(X)


@pytest.mark.few_epochs
@pytest.mark.parametrize(
    "clusterer",
    [
        SpectralClustering(affinity="precomputed"),
        GraphCutClustering(affinity="precomputed", max_imbalance=0.1),
        KMeans(3),
        KMeans(random_state=7),
        make_pipeline(StandardScaler(), KMeans(4, random_state=7)),
    ],
)
def test_the_labels_of_a_clusterer_to_start_from(clusterer, blobs):
    X, _ = blobs
    before = str(clusterer.get_params())
    model = PRCut(4, **QUICK | {"init": clusterer}).fit(X)
    assert str(clusterer.get_params()) == before
    with pytest.raises(NotFittedError):
        check_is_fitted(clusterer)
    peer = clone(clusterer)
    if "n_clusters" in peer.get_params():
        params = {"n_clusters": 4, "random_state": peer.random_state or 0}
        peer.set_params(**params)
    params = peer.get_params()
    is_of_graph = params.get("affinity") == "precomputed"
    expected = peer.fit_predict(model.affinity_matrix_ if is_of_graph else X)
    assert adjusted_rand_score(model.init_labels_, expected) == 1
    assert (np.diff(np.bincount(model.init_labels_)) <= 0).all()


def test_a_clusterer_of_samples_has_none_of_a_graph_alone(blobs):
    graph = GraphCutClustering(4, **FREE).fit(blobs[0]).affinity_matrix_
    options = FREE | {"affinity": "precomputed", "max_iter": 2}
    with pytest.raises(ValueError, match="'init' .* no features. Got KMeans"):
        PRCut(4, **options, init=KMeans()).fit(graph)
    model = PRCut(4, **options, init=GraphCutClustering(affinity="precomputed"))
    assert model.fit(graph).n_clusters_ == 4


def test_all_labels_known_make_it_a_classifier():
    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    model = PRCut(10, encoder="mlp", n_init=2, random_state=0)
    model.fit(X[:400], partial_labels=y[:400])
    assert adjusted_rand_score(y[:400], model.labels_) == 1.0
    assert adjusted_rand_score(y[400:], model.predict(X[400:])) > 0.6


def test_restarts_from_random_weights_keep_the_best_that_uses_all_clusters(
    blobs, global_random_seed
):
    X, _ = blobs
    settings = {"init": "random", "max_iter": 15, "random_state": global_random_seed}
    one = PRCut(4, encoder="linear", n_init=1, **settings)
    many = PRCut(4, encoder="linear", n_init=6, **settings)
    few, best = (_fit_quietly(model, X) for model in (one, many))
    assert np.isnan(best.init_ratio_cut_)
    assert best.n_clusters_ >= few.n_clusters_
    assert min(best.history_["loss"]) <= min(few.history_["loss"])


@pytest.mark.parametrize("objective", ["exact", "bound"])
@pytest.mark.parametrize("averaging_rate", [0.8, "decreasing"])
def test_soft_training_alone_lowers_the_cut(
    objective, averaging_rate, global_random_seed
):
    X, y = make_blobs(
        90, centers=CORNERS[:3], cluster_std=0.7, random_state=global_random_seed
    )
    model = PRCut(
        3,
        encoder="linear",
        init="random",
        objective=objective,
        averaging_rate=averaging_rate,
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
    assert not hasattr(GraphCutClustering(), "partial_fit")


def test_a_stream_is_followed_where_its_clusters_go(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    model = PRCut(3, encoder="mlp", random_state=global_random_seed)
    shares = []  # of samples whose cluster is predicted before it is learned
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
        shares.append(np.mean(names.argmax(axis=1)[model.predict(X)] == y))
        model.partial_fit(X)
    assert np.mean(shares) > 0.85
    assert min(shares) > 0.7


@pytest.mark.parametrize(
    "change, match",
    [
        ({"n_clusters": 121}, "at most the number of samples, n_samples=120. Got 121"),
        ({"init": "pca"}, "'init' parameter of PRCut"),
        ({"encoder": "tree"}, "'encoder' parameter of PRCut"),
        ({"activation": "sine"}, "'activation' parameter of PRCut must be a str among"),
        ({"hidden_layer_sizes": (0,)}, "'hidden_layer_sizes' parameter of PRCut"),
        ({"device": "abacus"}, "'device' parameter of PRCut must be 'auto' or one of"),
        ({"init": "spectral"}, "'init' parameter of PRCut"),
        ({"init": MinMaxScaler()}, "'init' parameter of PRCut"),
        ({"cut": "min"}, "'cut' parameter of PRCut"),
    ],
)
def test_wrong_parameters_are_refused_by_name(change, match, blobs):
    with pytest.raises(ValueError, match=match):
        PRCut(**(QUICK | {"n_clusters": 4} | change)).fit(blobs[0])


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
        PRCut(4, **QUICK).fit(blobs[0], precomputed=graph)


@pytest.mark.few_epochs
def test_more_parts_than_clusters_are_put_together_whole(blobs):
    blocks = [np.ones((size, size)) for size in (50, 40, 30)]
    parts = sp.csr_array(block_diag(*blocks))
    with pytest.warns(UserWarning, match="3 parts that no edge joins.*n_clusters=2"):
        model = GraphCutClustering(2, **FREE).fit(blobs[0], precomputed=parts)
    np.testing.assert_array_equal(model.labels_, np.repeat([1, 0, 0], [50, 40, 30]))
    assert model.ratio_cut_ == model.normalized_cut_ == 0.0
    parts = sp.csr_array(block_diag(*[np.ones((40, 40))] * 3))
    assert PRCut(3, **QUICK).fit(blobs[0], precomputed=parts).init_ratio_cut_ == 0.0


@pytest.mark.few_epochs
def test_parts_are_those_of_the_first_samples_of_a_stream():
    X, _ = make_blobs([30, 30], centers=CORNERS[:2], shuffle=False, random_state=0)
    model = PRCut(2, max_iter=5, random_state=0)
    model.partial_fit(X)
    some = np.r_[:10, 30:40]
    graph = np.kron(np.eye(5), np.ones((4, 4)))
    model.partial_fit(X[some], precomputed=graph)  # no error, no warning of parts
    np.testing.assert_array_equal(model.predict(X[some]), model.labels_)


@pytest.mark.few_epochs
@pytest.mark.filterwarnings("ignore:PRCut found 1 of 2 clusters")
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(("n_weighted", "distance"), [(1, 4), (30, 6)])
def test_samples_without_weight_have_a_finite_ratio_cut(
    encoder, n_weighted, distance, global_random_seed
):
    centers = [[0, 0], [distance, 0]]
    X, y = make_blobs(60, centers=centers, random_state=global_random_seed)
    weights = np.where(np.arange(60) < n_weighted, 1.0, 0.0)
    model = clusterer(encoder, 2, cut="ratio", max_iter=3, random_state=0)
    model.fit(X, sample_weight=weights)
    assert np.isfinite(model.ratio_cut_)
    if encoder is not None:
        assert np.isfinite([*model.history_["loss"], *model.history_["cut"]]).all()
    if n_weighted > 1:
        assert adjusted_rand_score(y, model.labels_) > 0.85


def test_a_graph_is_passed_once(global_random_seed):
    graph = symmetric(np.random.RandomState(global_random_seed), 20, 0.9)
    for model in (GraphCutClustering(2, **FREE), PRCut(2, **QUICK)):
        model.set_params(affinity="precomputed")
        with pytest.raises(
            ValueError, match=r"'precomputed' parameter of .*\.fit must be No"
        ):
            model.fit(graph, precomputed=graph)


def test_a_callable_of_the_wrong_shape_is_refused(blobs):
    with pytest.raises(ValueError, match=r"return weights of shape \(120, 120\)"):
        PRCut(4, affinity=lambda X, Y: np.ones(3), **QUICK).fit(blobs[0])


# Small parts, equal rows and emptied clusters are warned of, arithmetic is not.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.few_epochs
def test_small_graphs_of_every_kind_end_finite_or_with_a_message(global_random_seed):
    assert refused_for_a_reason(fuzz(40, global_random_seed))


def test_an_affinity_that_is_none_is_refused(blobs):
    with pytest.raises(ValueError, match="'affinity' parameter of PRCut must be"):
        PRCut(4, affinity=LogisticRegression(), **QUICK).fit(blobs[0])
    with pytest.raises(ValueError, match="square matrix of affinities"):
        PRCut(4, affinity=MinMaxScaler(), **QUICK).fit(blobs[0])


@pytest.mark.torch
@pytest.mark.few_epochs
def test_a_stream_goes_on_with_what_it_began_with(blobs):
    import torch

    X, _ = blobs
    torch.manual_seed(1)
    for begun, changed in (
        ({}, {"n_clusters": 3}),
        ({}, {"encoder": torch.nn.Linear(2, 4)}),
        ({"encoder": torch.nn.Linear(2, 4)}, {"encoder": "mlp"}),
        ({"encoder": "mlp"}, {"encoder": "linear"}),
        ({"encoder": "linear"}, {"encoder": "mlp"}),
    ):
        model = PRCut(4, **QUICK).set_params(**begun).fit(X[:60])
        labels = model.labels_
        with pytest.raises(
            ValueError, match="must be those of the first call of partial_fit"
        ):
            model.set_params(**changed).partial_fit(X[60:])
        assert model.labels_ is labels


@pytest.mark.few_epochs
def test_a_batch_of_a_stream_without_a_cluster_keeps_the_numbers(blobs):
    X, _ = blobs
    model = PRCut(4, **QUICK).fit(X)
    row = X[model.labels_ == 0][:1]
    label = model.predict(row)
    model.partial_fit(np.repeat(row, 5, axis=0))
    assert model.n_clusters_ == 1 and (model.labels_ == label).all()
    np.testing.assert_array_equal(model.cluster_sizes_, [5, 0, 0, 0])
