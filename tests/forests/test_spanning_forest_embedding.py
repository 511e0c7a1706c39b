"""SpanningForestEmbedding: results, parameters and refusals."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from torch import nn

from skdiffclust import SpanningForestClustering, SpanningForestEmbedding
from skdiffclust._constraints import as_constraints
from skdiffclust.forests._embedding._informed_batches import (
    InformedBatches,
    joined,
)
from skdiffclust.forests._embedding._start import neighbors_of
from skdiffclust.metrics import clustering_accuracy, links_to_incidence


def hidden_signal(n=60, k=3, seed=0):
    """Rows whose first feature has k groups, under noise in the second."""
    rng = np.random.RandomState(seed)
    y = np.arange(n) % k
    X = np.column_stack([y + 0.05 * rng.randn(n), 4 * rng.rand(n)])
    return X, y


# The noise is the larger feature: principal components and neighbours say nothing.
MISLED = {"init": "random", "n_neighbors": None, "noise_scale": 0.1}


def make(n_clusters=3, **kwargs):
    settings = {"n_components": 1, "max_iter": 15, "learning_rate": 0.05}
    return SpanningForestEmbedding(
        n_clusters, random_state=0, batch_size=30, **{**settings, **kwargs}
    )


def half_labelled(y):
    labels = y.copy()
    labels[::2] = -1
    return labels


@pytest.mark.few_epochs
@pytest.mark.parametrize("affinity", ["sqeuclidean", "cosine"])
def test_the_score_is_the_share_of_pairs_of_all_batches(affinity):
    X, y = hidden_signal(n=53)
    model = make(n_components=2, affinity=affinity, **MISLED, max_iter=1)
    model.set_params(batch_size=12).fit(X, half_labelled(y))
    embedding = model.transform(X)
    metric = {"sqeuclidean": "euclidean", "cosine": "cosine"}[affinity]
    # All are known in the first batch, ever fewer after that, none in the fourth.
    target = y.copy()
    target[13:24:4] = target[24:36:2] = target[30:48] = -1
    wrong = n_pairs = 0
    for start in range(0, len(y), 12):
        known = target[start : start + 12]
        if (known < 0).all():
            continue
        n_clusters = len(np.unique(known)) if (known >= 0).all() else 3
        joined = linkage(embedding[start : start + 12], "single", metric=metric)
        found = fcluster(joined, n_clusters, "maxclust")
        both = np.ix_(known >= 0, known >= 0)
        differ = (known[:, None] == known) != (found[:, None] == found)
        wrong += differ[both].sum()
        n_pairs += differ[both].size
    assert 0.1 < wrong / n_pairs < 0.9
    assert model.score(X, target) == pytest.approx(-wrong / n_pairs, rel=1e-12)


@pytest.mark.few_epochs
def test_few_labels_find_the_signal(global_random_seed):
    X, y = hidden_signal(seed=global_random_seed)
    start = make(init="random", max_iter=1, learning_rate=1e-9)
    before = start.fit(X, half_labelled(y)).score(X, y)
    embedding = make(init="random").fit(X, half_labelled(y))
    assert embedding.score(X, y) > -0.05 > before
    weights = np.abs(embedding.coefs_[0][:, 0])
    assert weights[0] > 4 * weights[1]
    X_new, y_new = hidden_signal(seed=global_random_seed + 1)
    for model in (embedding, SpanningForestEmbedding(3).fit(X, half_labelled(y))):
        assert model.score(X_new, y_new) > -0.05


@pytest.mark.few_epochs
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_discriminant_directions_have_the_signal(container):
    X, y = hidden_signal()
    # Four samples with a label, and a class without any.
    labels = np.where((np.arange(len(y)) < 6) & (y < 2), y, -1)
    model = SpanningForestEmbedding(
        3,
        init="lda",
        n_components=1,
        n_neighbors=None,
        max_iter=1,
        random_state=0,
    )
    model.fit(container(X), labels)
    assert model.score(container(X), y) > -0.2
    links = np.argwhere(y[:6, None] == y[:6])
    linked = model.fit(X, must_link=links[links[:, 0] < links[:, 1]])
    # Three links already turn it away from the principal component.
    weights = np.abs(linked.coefs_[0][:, 0])
    assert weights[0] > weights[1]


@pytest.mark.few_epochs
def test_a_class_without_labels_is_found():
    X, y = hidden_signal()
    labels = np.where(y == 2, -1, y)
    embedding = make(**MISLED).fit(X, labels)
    pipeline = SpanningForestClustering(3).fit(embedding.transform(X))
    assert clustering_accuracy(y, pipeline.labels_) > 0.95


@pytest.mark.parametrize("form", ["pairs", "groups", "incidence"])
@pytest.mark.few_epochs
def test_links_are_enough(form):
    X, y = hidden_signal()
    rng = np.random.RandomState(0)
    pairs = rng.randint(0, len(y), size=(150, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    must, cannot = pairs[same], pairs[~same]
    if form == "groups":
        must = np.where(np.arange(len(y)) % 2, y, -1)
    elif form == "incidence":
        must, cannot = (links_to_incidence(links, len(y)) for links in (must, cannot))
    embedding = make(max_iter=10, **MISLED)
    embedding.fit(X, must_link=must, cannot_link=cannot)
    assert embedding.score(X, y) > -0.1


@pytest.mark.few_epochs
def test_affinity_by_cosines():
    X, y = hidden_signal()
    embedding = make(affinity="cosine", n_components=2).fit(X, half_labelled(y))
    assert embedding.history_["loss"][-1] < embedding.history_["loss"][0]


@pytest.mark.few_epochs
def test_mlp(global_random_seed):
    X, y = hidden_signal(seed=global_random_seed)
    embedding = make(encoder="mlp", hidden_layer_sizes=(8, 4)).fit(X, half_labelled(y))
    assert [w.shape for w in embedding.coefs_] == [(2, 8), (8, 4), (4, 1)]
    assert embedding.history_["loss"][-1] < embedding.history_["loss"][0]


class Images(nn.Module):
    """An encoder of images of one channel, with dropout and a batch norm."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Flatten(),
            nn.Linear(16, 2),
        )

    def forward(self, X):
        return self.layers(X)


@pytest.mark.few_epochs
@pytest.mark.gpu
@pytest.mark.few_epochs
def test_a_gpu_trains_what_the_cpu_trains():
    if not torch.cuda.is_available():
        pytest.skip("There is no CUDA device here.")
    X, y = hidden_signal()
    module = nn.Linear(X.shape[1], 2, dtype=torch.float64)
    fits = [
        make(3, encoder=module, device=device, max_iter=3).fit(X, y)
        for device in ("cpu", "cuda")
    ]
    assert fits[1].device_ == "cuda"
    np.testing.assert_allclose(*(fit.transform(X) for fit in fits), rtol=1e-6)


def test_module_on_images():
    rng = np.random.RandomState(0)
    y = np.arange(40) % 2
    X = rng.rand(40, 1, 4, 4)
    X[y == 1, :, :2] += 1
    module = Images()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    stream = torch.random.get_rng_state()
    embedding = make(2, encoder=module, max_iter=20, learning_rate=0.01).fit(X, y)
    assert torch.equal(stream, torch.random.get_rng_state())
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
    assert embedding.encoder_ is not module and not embedding.encoder_.training
    assert embedding.transform(X).shape == (40, 2)
    assert embedding.score(X, y) > -0.2
    np.testing.assert_array_equal(
        embedding.transform(X), clone(embedding).fit(X, y).transform(X)
    )
    with pytest.raises(ValueError, match="dim"):
        make(2).fit(X, y)


@pytest.mark.few_epochs
def test_pipelines_of_the_paper(global_random_seed):
    X, y = hidden_signal(seed=global_random_seed)
    clusters = make_pipeline(make(), SpanningForestClustering(3))
    labels = clusters.fit(X, half_labelled(y)).predict(X)
    assert clustering_accuracy(y, labels) > 0.95
    probe = make_pipeline(make(), LogisticRegression())
    assert probe.fit(X, y).score(X, y) > 0.95


@pytest.mark.few_epochs
def test_callbacks_through_a_search_of_pipelines(capsys, global_random_seed):
    from sklearn.callback import ProgressBar, ScoringMonitor

    X, y = hidden_signal(seed=global_random_seed)
    monitor = ScoringMonitor(
        scoring={"score": lambda estimator, X, y: estimator.score(X, y)}
    )
    embedding = make(max_iter=2).set_callbacks(monitor)
    pipeline = make_pipeline(embedding, LogisticRegression())
    name = "spanningforestembedding__noise_scale"
    search = GridSearchCV(pipeline, {name: [0.1, 0.3]}, cv=2).fit(X, y)
    assert np.isfinite(search.best_score_)
    rows = monitor.get_logs().data
    assert len(rows) >= 4 * 2
    clone(embedding).set_callbacks(ProgressBar()).fit(X, y)
    assert "SpanningForestEmbedding" in capsys.readouterr().out


@pytest.mark.few_epochs
@pytest.mark.parametrize("encoder", ["linear", "mlp"])
@pytest.mark.parametrize("changed", ["n_components", "encoder", "features of X"])
def test_only_layers_of_the_same_sizes_continue(encoder, changed):
    X, y = hidden_signal(seed=0)
    embedding = make(encoder=encoder, max_iter=1, warm_start=True).fit(X, y)
    before = embedding.coefs_
    if changed == "n_components":
        embedding.set_params(n_components=3)
    elif changed == "encoder":
        embedding.set_params(encoder="mlp" if encoder == "linear" else "linear")
    else:
        X = X[:, :1]
    with pytest.raises(ValueError, match="layers of the same sizes as in the last fit"):
        embedding.fit(X, y)
    assert embedding.coefs_ is before
    embedding.set_params(warm_start=False).fit(X, y)
    assert embedding.coefs_[0].shape[0] == X.shape[1]


@pytest.mark.few_epochs
def test_warm_start_and_partial_fit_continue(global_random_seed):
    X, y = hidden_signal(seed=global_random_seed)
    embedding = make(max_iter=10, warm_start=True, init="random").fit(X, y)
    first = embedding.history_["loss"]
    embedding.set_params(max_iter=1).fit(X, y)
    assert embedding.history_["loss"][0] < first[0] / 2
    stream = make(init="random")
    for calls in range(1, 9):
        weights = getattr(stream, "coefs_", [np.zeros((2, 1))])[0]
        kept = weights.copy()
        stream.partial_fit(X, y)
        np.testing.assert_array_equal(weights, kept)
        assert stream.n_iter_ == calls == len(stream.history_["loss"])
    assert stream.history_["loss"][-1] < stream.history_["loss"][0]


@pytest.mark.parametrize(
    "y",
    [
        np.array(["a", "b", 3] * 20, dtype=object),
        np.array(["a", "b", b"c"] * 20, dtype=object),
        np.array([0, 1, 1j] * 20, dtype=object),
        np.array(["2026-11-22"] * 60, dtype="M8[D]"),
        np.arange(60) % 3 + 0.5,
        np.full(60, -2),
        np.full(60, np.nan),
    ],
    ids=["mixed", "bytes", "complex", "dates", "fractions", "below -1", "nan"],
)
def test_targets_that_are_no_classes_are_refused(y, global_random_seed):
    with pytest.raises(ValueError, match="'y' parameter of SpanningForestEmbedding"):
        make().fit(hidden_signal(seed=global_random_seed)[0], y)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_more_classes_than_clusters_are_taken_with_a_warning(method):
    """scikit-learn's checks set one cluster for three classes."""
    X, _ = hidden_signal()
    y = np.arange(60) % 6
    settings = {"max_iter": 1, "n_perturbations": 4}
    names = np.where(y == 5, "unknown", np.array(list("abcdef"))[y])
    cycle = [[0, 1], [1, 2], [2, 0]]
    for k, known, links, expected, n_found in (
        (3, y, None, "asked for 3 clusters, fewer than the classes in y, 6", 6),
        (5, names, None, "if a name in y means unknown, replace it by -1", 6),
        (2, None, cycle, "fewer than the groups that links separate, 3", 3),
    ):
        model = make(k, **settings)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            getattr(model, method)(X, known, cannot_link=links)
        assert any(expected in str(w.message) for w in caught)
        assert model.n_clusters_ == n_found


def as_text(y):
    """The same classes as strings; -1 becomes "-1"."""
    return np.where(y < 0, "-1", np.array(["cat", "ape", "bee"])[y])


@pytest.mark.parametrize(
    "mark", ["text", -1, None, np.nan, pd.NA], ids=["text", "-1", "None", "nan", "NA"]
)
@pytest.mark.few_epochs
def test_names_are_classes(mark, global_random_seed):
    X, y = hidden_signal(seed=global_random_seed)
    y = half_labelled(y)
    names = as_text(y)
    if not isinstance(mark, str):
        names = np.where(y < 0, mark, names.astype(object))
    expected = make(max_iter=1).fit(X, y)
    embedding = make(max_iter=1).fit(X, names)
    np.testing.assert_allclose(embedding.score(X, names), expected.score(X, y))
    np.testing.assert_array_equal(embedding.transform(X), expected.transform(X))
    series = pd.Series(names, dtype="string" if mark is pd.NA else None)
    stream = make().partial_fit(X, series)
    np.testing.assert_array_equal(stream.coefs_[0], make().partial_fit(X, y).coefs_[0])


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("encoder", ["linear", "mlp"])
@pytest.mark.few_epochs
def test_sparse_samples_are_those_of_dense_ones(container, dtype, encoder, tmp_path):
    X, y = hidden_signal()
    some = np.arange(len(X)) % 2 == 0
    X = np.column_stack([X[:, 0], X[:, 1] * some, np.zeros(len(X))]).astype(dtype)
    settings = {"max_iter": 3, "encoder": encoder}
    dense = make(**settings).fit(X, half_labelled(y))
    rows = container(X)
    before = rows.copy()
    embedding = make(**settings).fit(rows, half_labelled(y), checkpoint=tmp_path)
    assert abs(rows - before).nnz == 0
    np.testing.assert_allclose(embedding.coefs_[0], dense.coefs_[0], 1e-5, 1e-7)
    found = embedding.transform(rows)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, dense.transform(X), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found[:3], embedding.transform(rows[:3]))
    assert embedding.score(rows, y) == pytest.approx(dense.score(X, y))
    again = make(**settings).fit(
        rows, half_labelled(y), checkpoint=tmp_path, resume=True
    )
    np.testing.assert_array_equal(again.coefs_[0], embedding.coefs_[0])
    other = rows.copy()
    other.data[0] += 1
    with pytest.raises(ValueError, match="checkpoint"):
        make(**settings).fit(other, half_labelled(y), checkpoint=tmp_path, resume=True)


def test_what_must_be_given(global_random_seed):
    X, y = hidden_signal(seed=global_random_seed)
    with pytest.raises(ValueError, match="requires y to be passed.*must_link"):
        make().fit(X)
    with pytest.raises(ValueError, match="'n_clusters' parameter .* label do not tell"):
        make("auto").fit(X, half_labelled(y))
    with pytest.raises(ValueError, match="'n_clusters' parameter .* links do not tell"):
        make("auto").fit(X, must_link=[[0, 3]])
    with pytest.raises(ValueError, match="must be None where links are given"):
        make().fit(X, y, must_link=[[0, 3]])
    with pytest.raises(ValueError, match="n_samples=60. Got 61"):
        make(61).fit(X, y)
    with pytest.raises(ValueError, match="contradict"):
        make().fit(X, must_link=[[0, 1]], cannot_link=[[0, 1]])
    with pytest.raises(ValueError, match="Got the index 60.*links_to_incidence"):
        make().fit(X, must_link=[[0, 60]])
    with pytest.raises(ValueError, match="'device' parameter"):
        make(device="nowhere").fit(X, y)


@pytest.mark.parametrize(
    "known", [{"y": [-1] * 6}, {"must_link": np.empty((0, 2), dtype=int)}]
)
def test_nothing_known_at_all_is_refused(known):
    with pytest.raises(ValueError, match="at least one label or link to learn from"):
        make(2).fit(np.arange(12.0).reshape(6, 2), **known)


def test_batches_are_half_informed_and_whole(global_random_seed):
    labels = np.full(100, -1)
    labels[:20] = np.arange(20) % 4
    batches = InformedBatches(as_constraints(100, partial_labels=labels), None, 6)
    drawn = list(batches.epoch(16, np.random.RandomState(global_random_seed)))
    assert len(drawn) == 10
    for rows, constraints, k in drawn:
        assert len(rows) == 16 and (labels[rows] >= 0).sum() == 8
        n_classes = len(np.unique(labels[rows][labels[rows] >= 0]))
        assert constraints.n_classes == n_classes and k == 6
    others = np.concatenate([rows[labels[rows] < 0] for rows, *_ in drawn])
    assert len(np.unique(others)) == 80


def test_batches_of_links_hold_both_ends(global_random_seed):
    links = np.array([[0, 1], [2, 3], [4, 5], [6, 7]])
    constraints = as_constraints(40, cannot_link=links)
    batches = InformedBatches(constraints, links, 3)
    for rows, restricted, _ in batches.epoch(
        8, np.random.RandomState(global_random_seed)
    ):
        inside = np.isin(links, rows)
        assert (inside[:, 0] == inside[:, 1]).all() and inside[:, 0].sum() == 2
        assert len(restricted.cannot) == 2


@pytest.mark.parametrize("affinity", ["sqeuclidean", "cosine"])
def test_no_warning_on_a_good_run(affinity, global_random_seed):
    X, y = hidden_signal(seed=global_random_seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedding = make(max_iter=120, n_components=2, affinity=affinity)
        embedding.fit(X, half_labelled(y)).score(X, y)


@pytest.mark.few_epochs
@pytest.mark.parametrize("affinity", ["sqeuclidean", "cosine"])
@pytest.mark.parametrize("encoder", ["linear", "mlp", "module"])
def test_the_embedding_has_a_unit_root_mean_square(encoder, affinity):
    X, y = hidden_signal()
    if encoder == "module":
        encoder = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
    make_one = {"encoder": encoder, "affinity": affinity, "n_components": 3}
    model = make(max_iter=2, **make_one)
    # The unit is that of the embedding, whatever that of X; more epochs keep it.
    for rows in (X, X * 1e-3 if encoder == "linear" else X):
        model.fit(rows, half_labelled(y))
        for _ in range(2):
            embedding = model.transform(rows)
            assert np.sqrt(np.mean(embedding**2)) == pytest.approx(1, rel=1e-5)
            if affinity != "cosine":
                assert embedding.mean(axis=0) == pytest.approx(0, abs=1e-5)
            model.partial_fit(rows, half_labelled(y))


@pytest.mark.few_epochs
@pytest.mark.parametrize("unit", [2.0**300, 2.0**-300])
def test_the_unit_does_not_change_the_embedding(unit, global_random_seed):
    y = np.arange(60) % 3
    X = np.random.default_rng(global_random_seed).normal(size=(60, 4)) + 3 * y[:, None]
    model = SpanningForestEmbedding(3, max_iter=2, random_state=0)
    expected = model.fit(X, half_labelled(y)).transform(X)
    found = model.fit(unit * X, half_labelled(y)).transform(unit * X)
    np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.few_epochs
def test_a_fit_leaves_no_attributes_of_another_encoder():
    X = np.random.default_rng(0).normal(size=(30, 3))
    y = np.repeat([0, 1, -1], 10)
    embedding = SpanningForestEmbedding(2, max_iter=1, random_state=0)
    for encoder in ("linear", torch.nn.Linear(3, 2), "mlp"):
        embedding.set_params(encoder=encoder).fit(X, y)
        fresh = clone(embedding).fit(X, y)
        assert vars(embedding).keys() == vars(fresh).keys()
        assert embedding.transform(X).shape == fresh.transform(X).shape


def test_pairs_join_unless_something_separates_them(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    labels = np.where(rng.rand(30) < 0.4, rng.randint(3, size=30), -1)
    cannot = rng.randint(30, size=(8, 2))
    free = labels[cannot] < 0
    cannot = cannot[(cannot[:, 0] != cannot[:, 1]) & free.any(axis=1)]
    known = as_constraints(30, partial_labels=labels, cannot_link=cannot)
    pairs = rng.randint(30, size=(25, 2))
    found = joined(known, pairs)
    taken = np.empty((0, 2), dtype=int)
    for pair in pairs:
        more = np.vstack([taken, pair])
        try:
            expected = as_constraints(
                30, partial_labels=labels, must_link=more, cannot_link=cannot
            )
        except ValueError:
            continue
        taken = more
    assert 0 < len(taken) < len(pairs)
    np.testing.assert_array_equal(found.groups, expected.groups)
    np.testing.assert_array_equal(found.classes, expected.classes)
    np.testing.assert_array_equal(found.cannot, expected.cannot)


def test_batches_hold_neighbours_that_are_linked(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    X = rng.normal(size=(100, 2))
    labels = np.where(np.arange(100) < 20, np.arange(100) % 4, -1)
    constraints = as_constraints(100, partial_labels=labels)
    near = neighbors_of(X, 2)
    batches = InformedBatches(constraints, None, 6, near)
    seen = []
    for rows, known, k in batches.epoch(20, rng):
        assert len(rows) <= 20 and k >= known.n_classes
        linked = known.groups[:, None] == known.groups
        both = np.ix_(rows, rows)
        expected = near[both].toarray() > 0
        same = labels[rows] >= 0
        of_a_class = same[:, None] & (labels[rows][:, None] == labels[rows])
        closed = sparse.csgraph.connected_components(expected | of_a_class)[1]
        assert (closed[:, None] == closed)[linked].all()
        assert (linked & ~of_a_class).sum() > len(rows) - same.sum()
        seen.append(rows[labels[rows] < 0])
    assert len(np.unique(np.concatenate(seen))) >= 40


@pytest.mark.few_epochs
def test_pipeline_of_the_guide_finds_classes_and_their_number(global_random_seed):
    """Two of six classes have no label, and nobody tells the clusterer how many."""
    rng = np.random.RandomState(global_random_seed)
    y = np.arange(300) % 6
    X = 8 * np.eye(6)[y] + rng.normal(size=(300, 6))
    labels = np.where((y >= 2) & (np.arange(300) % 4 < 2), y, -1)
    assert set(labels) == {-1, 2, 3, 4, 5}
    embedding = SpanningForestEmbedding(6, max_iter=5, random_state=0)
    model = make_pipeline(embedding, SpanningForestClustering("auto"))
    found = model.fit(X, labels).predict(X)
    assert model[-1].n_clusters_ == 6
    assert adjusted_rand_score(y, found) > 0.95
    unnamed = y < 2
    assert adjusted_rand_score(y[unnamed], found[unnamed]) > 0.95
