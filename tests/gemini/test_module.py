"""GEMINI with a torch module as model."""

import pickle
import warnings

import numpy as np
import pytest
from gemini_assignments import objective_of
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel

from skdiffclust import GEMINI
from skdiffclust.gemini import _problem

torch = pytest.importorskip("torch")
IRIS = load_iris().data


def linear(n_features, n_clusters, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Linear(n_features, n_clusters, dtype=torch.float64)


def network(n_features, n_clusters, seed=0, dropout=0.0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(n_features, 16),
        torch.nn.BatchNorm1d(16),
        torch.nn.ReLU(),
        torch.nn.Dropout(dropout),
        torch.nn.Linear(16, n_clusters),
    )


def blobs(n=90):
    return make_blobs(n, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)


@pytest.fixture(autouse=True)
def _streams():
    with torch.random.fork_rng(devices=[]):
        yield


def quiet(gemini, X, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return gemini.fit(X, **kwargs)


@pytest.mark.parametrize(
    ("objective", "mode"), [("mmd", "ova"), ("mmd", "ovo"), ("kl", "ova")]
)
def test_training_is_that_of_autograd_through_the_loss(objective, mode):
    from skdiffclust.nn import GEMINILoss

    X, _ = blobs(40)
    X = X - X.mean(axis=0)
    X /= np.sqrt(X.var(axis=0).mean())  # in which the unit is one
    gemini = GEMINI(
        3,
        model=linear(2, 3),
        objective=objective,
        mode=mode,
        l2=0.01,
        max_iter=7,
        learning_rate=0.05,
        random_state=0,
    )
    quiet(gemini, X)
    copied = linear(2, 3)
    optimizer = torch.optim.Adam(copied.parameters(), lr=0.05)
    rows = torch.tensor(X)
    loss_of = GEMINILoss(objective, mode=mode)
    losses = []
    for _ in range(7):
        optimizer.zero_grad()
        loss = loss_of(copied(rows), rows) + 0.01 * copied.weight.square().sum()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            value = loss_of(copied(rows), rows) + 0.01 * copied.weight.square().sum()
        losses.append(float(value))
    assert_allclose(gemini.history_["loss"], losses, rtol=1e-7)
    assert np.argmin(losses) == len(losses) - 1
    weight = copied.weight.detach().numpy()
    assert_allclose(gemini.encoder_.weight.detach().numpy(), weight, rtol=1e-6)


@pytest.mark.parametrize("batch_size", [None, 30])
def test_blobs_and_what_is_fitted(batch_size):
    X, y = blobs()
    X = X.astype(np.float32)
    module = network(2, 3, dropout=0.1)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    stream = torch.get_rng_state()
    gemini = GEMINI(3, mode="ovo", model=module, batch_size=batch_size, random_state=0)
    quiet(gemini, X)
    assert torch.equal(stream, torch.get_rng_state())
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
    assert adjusted_rand_score(y, gemini.labels_) > 0.95
    assert_array_equal(gemini.predict(X), gemini.labels_)
    assert_allclose(gemini.predict_proba(X).sum(axis=1), 1, rtol=1e-6)
    assert (np.diff(np.bincount(gemini.labels_)) <= 0).all()
    assert gemini.device_ in ("cpu", "cuda")
    assert not gemini.encoder_.training
    assert next(gemini.encoder_.parameters()).device.type == "cpu"
    assert not hasattr(gemini, "coefs_")
    again = pickle.loads(pickle.dumps(gemini))
    assert_array_equal(again.predict(X), gemini.labels_)
    same = quiet(clone(gemini), X)
    assert_array_equal(same.predict_proba(X), gemini.predict_proba(X))
    assert gemini.score(X) > 0.5
    gemini.set_params(model="linear", n_init=1)
    assert not hasattr(quiet(gemini, X), "encoder_")


def test_a_precomputed_kernel_shapes_what_a_network_finds():
    X, _ = make_moons(200, noise=0.05, random_state=0)
    K = rbf_kernel(X, gamma=8.0)
    gemini = GEMINI(2, model=network(2, 2), learning_rate=0.02, random_state=0)
    quiet(gemini, X, precomputed=K)
    before = GEMINI(2, model=network(2, 2), max_iter=1, random_state=0)
    quiet(before, X, precomputed=K)
    assert objective_of(gemini, X, precomputed=K) > 1.2 * objective_of(
        before, X, precomputed=K
    )


def test_links_are_met():
    X, y = blobs()
    links = np.column_stack([np.flatnonzero(y == 1), np.flatnonzero(y == 2)])
    gemini = GEMINI(2, mode="ovo", model=network(2, 2), random_state=0)
    quiet(gemini, X, must_link=links)
    assert adjusted_rand_score(y == 0, gemini.labels_) == 1.0


@pytest.mark.parametrize(
    "params, X, error, message",
    [
        ({"model": abs}, IRIS, TypeError, r"nn.Module. Got builtin_function"),
        ({"model": torch.nn.ReLU()}, IRIS, ValueError, "to train. Got a ReLU"),
        ({"model": linear(4, 2)}, IRIS, ValueError, "each of 3 clusters. Got shape"),
        ({"model": network(4, 3)}, IRIS * 1e50, ValueError, "must fit float32"),
        ({"n_clusters": "auto"}, IRIS, ValueError, "must be an integer with a module"),
        ({"device": "abacus"}, IRIS, ValueError, "devices present"),
        (
            {"model": linear(150, 3), "kernel": "precomputed"},
            IRIS @ IRIS.T,
            ValueError,
            "must be 'free' for a precomputed",
        ),
    ],
)
def test_what_is_no_good_module_is_refused(params, X, error, message):
    gemini = GEMINI(3, model=linear(4, 3))
    with pytest.raises(error, match=message):
        gemini.set_params(**params).fit(X)


@pytest.mark.gpu
def test_a_gpu_finds_what_the_cpu_finds():
    X, _ = blobs()
    params = {"max_iter": 30, "random_state": 0}
    found = [
        quiet(GEMINI(3, model=linear(2, 3), device=device, **params), X)
        for device in ("cpu", "cuda")
    ]
    one, other = (gemini.predict_proba(X) for gemini in found)
    assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("batch_size", [None, 30])
@pytest.mark.few_epochs
def test_a_perceptron_on_a_device_learns_what_numpy_does(batch_size, monkeypatch):
    X, y = blobs(80)
    rng = np.random.RandomState(0)
    X = np.hstack([X, rng.normal(size=(80, 100 if batch_size is None else 4))])
    known = {
        "sample_weight": rng.uniform(0.5, 2, size=80),
        "partial_labels": np.where(np.arange(80) < 6, y % 2, -1),
    }
    params = {"model": "mlp", "hidden_layer_sizes": (8, 6), "batch_size": batch_size}
    params |= {"n_init": 2, "max_iter": 10, "learning_rate": 0.05, "random_state": 0}
    fits = []
    for device in ("cpu", "cpu:0"):
        # Any name but "cpu" is a device of torch.
        monkeypatch.setattr(_problem, "resolve_device", lambda *_, name=device: name)
        fits.append(quiet(GEMINI(2, **params), X, **known))
        assert fits[-1].device_ == device
    assert_allclose(fits[1].coefs_[0], fits[0].coefs_[0], rtol=1e-6)
