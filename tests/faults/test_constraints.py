"""FAULTS 9, 10 and 39: constraints that contradict, and pairs in a search."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_validate

from skdiffclust import SpanningForestClustering, SpanningForestEmbedding
from skdiffclust.metrics import links_to_incidence, silhouette_scorer

pytestmark = [
    # Penalties, unlike forests, may leave a link unmet in a short training, and say so.
    pytest.mark.filterwarnings(
        "ignore:.*GEMINI(CV)? (separates|found):sklearn.exceptions.ConvergenceWarning"
    ),
    # Three blobs that no edge of the neighbours' graph joins, where two are requested.
    pytest.mark.filterwarnings("ignore:The graph of .* has 3 parts:UserWarning"),
]


def test_contradiction_through_the_closure_names_the_pair(constrained, blobs):
    labels = np.full(len(blobs), -1)
    labels[[0, 9]] = [0, 1]
    with pytest.raises(
        ValueError, match=r"samples? 0 and (sample )?9|samples? 9 and (sample )?0"
    ):
        constrained.fit(blobs, partial_labels=labels, must_link=[[0, 5], [5, 9]])


@pytest.mark.parametrize(
    "metadata, message",
    [
        ({"must_link": [[0, 90]]}, "Got the index 90.*links_to_incidence"),
        (
            {"must_link": [[0, 1], [1, 2]], "cannot_link": [[0, 2]]},
            "contradict",
        ),
        ({"must_link": [[-1, 3]]}, "'must_link' parameter"),
        ({"partial_labels": [0, 1]}, "'partial_labels' parameter"),
        ({"partial_labels": np.full(90, 0.5)}, "'partial_labels' parameter"),
        (
            {"partial_labels": np.array(["a", 1] * 45, object)},
            "'partial_labels' parameter",
        ),
        ({"partial_labels": np.full(90, -2)}, "'partial_labels' parameter"),
        ({"partial_labels": np.arange(90) % 4}, "at least 4, the number of classes"),
    ],
)
def test_constraints_that_cannot_be_meant(constrained, blobs, metadata, message):
    with pytest.raises(ValueError, match=message):
        constrained.fit(blobs, **metadata)


def test_a_constrained_forest_has_as_many_edges_as_it_must():
    X = np.random.default_rng(0).normal(size=(40, 3))
    for k in (2, 5, 9):
        model = SpanningForestClustering(k)
        model.fit(X, must_link=[[0, 1], [2, 3]], cannot_link=[[0, 2], [4, 5], [1, 7]])
        assert len(model.forest_edges_) == len(X) - k
        assert model.n_clusters_ == k


def test_more_classes_than_clusters_give_no_negative_loss(blobs):
    # A forest with too few edges would; those of a batch have as many trees as needed.
    y = np.arange(len(blobs)) % 4
    embedding = SpanningForestEmbedding(2, max_iter=3, random_state=0)
    with pytest.warns(ConvergenceWarning, match="fewer than the classes in y, 4"):
        embedding.fit(blobs, y)
    losses = np.array(embedding.history_["loss"])
    assert np.isfinite(losses).all() and (losses > 0).all()


def group_of_first(blobs):
    """Return the samples of the group that the first one is in."""
    return np.flatnonzero(np.linalg.norm(blobs - blobs[0], axis=1) < 8)


@pytest.mark.few_epochs
def test_constraints_travel_through_a_cross_validation(constrained, blobs):
    labels = np.full(len(blobs), -1)
    members = group_of_first(blobs)
    labels[members[::3]] = 0
    links = links_to_incidence(members[:4].reshape(2, 2), len(blobs))
    with config_context(enable_metadata_routing=True):
        for each in (constrained, getattr(constrained, "estimator", constrained)):
            each.set_fit_request(partial_labels=True, must_link=True)
        result = cross_validate(
            constrained,
            blobs,
            scoring=silhouette_scorer,
            params={"partial_labels": labels, "must_link": links},
            cv=2,
            error_score="raise",
        )
    assert np.isfinite(result["test_score"]).all()


def test_an_incidence_with_signs_is_refused(constrained, blobs):
    signed = links_to_incidence([[0, 50], [3, 80]], len(blobs)).tolil()
    signed[80, 1] = -1
    for name in ("must_link", "cannot_link"):
        with pytest.raises(ValueError, match=f"'{name}' par.*positive.*in column 1"):
            constrained.fit(blobs, **{name: signed.tocsr()})


@pytest.mark.few_epochs  # GEMINI reaches max_iter on a fold
def test_group_ids_and_incidence_in_a_search_without_routing(constrained, blobs):
    groups = np.full(len(blobs), -1)
    groups[group_of_first(blobs)[::5]] = 0
    search = GridSearchCV(
        constrained,
        {"n_clusters": [3]},
        scoring=silhouette_scorer,
        cv=2,
        error_score="raise",
    )
    search.fit(blobs, must_link=groups)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    with pytest.raises(ValueError, match="links_to_incidence"):
        search.fit(blobs, must_link=[[0, 89], [1, 88]])
