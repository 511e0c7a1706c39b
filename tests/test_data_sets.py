"""The loader of data that do not come with scikit-learn, benchmarks/data_sets.py."""

import re

import data_sets
import numpy as np
import pytest
from data_sets import OPENML, digest, has_data, load_data
from scipy.sparse import issparse, random_array
from sklearn.utils import Bunch


def test_a_folder_in_the_environment_is_where_data_are(tmp_path, monkeypatch):
    X = np.arange(6, dtype=np.uint8).reshape(3, 2)
    np.savez(tmp_path / "few.npz", X=X, y=np.array([0, 1, 0]))
    monkeypatch.setenv("SKDIFFCLUST_DATA", str(tmp_path))
    assert has_data("few")
    samples, classes = load_data("few")
    assert samples.dtype == np.uint8
    np.testing.assert_array_equal(samples, X)
    np.testing.assert_array_equal(classes, [0, 1, 0])


def test_sparse_samples_are_loaded_as_csr(tmp_path, monkeypatch, global_random_seed):
    X = random_array((7, 5), density=0.3, rng=global_random_seed, format="csr")
    arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr}
    np.savez(tmp_path / "text.npz", **arrays, shape=X.shape, y=np.arange(7))
    monkeypatch.setenv("SKDIFFCLUST_DATA", str(tmp_path))
    samples, classes = load_data("text")
    assert samples.format == "csr"
    np.testing.assert_array_equal(samples.toarray(), X.toarray())
    np.testing.assert_array_equal(classes, np.arange(7))


def test_missing_data_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SKDIFFCLUST_DATA", str(tmp_path))
    monkeypatch.delenv("SKDIFFCLUST_DOWNLOAD", raising=False)
    assert not has_data("letter")
    path = re.escape(str(tmp_path / "letter.npz"))
    with pytest.raises(FileNotFoundError, match=f"'letter' was not.*{path}.*DOWNLOAD"):
        load_data("letter")
    with pytest.raises(FileNotFoundError, match=r"holds isolet\.npz\.$"):
        load_data("isolet")


@pytest.mark.parametrize(
    "name, shape, n_classes",
    [
        ("zoo", (101, 16), 7),
        ("segment", (2310, 19), 7),
        ("micepe", (1080, 77), 8),
        ("usps_test", (2007, 256), 10),
        ("pbmc68k_reduced", (700, 50), 10),
        ("polblogs", (1222, 1222), 2),
        ("football", (115, 115), 12),
        ("search_snippets", (12340, 30642), 8),
    ],
)
def test_each_kind_of_file_is_loaded(name, shape, n_classes, shared_data):
    X, y = shared_data(name)
    assert X.shape == shape
    assert issparse(X) == (name in ("polblogs", "football", "search_snippets"))
    assert len(np.unique(y)) == n_classes


def fetched(X, y):
    """Return a replacement of fetch_openml whose answer is zoo."""

    def fetch(data_id, **options):
        assert data_id == 62
        return Bunch(data=X, target=np.array(list("abcdefg"))[y])

    return fetch


@pytest.fixture
def without_files(tmp_path, monkeypatch):
    monkeypatch.setenv("SKDIFFCLUST_DATA", str(tmp_path))
    monkeypatch.setenv("SKDIFFCLUST_DOWNLOAD", "1")


def test_what_the_folder_lacks_comes_from_openml(
    shared_data, request, monkeypatch, global_random_seed
):
    X, y = shared_data("zoo")
    request.getfixturevalue("without_files")
    assert has_data("zoo")
    assert not has_data("isolet")
    order = np.random.RandomState(global_random_seed).permutation(len(X))
    monkeypatch.setattr(data_sets, "fetch_openml", fetched(X[order], y[order]))
    samples, classes = load_data("zoo")
    assert samples.dtype == X.dtype
    np.testing.assert_array_equal(samples, X[order])
    np.testing.assert_array_equal(np.bincount(classes), np.bincount(y))


@pytest.mark.parametrize("change", ["a feature", "a class", "a column"])
def test_other_samples_are_refused(change, shared_data, request, monkeypatch):
    X, y = shared_data("zoo")
    request.getfixturevalue("without_files")
    if change == "a feature":
        X[0, 0] += 1
    elif change == "a class":
        y[0] = (y[0] + 1) % 7
    else:
        X = X[:, :-1]
    monkeypatch.setattr(data_sets, "fetch_openml", fetched(X, y))
    with pytest.raises(ValueError, match="data set 62 must have the samples of 'zoo'"):
        load_data("zoo")


def test_the_checksums_are_those_of_the_files(shared_data):
    for name, source in OPENML.items():
        X, y = shared_data(name)
        assert X.dtype == source.dtype
        assert digest(X, y) == source.sha256
        # Names of classes and the order of samples do not matter.
        letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
        assert digest(X[::-1], letters[y[::-1]]) == source.sha256


@pytest.mark.network
@pytest.mark.parametrize("name", OPENML)
def test_openml_has_the_samples(name, without_files):
    load_data(name)
