"""DeepClAM: the encoder is trained with memories, and kept as arrays."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from skdiffclust import ClAM, DeepClAM
from skdiffclust.memories import recall
from skdiffclust.metrics import silhouette_scorer

FAST = dict(n_init=2, max_iter=16, random_state=0)


def blobs(seed=0):
    """Return rows of three blobs in 12 features, and which blob."""
    return make_blobs(160, centers=10 * np.eye(3, 12), cluster_std=2, random_state=seed)


def network(n_outputs=3):
    """Return a fresh torch encoder of 12 features."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, n_outputs))


@pytest.mark.few_epochs
def test_mlp_finds_the_blobs_and_is_numpy(global_random_seed):
    X, y = blobs(global_random_seed)
    before = torch.get_rng_state()
    model = DeepClAM(3, **FAST).fit(X)
    assert torch.equal(torch.get_rng_state(), before)
    assert adjusted_rand_score(y, model.labels_) > 0.9
    assert model.cluster_centers_.shape == (3, 10)
    assert np.array_equal(model.predict(X), model.labels_)
    assert all(isinstance(w, np.ndarray) for part in model.encoder_ for w in part)
    assert model.device_ in ("cpu", "cuda")
    assert len(model.history_["loss"]) == model.n_iter_ <= 16
    again = DeepClAM(3, **FAST).fit(X)
    assert np.array_equal(again.cluster_centers_, model.cluster_centers_)


@pytest.mark.parametrize("encoder", ["mlp", "module"])
@pytest.mark.few_epochs
def test_methods_are_those_of_the_codes(encoder, global_random_seed):
    X, _ = blobs(global_random_seed)
    encoder = network() if encoder == "module" else encoder
    model = DeepClAM(4, encoder=encoder, **FAST).fit(X)
    code = model.transform(X)
    assert code.shape == (160, model.cluster_centers_.shape[1])
    assert list(model.get_feature_names_out()[:2]) == ["deepclam0", "deepclam1"]
    far = cdist(code, model.cluster_centers_, "sqeuclidean")
    shares = np.exp(-model.inverse_temperature_ * (far - far.min(axis=1)[:, None]))
    shares /= shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), shares, rtol=1e-6, atol=1e-12)
    recalled = recall(
        code,
        model.cluster_centers_,
        model.inverse_temperature_,
        n_steps=3,
        step_size=1 / 6,
    )
    nearest = cdist(recalled, model.cluster_centers_).argmin(axis=1)
    assert np.array_equal(model.predict(X), nearest)
    first, second = np.sort(np.sqrt(far), axis=1)[:, :2].T
    assert model.score(X) == pytest.approx(np.mean(1 - first / second))
    whole = model.predict(np.vstack([X, X[:20]]))
    assert np.array_equal(whole[160:], whole[:20])
    for size in (1, 7):
        parts = [model.predict(X[i : i + size]) for i in range(0, 21, size)]
        assert np.array_equal(np.concatenate(parts), whole[:21])
    loaded = pickle.loads(pickle.dumps(model))
    assert np.array_equal(loaded.predict(X), model.labels_)


@pytest.mark.parametrize("mask_probability", [0.0, 0.15])
def test_module_is_copied_and_trained(mask_probability, global_random_seed):
    X, y = blobs(global_random_seed)
    module = network()
    before = [p.clone() for p in module.parameters()]
    params = {**FAST, "max_iter": 40}
    params["mask_probability"] = mask_probability
    model = DeepClAM(3, encoder=module, **params).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.9
    assert all(
        torch.equal(a, b) for a, b in zip(module.parameters(), before, strict=True)
    )
    trained = zip(model.encoder_.parameters(), before, strict=True)
    assert not any(torch.equal(a, b) for a, b in trained)
    assert all(p.device.type == "cpu" for p in model.encoder_.parameters())
    assert model.cluster_centers_.shape == (3, 3)
    assert model.get_params()["encoder"] is module


@pytest.mark.few_epochs
def test_networks_that_are_frozen_stay_and_only_memories_are_trained(
    global_random_seed,
):
    X, y = blobs(global_random_seed)
    encoder, decoder = network(), nn.Linear(3, 12)
    for module in (encoder, decoder):
        module.requires_grad_(False)
    model = DeepClAM(3, encoder=encoder, decoder=decoder, **FAST).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.5
    for fitted, given in ((model.encoder_, encoder), (model.decoder_, decoder)):
        for a, b in zip(fitted.parameters(), given.parameters(), strict=True):
            assert torch.equal(a, b)


@pytest.mark.few_epochs
def test_no_memory_moves_to_a_sample_of_no_weight(global_random_seed):
    X, _ = blobs(global_random_seed)
    rows = np.vstack([np.repeat(X[:2], 10, axis=0), np.full((40, 12), 30.0)])
    weight = np.repeat([1.0, 0.0], [20, 40])
    encoder, decoder = network(), nn.Linear(3, 12)
    for module in (encoder, decoder):
        module.requires_grad_(False)
    for seed in range(3):
        model = DeepClAM(4, encoder=encoder, decoder=decoder, n_init=1, max_iter=2)
        with pytest.warns(ConvergenceWarning, match="2 of 4 clusters"):
            model.set_params(random_state=seed).fit(rows, sample_weight=weight)
        codes = model.transform(rows)
        far = np.linalg.norm(model.cluster_centers_ - codes[-1], axis=1)
        assert far.min() > 0.5 * np.linalg.norm(codes[:20] - codes[-1], axis=1).min()


def test_training_ends_where_clusters_no_longer_change(global_random_seed):
    X, y = blobs(global_random_seed)
    params = {**FAST, "max_iter": 100}
    model = DeepClAM(3, encoder=network(), **params).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.9
    # At most 50 epochs of pretraining, and fewer than four rounds after it.
    assert 10 < model.n_iter_ < 98
    losses = model.history_["loss"]
    assert min(losses[:50]) < 0.8 * losses[0]
    assert model.n_iter_ == len(losses)


@pytest.mark.few_epochs
def test_memories_are_means_that_do_not_attract_the_same_samples(global_random_seed):
    X, _ = make_blobs(200, 10, centers=20, random_state=global_random_seed)
    fast = {**FAST, "max_iter": 40}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # clusters of few samples
        model = DeepClAM(20, **fast).fit(X)
    code = model.transform(X)
    centers, labels = model.cluster_centers_, model.labels_
    means = [code[labels == m].mean(axis=0) for m in range(20)]
    spread = np.sqrt(code.var(axis=0).sum())
    assert np.linalg.norm(centers - means, axis=1).max() < 0.1 * spread
    apart = cdist(centers, centers, "sqeuclidean") + np.diag(np.full(20, np.inf))
    assert (model.inverse_temperature_ * apart.min(axis=1)).mean() > 5.9


@pytest.mark.few_epochs
def test_a_decoder_of_the_user(global_random_seed):
    X, y = blobs(global_random_seed)
    torch.manual_seed(0)
    decoder = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 12))
    before = [p.clone() for p in decoder.parameters()]
    model = DeepClAM(3, encoder=network(), decoder=decoder, **FAST).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.9
    for kept, now, start in zip(
        model.decoder_.parameters(), decoder.parameters(), before, strict=True
    ):
        assert torch.equal(now, start)
        assert not torch.equal(kept, start)


@pytest.mark.few_epochs
def test_callbacks_watch_every_epoch_through_a_search(global_random_seed):
    centers = np.repeat(10 * np.eye(3), 4, axis=1)
    X, _ = make_blobs(
        160, centers=centers, cluster_std=2, random_state=global_random_seed
    )
    monitor = ScoringMonitor(scoring={"silhouette": silhouette_scorer})
    model = DeepClAM(encoder=network(), n_init=1, max_iter=24, random_state=0)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), model.set_callbacks(monitor)),
        {"deepclam__n_clusters": [2, 3]},
        scoring=silhouette_scorer,
        cv=2,
    ).fit(X)
    assert search.best_params_ == {"deepclam__n_clusters": 3}
    rows = monitor.get_logs().data
    assert len(rows) >= 4 * 3
    assert all(np.isfinite(row["silhouette"]) for row in rows)


@pytest.mark.parametrize("columns", [5, slice(None)])
@pytest.mark.few_epochs
def test_a_wrong_value_or_sample_costs_no_cluster(columns, global_random_seed):
    X, y = blobs(global_random_seed)
    X[3, columns] *= 1e6
    model = DeepClAM(3, **FAST).fit(X)
    right = np.arange(len(X)) != 3
    assert adjusted_rand_score(y[right], model.labels_[right]) > 0.9
    assert np.array_equal(model.predict(X), model.labels_)
    assert np.ptp(model.transform(X)[3]) < 10 * np.ptp(model.transform(X)[right])


@pytest.mark.few_epochs
def test_number_of_clusters_is_found(global_random_seed):
    X, _ = blobs(global_random_seed)
    model = DeepClAM("auto", **{**FAST, "max_iter": 4}).fit(X)
    assert model.n_clusters_ == 3
    assert model.n_clusters_ in model.n_clusters_curve_["n_clusters"]


@pytest.mark.few_epochs
def test_rows_of_no_weight_are_not_there(global_random_seed):
    X, y = (part[:80] for part in blobs(global_random_seed))
    far = np.vstack([X, np.full((3, 12), 500.0)])
    weight = np.r_[np.ones(len(X)), np.zeros(3)]
    model = DeepClAM(3, batch_size=2, **{**FAST, "max_iter": 3})
    model.fit(far, sample_weight=weight)
    assert adjusted_rand_score(y, model.labels_[: len(X)]) > 0.9


@pytest.mark.few_epochs
def test_fault_30_state_is_numpy_and_loads_without_kernels(global_random_seed):
    X, _ = blobs(global_random_seed)
    params = dict(random_state=global_random_seed, n_init=2, max_iter=2)
    models = [kind(3, **params).fit(X) for kind in (ClAM, DeepClAM)]
    code = (
        "import sys, pickle; models, X = pickle.load(sys.stdin.buffer); "
        "print('numba' in sys.modules, [len(m.predict(X)) for m in models], "
        "'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps((models, X)),
        capture_output=True,
    )
    assert done.stdout.decode().strip() == "False [160, 160] False", done.stderr


@pytest.mark.few_epochs
def test_sparse_samples_are_counted_and_drawn_in_as_dense_ones(global_random_seed):
    X, _ = blobs(global_random_seed)
    X = X * (np.random.RandomState(global_random_seed).rand(*X.shape) < 0.8)
    X[0] *= 1000.0
    deep = DeepClAM("auto", max_iter=2, n_init=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        expected = clone(deep).fit(X)
        found = clone(deep).fit(csr_array(X))
    for name, curve in expected.n_clusters_curve_.items():
        np.testing.assert_allclose(found.n_clusters_curve_[name], curve, rtol=1e-9)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.transform(csr_array(X)), expected.transform(X))


def test_refusals(global_random_seed):
    X, _ = blobs(global_random_seed)
    with pytest.raises(ValueError, match="encoder"):
        DeepClAM(3, encoder="cnn").fit(X)
    with pytest.raises(ValueError, match=r"encoder.*\(\d+, 4, 3\).*Flatten"):
        DeepClAM(3, encoder=nn.Unflatten(1, (4, 3))).fit(X)
    with pytest.raises(ValueError, match="devices present: cpu"):
        DeepClAM(3, device="tpu").fit(X)
    with pytest.raises(ValueError, match="n_clusters.*n_samples=4"):
        DeepClAM(5).fit(X[:4])
    constant = nn.Linear(12, 2)
    nn.init.constant_(constant.weight, np.nan)
    with pytest.raises(ValueError, match="finite codes.*check the module"):
        DeepClAM(3, encoder=constant).fit(X)


@pytest.mark.few_epochs
def test_checkpoints_that_are_refused(tmp_path, global_random_seed):
    X, _ = blobs(global_random_seed)
    folder = tmp_path / "clam"
    params = dict(n_init=1, max_iter=1, random_state=global_random_seed)
    DeepClAM(3, **params).fit(X, checkpoint=folder)
    for change, rows in (({"random_state": global_random_seed + 1}, X), ({}, X + 1)):
        other = DeepClAM(3, **{**params, **change})
        with pytest.raises(ValueError, match="same data and parameters.*resume=False"):
            other.fit(rows, checkpoint=folder, resume=True)
        assert not hasattr(other, "labels_")


@pytest.mark.gpu
def test_on_a_gpu():
    if not torch.cuda.is_available():
        pytest.skip("There is no CUDA device.")
    X, y = blobs()
    for encoder in ("mlp", network()):
        model = DeepClAM(3, encoder=encoder, device="cuda", **FAST).fit(X)
        assert model.device_ == "cuda"
        assert adjusted_rand_score(y, model.labels_) > 0.9
        assert np.array_equal(model.predict(X), model.labels_)
