"""Checkpoints of PRCut: interrupted at any epoch, resumed to the same bits."""

import shutil

import numpy as np
import pytest
from interrupted import interrupted
from sklearn.datasets import make_blobs

from skdiffclust import PRCut

SETTINGS = {
    "hidden_layer_sizes": (8,),
    "max_iter": 14,
    "n_init": 2,
    "tol": 0.0,
    "random_state": 0,
}
pytestmark = pytest.mark.few_epochs


@pytest.fixture
def blobs(global_random_seed):
    return make_blobs(90, centers=3, cluster_std=3, random_state=global_random_seed)[0]


def assert_same(found, expected, X):
    assert found.history_ == expected.history_
    assert found.n_iter_ == expected.n_iter_
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize(
    ("changed", "n_epochs"),
    [
        ({}, 1),
        ({"encoder": "linear", "cut": "ratio"}, 10),
        ({"objective": "bound"}, 10),
    ],
)
def test_a_resumed_fit_has_the_bits_of_a_whole_one(changed, n_epochs, blobs, tmp_path):
    model = PRCut(3, **SETTINGS | changed)
    whole = PRCut(3, **SETTINGS | changed).fit(blobs)
    folder = tmp_path / "fit"
    interrupted(lambda: model.fit(blobs, checkpoint=folder), n_epochs)
    assert not hasattr(model, "labels_")
    model.fit(blobs, checkpoint=folder, resume=True)
    assert_same(model, whole, blobs)
    again = PRCut(3, **SETTINGS | changed)
    again.fit(blobs, checkpoint=folder, resume=True)
    assert_same(again, whole, blobs)


@pytest.mark.torch
def test_a_module_is_resumed_with_its_dropout(blobs, tmp_path):
    import torch

    def network():
        with torch.random.fork_rng():
            torch.manual_seed(0)
            layers = [torch.nn.Linear(2, 8), torch.nn.Dropout(0.2), torch.nn.Tanh()]
            return torch.nn.Sequential(*layers, torch.nn.Linear(8, 3)).double()

    settings = SETTINGS | {"encoder": network(), "init": "random", "n_init": 1}
    whole = PRCut(3, **settings).fit(blobs)
    model = PRCut(3, **settings)
    interrupted(lambda: model.fit(blobs, checkpoint=tmp_path / "fit"), 5)
    model.fit(blobs, checkpoint=tmp_path / "fit", resume=True)
    assert_same(model, whole, blobs)
    other = network()
    with torch.no_grad():
        other[0].weight.add_(0.1)
    with pytest.raises(ValueError, match="encoder|first"):
        PRCut(3, **settings | {"encoder": other}).fit(
            blobs, checkpoint=tmp_path / "fit", resume=True
        )


def test_what_is_not_of_this_fit_is_refused(blobs, tmp_path):
    folder = tmp_path / "fit"
    interrupted(lambda: PRCut(3, **SETTINGS).fit(blobs, checkpoint=folder), 2)
    for changed, X in (
        ({"learning_rate": 0.02}, blobs),
        ({"n_neighbors": 8}, blobs),
        ({"random_state": 1}, blobs),
        ({}, blobs + 1.0),
    ):
        kept = tmp_path / "kept"
        shutil.copytree(folder, kept)
        with pytest.raises(ValueError, match="checkpoint"):
            PRCut(3, **SETTINGS | changed).fit(X, checkpoint=kept, resume=True)
        shutil.rmtree(kept)
    # Links are of the fit, too.
    with pytest.raises(ValueError, match="checkpoint"):
        PRCut(3, **SETTINGS).fit(
            blobs, checkpoint=folder, resume=True, must_link=[[0, 1]]
        )


def test_a_checkpoint_that_nothing_would_be_written_to_is_refused(blobs, tmp_path):
    recipe = PRCut(3, **SETTINGS | {"init": "random"})
    with pytest.raises(ValueError, match="'checkpoint' .* several restarts"):
        recipe.fit(blobs, checkpoint=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("init", [None, "random"])
def test_free_logits_are_resumed(init, blobs, tmp_path):
    graph = PRCut(3, **SETTINGS).fit(blobs).affinity_matrix_
    settings = SETTINGS | {"affinity": "precomputed", "init": init, "n_init": 1}
    whole = PRCut(3, **settings).fit(graph)
    model = PRCut(3, **settings)
    interrupted(lambda: model.fit(graph, checkpoint=tmp_path / "fit"), 3)
    model.fit(graph, checkpoint=tmp_path / "fit", resume=True)
    assert model.history_ == whole.history_
    np.testing.assert_array_equal(model.labels_, whole.labels_)
