"""Properties of every estimator, for any samples."""

import random
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from skdiffclust import (
    GEMINI,
    ClAM,
    PRCut,
    SpanningForestClustering,
    SpanningForestEmbedding,
    SparseGEMINI,
)

pytestmark = pytest.mark.numerical
CLUSTERERS = [
    ClAM(2, n_init=2, max_iter=2),
    GEMINI(2, max_iter=2),
    GEMINI(2, model="linear", max_iter=2, mode="ovo"),
    PRCut(2, encoder="mlp", max_iter=2),
    PRCut(2, max_iter=2, encoder="linear", init="random"),
    SpanningForestClustering(2),
    SparseGEMINI(2, max_iter=2),
]


@st.composite
def points(draw):
    """Rows (n, d), n from 4 to 12 and d from 1 to 5, some of them equal."""
    rng = np.random.RandomState(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(4, 12)), draw(st.integers(1, 5))
    X = rng.normal(size=(n, d)) * 10.0 ** draw(st.integers(-3, 3))
    X[n // 2 :, 0] += 5 * X.std() + 1
    X[-1] = X[0]
    return X


def streams():
    """The states of all global random streams."""
    name, keys, *rest = np.random.get_state()  # noqa: NPY002 the global one is meant
    states = [name, keys.tobytes(), rest, random.getstate()]
    if find_spec("torch") is not None:
        import torch

        states.append(torch.get_rng_state().tolist())
    return states


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@given(points(), st.sampled_from(CLUSTERERS), st.integers(0, 1000))
def test_labels_are_predicted_and_nothing_else_moves(X, clusterer, seed):
    before, kept = streams(), X.copy()
    model = clone(clusterer)
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    labels = model.fit(X).labels_
    assert np.array_equal(model.predict(X), labels)
    for size in (1, 7):
        parts = [model.predict(X[i : i + size]) for i in range(0, len(X), size)]
        assert np.array_equal(np.concatenate(parts), labels)
    assert labels[-1] == labels[0]  # equal rows
    assert model.n_clusters_ == len(np.unique(labels)) == labels.max() + 1
    assert np.array_equal(clone(model).fit(X).labels_, labels)
    if hasattr(model, "predict_proba"):
        assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0, rtol=0, atol=1e-6)
    assert streams() == before
    assert np.array_equal(X, kept)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@given(points(), st.integers(0, 1000))
def test_an_embedding_depends_on_its_row_alone(X, seed):
    before = streams()
    y = np.where(np.arange(len(X)) % 2, np.arange(len(X)) // (len(X) // 2 + 1), -1)
    embedding = SpanningForestEmbedding(
        2, n_components=2, max_iter=1, n_perturbations=2, random_state=seed
    )
    Z = embedding.fit(X, y).transform(X)
    for size in (1, 7):
        parts = [embedding.transform(X[i : i + size]) for i in range(0, len(X), size)]
        assert np.array_equal(np.concatenate(parts), Z)
    assert np.array_equal(clone(embedding).fit(X, y).transform(X), Z)
    assert streams() == before
