"""Fits that are killed and resumed, on full disks, and with other functions."""

import multiprocessing
import os
import shutil
import signal
import time
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.utils import check_random_state

from skdiffclust import (
    DeepClAM,
    PRCut,
    SpanningForestEmbedding,
    SparseGEMINI,
    SparseGEMINICV,
)

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="There is no fork here.")


def rows():
    """Thirty rows of six features, two of which hold three groups."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(30, 6))
    X[:10, 0] += 6
    X[10:20, 1] += 6
    return X


def walk_path(checkpoint=None, resume=False):
    """Walk a path; return what it found, as bytes."""
    sparse = SparseGEMINI(3, batch_size=8, max_iter=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = sparse.path(
            rows(),
            alpha_init=0.01,
            alpha_multiplier=1.5,
            checkpoint=checkpoint,
            resume=resume,
        )
    weights = [array.tobytes() for array in (*sparse.coefs_, *sparse.intercepts_)]
    return path.objectives.tobytes(), path.labels.tobytes(), weights


def fit_embedding(checkpoint=None, resume=False):
    """Fit an encoder in NumPy; return its weights and their history."""
    y = np.where(np.arange(30) % 2, np.arange(30) // 10, -1)
    embedding = SpanningForestEmbedding(
        3,
        encoder="mlp",
        hidden_layer_sizes=(8,),
        max_iter=25,
        batch_size=8,
        n_perturbations=4,
        learning_rate=0.01,
        random_state=0,
    )
    embedding.fit(rows(), y, checkpoint=checkpoint, resume=resume)
    return [*embedding.coefs_, *embedding.intercepts_, embedding.history_["loss"]]


def fit_deep_clam(checkpoint=None, resume=False):
    """Fit memories behind an encoder in torch; return what it found, as bytes."""
    clam = DeepClAM(3, batch_size=8, max_iter=25, random_state=0)
    clam.fit(rows(), checkpoint=checkpoint, resume=resume)
    arrays = [clam.cluster_centers_, *clam.encoder_[0], *clam.encoder_[1]]
    return [array.tobytes() for array in arrays], repr(clam.history_)


def fit_module(checkpoint=None, resume=False):
    """Fit memories behind a module that draws, of weighted samples, in 10 epochs."""
    torch.manual_seed(0)
    linear = torch.nn.Linear(6, 3, dtype=torch.float64)
    module = torch.nn.Sequential(linear, torch.nn.Dropout(0.2))
    clam = DeepClAM(3, encoder=module, batch_size=8, tol=0.0, max_iter=10)
    clam.set_params(n_init=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clam.fit(
            rows(),
            sample_weight=np.linspace(1, 2, 30),
            checkpoint=checkpoint,
            resume=resume,
        )
    return clam.cluster_centers_.tobytes(), repr(clam.history_)


COMPUTATIONS = [walk_path, fit_deep_clam]
computations = pytest.mark.parametrize("compute", COMPUTATIONS)


@pytest.fixture(scope="module")
def uninterrupted():
    """What the computations find, and the seconds they take."""
    found = {}
    for compute in COMPUTATIONS:
        compute()
        start = time.perf_counter()
        found[compute] = compute(), time.perf_counter() - start
    return found


def kill_at_random_moments(compute, folder, expected, seconds, n_kills, seed):
    """Kill a child again and again, each continuing from the last; then finish here."""
    rng, context = np.random.RandomState(seed), multiprocessing.get_context("fork")
    n_killed = 0
    while n_killed < n_kills:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork, threads alive
            child = context.Process(target=compute, args=(folder, True))
            child.start()
        time.sleep(rng.uniform(0, min(seconds, 1.0)))
        os.kill(child.pid, signal.SIGKILL)
        child.join(60)
        n_killed += 1
        if rng.uniform() < 0.3 and folder.exists():
            shutil.rmtree(folder)  # so that later kills do not all meet a finished one
    assert compute(folder, True) == expected
    assert not list(folder.glob("*.part"))


@forks
@computations
def test_killed_and_resumed_bit_for_bit(compute, uninterrupted, tmp_path):
    kill_at_random_moments(compute, tmp_path / "c", *uninterrupted[compute], 3, 0)


@forks
@pytest.mark.long
@computations
@pytest.mark.parametrize("seed", range(3))
def test_killed_twenty_times(compute, seed, uninterrupted, tmp_path):
    expected, seconds = uninterrupted[compute]
    folder = tmp_path / "c"
    kill_at_random_moments(compute, folder, expected, seconds, 20, seed)


@computations
def test_a_finished_checkpoint_gives_the_same(compute, uninterrupted, tmp_path):
    folder = tmp_path / "c"
    assert compute(folder) == uninterrupted[compute][0]
    assert compute(folder, True) == uninterrupted[compute][0]


@pytest.mark.parametrize("compute", [*COMPUTATIONS, fit_module])
def test_resuming_from_every_step(compute, tmp_path):
    folder, last_files = tmp_path / "c", []
    # Every step as it is first written, as a killed process would leave it.
    replace = os.replace

    def noted(source, target):
        if target.name.startswith("skdiffclust") and not target.exists():
            last_files.append(source.read_bytes())
        replace(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", noted)
        expected = compute(folder)
    n_steps = len(list(folder.glob("skdiffclust-*")))
    assert n_steps == len(last_files) > 4
    whole = tmp_path / "whole"
    shutil.copytree(folder, whole)
    for last in (0, n_steps // 2):
        shutil.rmtree(folder)
        shutil.copytree(whole, folder)
        for step in range(last + 1, n_steps):
            (folder / f"skdiffclust-{step:06d}.npz").unlink()
        (folder / f"skdiffclust-{last:06d}.npz").write_bytes(last_files[last])
        assert compute(folder, True) == expected


def test_an_embedding_is_resumed_within_rounding(tmp_path, monkeypatch):
    replace, steps = os.replace, []

    def interrupted(source, target):
        replace(source, target)
        steps.append(target)
        if len(steps) == 20:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit_embedding(tmp_path / "c")
    monkeypatch.undo()
    found = fit_embedding(tmp_path / "c", resume=True)
    for one, other in zip(found, fit_embedding(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


@pytest.mark.few_epochs
def test_an_embedding_of_other_data_is_refused(tmp_path):
    folder, X = tmp_path / "c", rows()
    embedding = SpanningForestEmbedding(2, max_iter=1, random_state=0)
    y = np.arange(30) // 15
    embedding.fit(X, y, checkpoint=folder)
    for X_other, y_other, params in (
        (X + 1, y, {}),
        (X, np.roll(y, 1), {}),
        (X, y, {"learning_rate": 0.1}),
        (X, y, {"random_state": 1}),
    ):
        other = SpanningForestEmbedding(2, max_iter=1, random_state=0)
        other.set_params(**params)
        with pytest.raises(ValueError, match="same data and parameters.*resume=False"):
            other.fit(X_other, y_other, checkpoint=folder, resume=True)
        assert not hasattr(other, "coefs_")
    with pytest.raises(ValueError, match="different values of .*'kind'"):
        SparseGEMINI(3, random_state=0).path(X, checkpoint=folder, resume=True)


def test_labels_out_of_range_are_refused(tmp_path):
    # They are indices in compiled functions, which do not check them.
    folder = tmp_path / "c"
    walk_path(folder)
    file = folder / "skdiffclust-000002.npz"
    with np.load(file) as archive:
        arrays = dict(archive)
    for label in (-1, 3):
        np.savez(file, **{**arrays, "record.labels": np.full(30, label)})
        with pytest.raises(ValueError, match="indices out of range for 'labels'"):
            walk_path(folder, True)


def fit_on_a_full_disk(folder):
    """Fit although files may have 4 KiB only."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write then fails with EFBIG
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert fit_deep_clam(folder) == fit_deep_clam()
    assert any("could not be written" in str(w.message) for w in caught)


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork with threads alive
def test_a_full_disk_keeps_the_fit(uninterrupted, tmp_path):
    pytest.importorskip("resource", reason="Files cannot be limited here.")
    context = multiprocessing.get_context("fork")
    child = context.Process(target=fit_on_a_full_disk, args=(tmp_path / "c",))
    child.start()
    child.join(120)
    assert child.exitcode == 0
    # There is space again, but no step whose state could be continued.
    with pytest.warns(UserWarning, match="is incomplete"):
        found = fit_deep_clam(tmp_path / "c", True)
    assert found == uninterrupted[fit_deep_clam][0]


# The estimators that write checkpoints, with few epochs, and the method that writes.
WRITERS = {
    "DeepClAM": (DeepClAM(2, max_iter=2, random_state=0), "fit"),
    "PRCut": (PRCut(2, encoder="mlp", max_iter=2, random_state=0), "fit"),
    "SpanningForestEmbedding": (
        SpanningForestEmbedding(2, max_iter=2, n_perturbations=2, random_state=0),
        "fit",
    ),
    "SparseGEMINI": (SparseGEMINI(2, max_iter=2, n_init=1, random_state=0), "path"),
    "SparseGEMINICV": (
        SparseGEMINICV(
            SparseGEMINI(2, max_iter=2), n_alphas=2, n_resamples=2, random_state=0
        ),
        "fit",
    ),
}


@pytest.fixture(params=WRITERS)
def write(request):
    """The method of an estimator that writes checkpoints, of thirty rows."""
    estimator, name = WRITERS[request.param]
    method = getattr(clone(estimator), name)

    def call(**params):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return method(rows(), np.arange(30) // 15, **params)

    return call


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_of_others_is_never_touched(write, resume, tmp_path):
    contents = {
        "manifest.json": b'{"name": "an application", "start_url": "."}',
        "step-000100.npz": b"the weights of another program",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="Got one with .* Choose another name"):
        write(checkpoint=tmp_path, resume=resume)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == contents


@pytest.mark.parametrize("resume", [False, True])
def test_a_file_in_place_of_the_folder_is_refused(write, resume, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"text")
    with pytest.raises(ValueError, match="must be .* folder.* Got a file instead"):
        write(checkpoint=file, resume=resume)
    assert file.read_bytes() == b"text"
    with pytest.raises(ValueError, match="'checkpoint' parameter .* Got 3 instead"):
        write(checkpoint=3, resume=resume)


def test_resume_is_a_boolean_and_needs_a_folder(write, tmp_path):
    with pytest.raises(ValueError, match="'checkpoint' .* with resume=True. Got None"):
        write(resume=True)
    for resume in ("yes", 1, None):
        with pytest.raises(ValueError, match=f"'resume' .* Got {resume!r} instead"):
            write(checkpoint=tmp_path / "c", resume=resume)
    assert not (tmp_path / "c").exists()


# A function is known by its name and by what it returns, a module by class and state.


def twice(X, Y):
    """Return a linear kernel of the samples times two."""
    return 2 * np.dot(X, Y)


def walk(kernel, folder, resume=True, **params):
    """Walk a path with a kernel; return its objectives."""
    sparse = SparseGEMINI(3, kernel=kernel, max_iter=20, random_state=0, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = sparse.path(
            rows(), alpha_multiplier=1.5, checkpoint=folder, resume=resume
        )
    return path.objectives.tobytes()


def scaled(factor):
    """Return a kernel, one of many with one name."""
    return lambda x, y: factor * np.dot(x, y)


def test_a_path_is_resumed_with_its_own_function_only(tmp_path):
    expected = walk(scaled(2), tmp_path / "c")
    assert walk(scaled(2), tmp_path / "c") == expected
    with pytest.raises(ValueError, match=r"different values of \['kernel'\]"):
        walk(scaled(3), tmp_path / "c")
    with pytest.raises(ValueError, match=r"different values of \['kernel'\]"):
        walk(twice, tmp_path / "c")  # the same values by another name
    with pytest.raises(ValueError, match=r"different values of \['n_init'\]"):
        walk(scaled(2), tmp_path / "c", n_init=2)
    assert walk(scaled(2), tmp_path / "c", n_init=np.int64(3)) == expected


def test_a_path_is_resumed_with_a_transformer(tmp_path):
    kernel = Nystroem(n_components=5, random_state=0)
    expected = walk(kernel, tmp_path / "c")
    assert walk(clone(kernel), tmp_path / "c") == expected
    with pytest.raises(ValueError, match=r"different values of \['kernel'\]"):
        walk(Nystroem(n_components=5, random_state=1), tmp_path / "c")
    # The features differ at each call, so that nothing can be continued.
    walk(Nystroem(n_components=5), tmp_path / "d")
    with pytest.raises(ValueError, match=r"different values of \['kernel'\]"):
        walk(Nystroem(n_components=5), tmp_path / "d")


def test_a_metric_that_is_not_used_changes_nothing(tmp_path):
    expected = walk("linear", tmp_path / "c")
    assert walk("linear", tmp_path / "c", metric=scaled(1)) == expected


def embed(module, folder):
    """Fit a module; return its embedding."""
    y = np.arange(30) // 10
    embedding = SpanningForestEmbedding(3, encoder=module, max_iter=3, random_state=0)
    embedding.fit(rows(), y, checkpoint=folder, resume=True)
    return embedding.transform(rows()).tobytes()


def memorise(module, folder):
    """Fit memories behind a module; return them."""
    clam = DeepClAM(3, encoder=module, max_iter=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clam.fit(rows(), checkpoint=folder, resume=True)
    return clam.cluster_centers_.tobytes()


class Scaled(torch.nn.Module):
    """A linear map times a number that is not in its state."""

    def __init__(self, factor=1.0, seed=0):
        super().__init__()
        weight = np.random.RandomState(seed).normal(size=(6, 2))
        self.weight, self.factor = torch.nn.Parameter(torch.from_numpy(weight)), factor

    def forward(self, X):
        return self.factor * (X.to(self.weight.dtype) @ self.weight)


class Other(Scaled):
    """The same by another name."""


@pytest.mark.few_epochs
@pytest.mark.parametrize("fit", [embed, memorise])
def test_a_fit_is_resumed_with_its_own_module_only(fit, tmp_path):
    folder = tmp_path / "c"
    expected = fit(Scaled(), folder)
    assert fit(Scaled(), folder) == expected
    for module in (Scaled(factor=2.0), Scaled(seed=1), Other()):
        with pytest.raises(ValueError, match="different values of .*'encoder'"):
            fit(module, folder)
    dropout = [
        torch.nn.Sequential(Scaled(), torch.nn.Dropout(rate)) for rate in (0.1, 0.2)
    ]
    fit(dropout[0], tmp_path / "d")
    with pytest.raises(ValueError, match=r"different values of \['encoder'\]"):
        fit(dropout[1], tmp_path / "d")


def test_resuming_leaves_the_global_stream_alone(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        sparse = SparseGEMINI(3, max_iter=20, batch_size=8, random_state=None)
        sparse.path(rows(), alpha_multiplier=1.5, checkpoint=tmp_path / "c")
        before = check_random_state(None).get_state()[1].tobytes()
        sparse.path(
            rows(), checkpoint=tmp_path / "c", resume=True, alpha_multiplier=1.5
        )
    assert check_random_state(None).get_state()[1].tobytes() == before
