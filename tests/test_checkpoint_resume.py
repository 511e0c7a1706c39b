"""Fits that are killed, disks that are full, files that are not as written."""

import multiprocessing
import os
import signal
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from skdiffclust import ClAM, SpanningForestEmbedding, SparseGEMINI
from skdiffclust._checkpoint import load_checkpoint, save_checkpoint

DATA = Path(__file__).parent / "data"
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
    sparse = SparseGEMINI(3, batch_size=8, max_iter=40, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = sparse.path(
            rows(), alpha_multiplier=1.1, checkpoint=checkpoint, resume=resume
        )
    weights = [array.tobytes() for array in (*sparse.weights_, *sparse.biases_)]
    return path.objectives.tobytes(), path.labels.tobytes(), weights


def fit_embedding(checkpoint=None, resume=False):
    """Fit an encoder in torch; return what it found, as bytes."""
    y = np.where(np.arange(30) % 2, np.arange(30) // 10, -1)
    embedding = SpanningForestEmbedding(
        3,
        encoder="mlp",
        hidden_layer_sizes=(8,),
        max_iter=60,
        batch_size=8,
        n_perturbations=4,
        validation_fraction=0.3,
        learning_rate=0.01,
        random_state=0,
    )
    embedding.fit(rows(), y, checkpoint=checkpoint, resume=resume)
    arrays = [*embedding.coefs_, *embedding.intercepts_]
    return [array.tobytes() for array in arrays], repr(embedding.history_)


def fit_deep_clam(checkpoint=None, resume=False):
    """Fit memories behind an encoder in torch; return what it found, as bytes."""
    clam = ClAM(3, encoder="mlp", batch_size=8, max_iter=60, random_state=0)
    clam.fit(rows(), checkpoint=checkpoint, resume=resume)
    arrays = [clam.cluster_centers_, *clam.encoder_[0], *clam.encoder_[1]]
    return [array.tobytes() for array in arrays], repr(clam.history_)


COMPUTATIONS = [walk_path, fit_embedding, fit_deep_clam]
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


def kill_at_random_moments(compute, file, expected, seconds, n_kills, seed):
    """Kill a child again and again, each going on from the last; then finish here."""
    rng, context = np.random.RandomState(seed), multiprocessing.get_context("fork")
    n_killed = 0
    while n_killed < n_kills:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork, threads alive
            child = context.Process(target=compute, args=(file, True))
            child.start()
        time.sleep(rng.uniform(0, min(seconds, 1.0)))
        os.kill(child.pid, signal.SIGKILL)
        child.join(60)
        n_killed += 1
        if rng.uniform() < 0.3 and file.exists():
            file.unlink()  # so that later kills do not all meet a finished file
    assert compute(file, True) == expected


@forks
@computations
def test_killed_and_resumed_bit_for_bit(compute, uninterrupted, tmp_path):
    kill_at_random_moments(compute, tmp_path / "c.npz", *uninterrupted[compute], 3, 0)


@forks
@pytest.mark.long
@computations
@pytest.mark.parametrize("seed", range(3))
def test_killed_twenty_times(compute, seed, uninterrupted, tmp_path):
    expected, seconds = uninterrupted[compute]
    file = tmp_path / "c.npz"
    kill_at_random_moments(compute, file, expected, seconds, 20, seed)


@computations
def test_a_finished_checkpoint_gives_the_same(compute, uninterrupted, tmp_path):
    file = tmp_path / "c.npz"
    assert compute(file) == uninterrupted[compute][0]
    assert compute(file, True) == uninterrupted[compute][0]


def test_an_embedding_of_other_data_is_refused(tmp_path):
    file, X = tmp_path / "c.npz", rows()
    embedding = SpanningForestEmbedding(2, max_iter=1, random_state=0)
    y = np.arange(30) // 15
    embedding.fit(X, y, checkpoint=file)
    for X_other, y_other, params in (
        (X + 1, y, {}),
        (X, np.roll(y, 1), {}),
        (X, y, {"learning_rate": 0.1}),
        (X, y, {"random_state": 1}),
    ):
        other = SpanningForestEmbedding(2, max_iter=1, random_state=0)
        other.set_params(**params)
        with pytest.raises(ValueError, match="same data and parameters.*resume=False"):
            other.fit(X_other, y_other, checkpoint=file, resume=True)
        assert not hasattr(other, "coefs_")
    with pytest.raises(ValueError, match="'SpanningForestEmbedding', not of"):
        SparseGEMINI(3, random_state=0).path(X, checkpoint=file, resume=True)


def corrupt(content, rng):
    """Change, cut, drop or add some bytes."""
    content, kind = bytearray(content), rng.randint(4)
    i = rng.randint(len(content))
    n = rng.randint(1, 40)
    if kind == 0:
        content[i] ^= 1 << rng.randint(8)
    elif kind == 1:
        del content[i:]
    elif kind == 2:
        del content[i : i + n]
    else:
        content[i:i] = rng.bytes(n)
    return bytes(content)


def refuse_corruptions(file, n_corruptions):
    """Nothing but ValueError, or exactly what was written, comes of a changed file."""
    rng, content = np.random.RandomState(0), file.read_bytes()
    kind = "SpanningForestEmbedding"
    header, arrays = load_checkpoint(file, kind)
    n_refused = 0
    for _ in range(n_corruptions):
        file.write_bytes(corrupt(content, rng))
        try:
            found = load_checkpoint(file, kind)
        except ValueError as error:
            assert "must be a file written by this version" in str(error)
            n_refused += 1
            continue
        # Some bytes of an archive mean nothing: the time of writing, say.
        assert found[0] == header and found[1].keys() == arrays.keys()
        for name, array in arrays.items():
            assert np.array_equal(found[1][name], array)
    assert n_refused > 0.7 * n_corruptions


@pytest.mark.parametrize(
    "n_corruptions", [200, pytest.param(2000, marks=pytest.mark.long)]
)
def test_a_changed_checkpoint_is_refused(n_corruptions, tmp_path):
    file = tmp_path / "c.npz"
    fit_embedding(file)
    refuse_corruptions(file, n_corruptions)


def test_a_changed_header_is_refused(tmp_path):
    file = tmp_path / "c.npz"
    save_checkpoint(file, "toy", {"position": 3}, {"x": np.ones(2)})
    with np.load(file) as archive:
        arrays = {name: archive[name] for name in archive.files}
    text = arrays["header"].tobytes().replace(b'"position": 3', b'"position": 9')
    arrays["header"] = np.frombuffer(text, dtype=np.uint8)
    np.savez(file, **arrays)
    with pytest.raises(ValueError, match="content that is not what was written"):
        load_checkpoint(file, "toy")


def test_a_file_of_the_format_before_says_why_not():
    file = DATA / "checkpoint_format_1.npz"
    with pytest.raises(ValueError, match=r"Got format 1, where this one is 2.*resume="):
        load_checkpoint(file, "toy")


def fit_on_a_full_disk(compute, file, folder):
    """Allow files of 4 KiB only, save a checkpoint, and compute all the same."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write then fails with EFBIG
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        expected = compute()
        assert compute(file) == expected
    assert any("could not be written" in str(w.message) for w in caught)
    assert [path.name for path in folder.iterdir()] == [file.name]


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork with threads alive
@pytest.mark.parametrize("compute", [fit_embedding, fit_deep_clam])
def test_a_full_disk_keeps_the_old_file_and_the_fit(compute, tmp_path):
    pytest.importorskip("resource", reason="Files cannot be limited here.")
    file = tmp_path / "c.npz"
    save_checkpoint(file, "toy", {"old": 1}, {})
    context = multiprocessing.get_context("fork")
    child = context.Process(target=fit_on_a_full_disk, args=(compute, file, tmp_path))
    child.start()
    child.join(120)
    assert child.exitcode == 0
    assert load_checkpoint(file, "toy")[0] == {"old": 1}
