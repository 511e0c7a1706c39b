"""Results of the paper of PRCut, and guarantees of this package beyond it.

Where the paper's data need a download (CIFAR, Fashion-MNIST, and the VaDE, CLIP and
DINOv2 rows of Tables 2 to 4) nothing is reproduced. The figures that these tests print
are in doc/reproductions.
"""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import train_test_split

from skdiffclust import GraphCutClustering, PRCut
from skdiffclust.cuts import ratio_cut
from skdiffclust.cuts._local_search import as_level, local_search
from skdiffclust.metrics import clustering_accuracy

pytestmark = pytest.mark.paper
SEEDS = range(5)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    search = {"n_init": 1, "min_cluster_size": 1, "random_state": 0}
    model = GraphCutClustering(10, affinity="nearest_neighbors", **search).fit(X)
    return X, y, model.affinity_matrix_


def test_table_1_label_similarity_classifies_digits(digits):
    X, y, _ = digits
    accuracies = []
    for seed in SEEDS:
        train, test, y_train, y_test = train_test_split(
            X, y, test_size=0.2, random_state=seed, stratify=y
        )
        model = PRCut(10, encoder="mlp", random_state=seed).fit(
            train, partial_labels=y_train
        )
        accuracies.append(clustering_accuracy(y_test, model.predict(test)))
    print(np.round(accuracies, 3))
    assert np.median(accuracies) >= 0.96 and min(accuracies) >= 0.94


@pytest.mark.parametrize("name", ["usps_train", "mnist_t10k"])
def test_table_1_label_similarity_classifies_images(name, shared_data):
    X, y = shared_data(name)
    X = X.astype(np.float32)
    train, test, y_train, y_test = train_test_split(
        X, y, test_size=0.2, random_state=0, stratify=y
    )
    model = PRCut(10, encoder="mlp", objective="bound", max_iter=20, random_state=0)
    model.fit(train, partial_labels=y_train)
    accuracy = clustering_accuracy(y_test, model.predict(test))
    print(name, round(accuracy, 3))
    assert accuracy >= 0.93


def test_table_2_pseudo_labels_and_encoders_against_spectral_clustering(digits):
    X, y, graph = digits
    cuts = {}
    for seed in SEEDS:
        peer = SpectralClustering(10, affinity="precomputed", random_state=seed)
        labels = peer.fit_predict(graph).astype(np.int64)
        spectral = ratio_cut(graph, labels).value
        improved = ratio_cut(graph, local_search(as_level(graph), labels, 10)).value
        search = {"cut": "ratio", "random_state": seed}
        graph_cut = partial(GraphCutClustering, 10, min_cluster_size=1, **search)
        spectrum = SpectralClustering(affinity="precomputed")
        for name, init in (("spectral", spectrum), ("multilevel", None)):
            models = {
                None: graph_cut(init=name),
                "linear": PRCut(10, encoder="linear", init=init, **search),
                "mlp": PRCut(10, encoder="mlp", init=init, **search),
            }
            for encoder, model in models.items():
                model.fit(X, precomputed=graph)
                assert model.n_clusters_ == 10
                value = model.ratio_cut_ / spectral
                cuts.setdefault((name, encoder), []).append(value)
        cuts.setdefault("improved", []).append(improved / spectral)
    medians = {name: np.median(values) for name, values in cuts.items()}
    print({name: round(value, 4) for name, value in medians.items()})
    assert max(cuts["spectral", None]) <= 1.0
    for encoder in ("linear", "mlp"):
        assert medians["spectral", encoder] <= 1.0
        assert medians["multilevel", encoder] <= medians["spectral", None]
    # Beyond spectral clustering with the same local search, on digits:
    assert medians["multilevel", None] < medians["improved"]


def test_table_2_the_recipe_of_the_paper_stays_above_spectral_clustering(digits):
    X, _, graph = digits
    spectral = SpectralClustering(10, affinity="precomputed", random_state=0)
    peer = ratio_cut(graph, spectral.fit_predict(graph)).value
    model = PRCut(
        10,
        cut="ratio",
        encoder="mlp",
        hidden_layer_sizes=(512,),
        init="random",
        objective="bound",
        batch_size=898,
        learning_rate=1e-3,
        max_iter=300,
        tol=0.0,
        n_init=1,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # clusters may empty
        model.fit(X, precomputed=graph)
    print(model.n_clusters_, model.ratio_cut_, peer)
    assert model.n_clusters_ < 10 or model.ratio_cut_ > peer


def test_predicting_a_held_out_fifth_is_nearly_refitting_on_all(digits):
    X, _, _ = digits
    for encoder in (None, "mlp"):
        agreement, between_seeds = [], []
        for seed in SEEDS:
            held = np.random.RandomState(seed).permutation(len(X))[: len(X) // 5]
            rest = np.setdiff1d(np.arange(len(X)), held)
            part = PRCut(10, encoder=encoder, random_state=seed).fit(X[rest])
            full, other = (
                PRCut(10, encoder=encoder, random_state=s).fit(X)
                for s in (seed, seed + 100)
            )
            assert part.n_clusters_ == 10
            agreement.append(
                adjusted_rand_score(full.labels_[held], part.predict(X[held]))
            )
            between_seeds.append(adjusted_rand_score(full.labels_, other.labels_))
        print(encoder, np.round(agreement, 3), np.round(between_seeds, 3))
        assert np.median(agreement) >= 0.9 and min(agreement) >= 0.8
