"""One contract for all estimators: a test for each cell of `tables/contract_table.py`.

Where a test of another file proves a cell, the table names it, and nothing is repeated.
"""

import inspect
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
import sklearn
from contract_table import CONTRACT
from numpy.testing import assert_allclose, assert_array_equal
from proven import ROOT, proof_of
from scipy import sparse
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skdiffclust
from skdiffclust import (
    GEMINI,
    ClAM,
    DeepClAM,
    GraphCutClustering,
    PRCut,
    SpanningForestClustering,
    SpanningForestEmbedding,
    SparseGEMINI,
    SparseGEMINICV,
)
from skdiffclust.memories._dynamics import Dynamics
from skdiffclust.memories._training import completion_with_gradient

TRAINING = {"mode": "ovo", "n_init": 1, "learning_rate": 0.05}
# Each with settings for a few samples in three groups.
MODELS = {
    "SpanningForestClustering": SpanningForestClustering(3),
    "ClAM": ClAM(3, n_init=2, random_state=0),
    "DeepClAM": DeepClAM(3, n_init=1, max_iter=4, random_state=0),
    "GraphCutClustering": GraphCutClustering(3, n_init=2, random_state=0),
    "PRCut": PRCut(3, encoder="linear", n_init=2, random_state=0),
    "GEMINI": GEMINI(3, **TRAINING, random_state=0),
    "SparseGEMINI": SparseGEMINI(3, **TRAINING, random_state=0),
    "SparseGEMINICV": SparseGEMINICV(
        SparseGEMINI(3, **TRAINING), n_alphas=2, n_resamples=2, random_state=0
    ),
    "SpanningForestEmbedding": SpanningForestEmbedding(
        3, n_components=2, max_iter=3, n_perturbations=4, random_state=0
    ),
}
X, Y = make_blobs(
    60, centers=[[2, 2], [11, 2], [2, 11]], cluster_std=0.6, random_state=0
)
X.setflags(write=False)
pytestmark = [
    # Few epochs, by choice, and groups that no edge of a graph of neighbours joins.
    pytest.mark.filterwarnings("ignore:The graph of .* has 3 parts:UserWarning"),
    pytest.mark.filterwarnings(
        r"ignore:\w+ did not converge:sklearn.exceptions.ConvergenceWarning"
    ),
]


@cache
def group_apart(name):
    """Return the group to part from two others that a free fit does not join."""
    if name == "SpanningForestEmbedding":
        return 0
    # SparseGEMINICV fits the estimator that it wraps.
    free = MODELS[name.removesuffix("CV")]
    free = fit(clone(free).set_params(n_clusters=2), X).labels_
    return 1 if adjusted_rand_score(Y != 0, free) == 1 else 0


# SparseGEMINICV hands these on to what it wraps, in seconds of many fits.
IN_FULL = {
    "sparse X in float32 and float64, 64-bit indices, Euclidean",
    "sparse X, cosine",
    "square sparse X as features",
    "metadata routing",
}


def over(row):
    """Parametrise a test over the estimators whose cells in a row name it."""

    def decorate(function):
        test = f"test_contract.py::{function.__name__}"
        full = [pytest.mark.full] if row in IN_FULL else []
        cases = [
            pytest.param(column, marks=full if column == "SparseGEMINICV" else [])
            for column, cell in CONTRACT.rows[row].items()
            if proof_of(cell) == test
        ]
        assert cases, test
        return pytest.mark.parametrize("name", cases)(function)

    return decorate


def fit(model, X, **known):
    """Fit a clone; an embedding learns of classes."""
    if isinstance(model, SpanningForestEmbedding) and not known:
        known = {"y": Y[: X.shape[0]]}
    return clone(model).fit(X, **known)


def answer(model, X):
    """Return labels, or the embedding."""
    return model.predict(X) if hasattr(model, "predict") else model.transform(X)


def assert_alike(found, expected):
    """Compare labels exactly, embeddings up to rounding."""
    if found.ndim == 1:
        assert adjusted_rand_score(found, expected) == 1
    else:
        assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def with_64_bit_indices(X):
    """Return X (n, d) as CSR with indices of 64 bits."""
    rows = sparse.csr_array(X)
    rows.indices = rows.indices.astype(np.int64)
    rows.indptr = rows.indptr.astype(np.int64)
    return rows


@over("sparse X in float32 and float64, 64-bit indices, Euclidean")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_samples(name, dtype):
    rng = np.random.RandomState(0)
    noise = rng.uniform(size=(60, 4)) * (rng.rand(60, 4) < 0.3)
    dense = np.hstack([X, noise]).astype(dtype)
    rows = with_64_bit_indices(dense)
    model = fit(MODELS[name], rows)
    assert_alike(answer(model, rows), answer(fit(MODELS[name], dense), dense))
    if hasattr(model, "labels_"):
        assert_array_equal(model.predict(rows), model.labels_)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full if name == "SparseGEMINICV" else [])
        for name in MODELS
    ],
)
def test_a_sparse_frame_is_a_sparse_matrix(name, monkeypatch):
    matrix = sparse.csr_matrix(X * (np.arange(60) % 7 > 0)[:, None])
    frame = pd.DataFrame.sparse.from_spmatrix(matrix)
    frame.columns = ["first", "second"]
    monkeypatch.setattr(pd.DataFrame, "__array__", None)  # nothing makes it dense
    model = fit(MODELS[name], frame)
    assert_array_equal(model.feature_names_in_, ["first", "second"])
    expected = fit(MODELS[name], matrix)
    assert_array_equal(answer(model, frame), answer(expected, matrix))


@pytest.mark.parametrize("name", ["PRCut", "DeepClAM"])
@pytest.mark.parametrize("encoder", ["mlp", "module"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_samples_train_an_encoder_as_dense_ones_do(name, encoder, dtype):
    rng = np.random.RandomState(0)
    dense = np.hstack([X, 1.0 * rng.poisson(0.3, size=(60, 6))]).astype(dtype)
    dense[0] *= 40  # far from all others
    weight = rng.uniform(1, 2, size=60)
    model = clone(MODELS[name]).set_params(encoder=encoder)
    if name == "PRCut":
        model.set_params(max_iter=4)
    if encoder == "module":
        torch = pytest.importorskip("torch")
        model.set_params(
            encoder=torch.nn.Linear(8, 3).to(getattr(torch, dtype.__name__))
        )
    rows = sparse.csr_array(dense)
    found = clone(model).fit(rows, sample_weight=weight)
    expected = clone(model).fit(dense, sample_weight=weight)
    assert_array_equal(found.labels_, expected.labels_)
    for method in ("predict", "predict_proba", "transform", "score"):
        if name == "PRCut" and encoder == "module" and method == "transform":
            continue
        assert_array_equal(
            getattr(found, method)(rows), getattr(expected, method)(dense)
        )
        assert_array_equal(getattr(found, method)(rows), getattr(found, method)(dense))
    if name == "PRCut":
        found.partial_fit(rows[:40])
        expected.partial_fit(dense[:40])
        assert_array_equal(found.predict_proba(rows), expected.predict_proba(dense))


@pytest.mark.parametrize("name", ["ClAM", "DeepClAM", "PRCut"])
def test_sparse_samples_are_never_dense_as_a_whole(name, monkeypatch):
    shape = 1500, 3000
    rows = sparse.random_array(shape, density=1e-3, format="csr", rng=0)
    model = clone(MODELS[name]).set_params(max_iter=1)
    known = {}
    if name == "PRCut":
        model.set_params(init="random", n_init=1, encoder="mlp")
        edges = [1.0, 1.0]
        known["precomputed"] = sparse.diags_array(
            edges, offsets=[-1, 1], shape=(1500, 1500)
        )
    sizes = []

    def count(matrix, *args, **kwargs):
        sizes.append(np.prod(matrix.shape))
        return toarray(matrix, *args, **kwargs)

    for form in (sparse.csr_array, sparse.csc_array):
        toarray = form.toarray
        monkeypatch.setattr(form, "toarray", count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, **known)
    for method in ("predict", "predict_proba", "transform"):
        getattr(model, method)(rows)
    assert len(sizes) > 3
    assert max(sizes) <= 2**21 < shape[0] * shape[1] / 2


@over("sparse X, cosine")
def test_sparse_samples_by_cosines(name):
    by_cosine = {"metric": "cosine"}
    if "GEMINI" in name:
        by_cosine = {"kernel": "cosine"}
    if name == "SparseGEMINICV":
        by_cosine = {"estimator__kernel": "cosine"}
    if name == "SpanningForestEmbedding":
        by_cosine = {"affinity": "cosine"}
    model = clone(MODELS[name]).set_params(**by_cosine)
    # On a ray each, at any distance: by Euclidean distances they are no groups.
    rng = np.random.RandomState(0)
    dense = np.eye(3)[Y] + 0.05 * rng.uniform(size=(60, 3)) * (rng.rand(60, 3) < 0.5)
    dense *= rng.uniform(1, 100, size=(60, 1))
    rows = with_64_bit_indices(dense)
    found = answer(fit(model, rows), rows)
    assert_alike(found, answer(fit(model, dense), dense))
    if found.ndim == 1:
        # Only the graph of PRCut is one of cosines: its encoder sees the lengths.
        assert adjusted_rand_score(Y, found) > (0.9 if name == "PRCut" else 0.999)


@over("square sparse X as features")
def test_a_square_sparse_x_is_features(name):
    # As a matrix of distances or a graph, these would be refused: negative, asymmetric.
    rng = np.random.RandomState(0)
    dense = (10.0 * Y[:30, None] + rng.normal(size=(30, 30))) * (rng.rand(30, 30) < 0.7)
    assert (dense < 0).any()
    rows = sparse.csr_array(dense)
    model = fit(MODELS[name], rows)
    assert model.n_features_in_ == 30
    assert_alike(answer(model, rows), answer(fit(MODELS[name], dense), dense))


@over("``sample_weight``")
def test_weights_are_repeats_in_loss_and_gradient(name):
    # What draws batches and masks by sample cannot give the same fit; the loss that is
    # minimised is the same at any memories.
    rng = np.random.RandomState(0)
    memories = rng.normal(size=(2, 3, 2)) + 5
    counts = rng.randint(0, 3, size=60)
    dynamics = Dynamics(
        inverse_temperature=0.3, n_steps=3, step_size=1.0, metric="euclidean"
    )
    log_weights = np.zeros((2, 3))
    results = []
    for rows, weight in ((X, counts), (np.repeat(X, counts, axis=0), None)):
        groups = [(slice(0, len(rows)), slice(0, 1))]
        weight = np.ones(len(rows)) if weight is None else weight.astype(float)
        results.append(
            completion_with_gradient(
                rows,
                memories,
                log_weights,
                dynamics,
                groups=groups,
                fill=np.zeros(2),
                sample_weight=weight,
            )
        )
    weighted, repeated = results
    assert weighted.loss.shape == (2,)
    assert_allclose(weighted.loss, repeated.loss, rtol=1e-10)
    assert_allclose(weighted.gradient, repeated.gradient, rtol=1e-10)
    assert_allclose(weighted.weight_gradient, repeated.weight_gradient, rtol=1e-10)


@over("``sample_weight``")
def test_weights_are_taken(name):
    weight = np.ones(60)
    assert_array_equal(
        clone(MODELS[name]).fit(X, sample_weight=weight).labels_,
        fit(MODELS[name], X).labels_,
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full if name == "SparseGEMINICV" else [])
        for name in MODELS
        if name != "SpanningForestEmbedding"
    ],
)
def test_clusters_are_ordered_by_the_sum_of_weights(name):
    # By their counts and by the first row of each, the groups are in order.
    rows = np.flatnonzero((Y == 0) | (np.arange(60) % 5 > 0))
    groups = np.unique(Y[rows], return_index=True)[1].argsort().argsort()[Y[rows]]
    weight = np.array([1.0, 3.0, 2.0])[groups]
    labels = clone(MODELS[name]).fit(X[rows], sample_weight=weight).labels_
    assert_array_equal(labels, np.array([2, 0, 1])[groups])


@over("``partial_labels`` or ``y``, integers or strings")
def test_labels_of_some(name):
    is_embedding = name == "SpanningForestEmbedding"
    model = clone(MODELS[name]).set_params(n_clusters=2)
    classes = (Y != group_apart(name)).astype(int)
    names = np.array(["first", "other"], dtype=object)[classes]
    known = np.where(np.arange(60) % 4, classes, -1)
    known_names = np.where(known >= 0, names, -1)
    if is_embedding:
        found = answer(fit(model, X, y=known), X)
        assert_array_equal(answer(fit(model, X, y=known_names), X), found)
        return
    found = fit(model, X, partial_labels=known).labels_
    assert adjusted_rand_score(known[known >= 0], found[known >= 0]) == 1
    assert_array_equal(fit(model, X, partial_labels=known_names).labels_, found)


@over("``must_link``, ``cannot_link``")
def test_links(name):
    model = clone(MODELS[name]).set_params(n_clusters=2)
    apart = group_apart(name)
    first, *joined = (np.flatnonzero((Y - apart) % 3 == group) for group in range(3))
    must_link = np.column_stack(joined)
    cannot_link = np.column_stack([first, joined[0]])
    found = answer(fit(model, X, must_link=must_link, cannot_link=cannot_link), X)
    if found.ndim == 1:
        assert adjusted_rand_score(Y != apart, found) == 1
    else:
        assert not np.array_equal(found, answer(fit(model, X, must_link=must_link), X))


@over('``n_clusters="auto"``, with a warning if it is not clear')
def test_number_of_clusters(name):
    model = clone(MODELS[name]).set_params(n_clusters="auto")
    rng = np.random.RandomState(0)
    groups = rng.normal(size=(120, 4)) + 8 * np.eye(4)[np.arange(120) % 3]
    found = clone(model).fit(groups)
    assert found.n_clusters_ == 3
    with pytest.warns(ConvergenceWarning, match="no clear"):
        clone(model).fit(rng.normal(size=(120, 4)))


@over("``predict``")
def test_predictions(name):
    model = clone(MODELS[name]).fit(X)
    assert_array_equal(model.predict(X), model.labels_)


@over("``predict_proba``, of forests with ``consensus=True`` and perturbations")
def test_probabilities(name):
    model = clone(MODELS[name])
    if name == "SpanningForestClustering":
        model.set_params(consensus=True, n_perturbations=10, random_state=0)
    model.fit(X)
    assert_array_equal(model.predict(X), model.labels_)
    # BERTopic reads it.
    assert_allclose(model.probabilities_, model.predict_proba(X).max(axis=1), rtol=1e-6)
    new = X[:20] + 0.1
    probabilities = model.predict_proba(new)
    assert_allclose(probabilities.sum(axis=1), 1)
    assert_array_equal(probabilities.argmax(axis=1), model.predict(new))


@over("``partial_fit``")
def test_a_stream(name):
    model = clone(MODELS[name])
    for rows in np.split(np.random.RandomState(0).permutation(60), 2):
        known = {"y": Y[rows]} if name == "SpanningForestEmbedding" else {}
        model.partial_fit(X[rows], **known)
    found = answer(model, X)
    assert len(found) == 60
    before = answer(model, X)
    model.partial_fit(X, **({"y": Y} if known else {}))
    assert found.ndim == 1 or not np.array_equal(answer(model, X), before)
    if found.ndim == 1:
        assert adjusted_rand_score(Y, answer(model, X)) > 0.5


@over("callbacks")
def test_a_progress_bar(name, capsys):
    pytest.importorskip("rich")
    model = clone(MODELS[name]).set_params(n_perturbations=5, random_state=0)
    model.set_callbacks(ProgressBar()).fit(X)
    assert name in capsys.readouterr().out


@over("``ConvergenceWarning``")
def test_what_has_not_converged_says_so(name):
    model = clone(MODELS[name])
    if name == "SparseGEMINICV":
        # All samples at once would be solved for.
        model.set_params(estimator__max_iter=1, estimator__batch_size=20)
    else:
        model.set_params(max_iter=1)
    rng = np.random.RandomState(0)
    mixed = rng.normal(size=(60, 5))
    if name == "PRCut":
        model.set_params(init="random")
    if name == "ClAM":
        model.set_params(init="random")  # else k-means is refined
    with pytest.warns(ConvergenceWarning, match="did not converge|found|max_iter"):
        fit(model, mixed)


@over("``score``")
def test_score(name):
    model = fit(MODELS[name], X)
    known = (Y,) if name == "SpanningForestEmbedding" else ()
    score = model.score(X, *known)
    assert isinstance(score, float)
    assert model.score(X, *known) == score
    # Larger is better: these have no groups.
    wrong = np.random.RandomState(0).uniform(1, 12, size=X.shape)
    assert model.score(wrong, *known) < score
    said = " ".join(inspect.getdoc(type(model).score).split())
    assert "number" in said and "choose" in said


@over("``set_output``, feature names, float32")
def test_output(name):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X.astype(np.float32), columns=["width", "price"])
    model = clone(MODELS[name])
    if name == "PRCut":
        model.set_params(encoder="mlp")
    tags = model.__sklearn_tags__()
    assert set(tags.transformer_tags.preserves_dtype) == {"float64", "float32"}
    model.set_output(transform="pandas")
    known = {"y": Y} if name == "SpanningForestEmbedding" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        out = model.fit(frame, **known).transform(frame)
    assert list(out.columns) == list(model.get_feature_names_out())
    assert set(out.dtypes) == {np.dtype(np.float32)}


@over("metadata routing")
def test_metadata_routing(name):
    classes = (Y != group_apart(name)).astype(int)
    given = {
        "sample_weight": np.linspace(0.5, 1.5, 60),
        "partial_labels": np.where(np.arange(60) % 4, classes, -1),
        "must_link": np.where(np.arange(60) % 4, classes, -1),
        "cannot_link": sparse.csr_array(
            (np.ones(2), ([int(np.argmax(Y == 0)), int(np.argmax(Y == 1))], [0, 0])),
            shape=(60, 1),
        ),
    }
    model = clone(MODELS[name]).set_params(n_clusters=2)
    known = {
        key: value
        for key, value in given.items()
        if key in inspect.signature(model.fit).parameters
    }
    assert known
    scaled = StandardScaler().fit_transform(X)
    with sklearn.config_context(enable_metadata_routing=True):
        # SparseGEMINICV takes what the estimator that it wraps requests.
        wrapped = getattr(model, "estimator", model)
        wrapped.set_fit_request(**dict.fromkeys(known, True))
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, clone(model)).fit(X, **known)
        direct = clone(model).fit(scaled, **known)
    assert_array_equal(answer(pipeline, X), answer(direct, scaled))


def does(function):
    """Whether a call is not refused."""
    try:
        function()
    except (AttributeError, TypeError, ValueError):
        return False
    return True


# What the second table of the page claims of the imputer.
CLAIMS = {
    "sparse X": lambda model: does(lambda: model.fit(sparse.csr_array(X))),
    '"NaN in X"': lambda model: does(lambda: model.fit(np.where(X > 12, np.nan, X))),
    '"``sample_weight``"': lambda model: does(
        lambda: model.fit(X, sample_weight=np.ones(len(X)))
    ),
    '"``partial_labels``, ``must_link``, ``cannot_link``"': lambda model: any(
        does(lambda given=given: model.fit(X, **given))
        for given in (
            {"partial_labels": Y},
            {"must_link": [[0, 1]]},
            {"cannot_link": [[0, 1]]},
        )
    ),
    '"``n_clusters=""auto""``"': lambda model: does(
        lambda: clone(model).set_params(n_clusters="auto").fit(X)
    ),
    '"``predict`` or ``transform`` of new samples"': lambda model: does(
        lambda: getattr(model.fit(X), "predict", getattr(model, "transform", None))(X)
    ),
    "``score``": lambda model: does(lambda: model.fit(X).score(X)),
    '"``set_output``, feature names"': lambda model: does(
        lambda: model.set_output(transform="default").fit(X).get_feature_names_out()
    ),
}


def test_what_is_said_of_the_imputer():
    text = (ROOT / "doc" / "contract.rst").read_text(encoding="utf-8")
    rows = text[text.index(".. csv-table::") :].strip().splitlines()[3:]
    model = skdiffclust.AssociativeImputer(random_state=0)
    assert len(rows) == len(CLAIMS)
    for row in rows:
        title, tick = row.strip().rsplit(", ", 1)
        assert ("✓" if CLAIMS[title](model) else "–") == tick, row
