"""The loader of data that do not come with scikit-learn."""

import re

import numpy as np
import pytest

from skdiffclust._data import data_folder, has_data, load_data


def test_a_folder_in_the_environment_is_where_data_are(tmp_path, monkeypatch):
    X = np.arange(6, dtype=np.uint8).reshape(3, 2)
    np.savez(tmp_path / "few.npz", X=X, y=np.array([0, 1, 0]))
    monkeypatch.setenv("SKDIFFCLUST_DATA", str(tmp_path))
    assert has_data("few")
    samples, classes = load_data("few")
    assert samples.dtype == np.uint8
    np.testing.assert_array_equal(samples, X)
    np.testing.assert_array_equal(classes, [0, 1, 0])


def test_what_is_not_here_is_said_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("SKDIFFCLUST_DATA", str(tmp_path))
    assert not has_data("letter")
    place = re.escape(str(tmp_path / "letter.npz"))
    with pytest.raises(FileNotFoundError, match=f"'letter' is not here.*{place}.*Set"):
        load_data("letter")


def test_without_it_the_folder_is_beside_the_checkout(monkeypatch):
    monkeypatch.delenv("SKDIFFCLUST_DATA", raising=False)
    assert data_folder().parts[-2:] == ("shared", "data")


def test_the_file_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setenv("SKDIFFCLUST_DATA", str(tmp_path))
    objects = np.array([{}, {}], dtype=object)
    np.savez(tmp_path / "odd.npz", X=objects, y=np.zeros(2))
    with pytest.raises(ValueError, match="allow_pickle"):
        load_data("odd")
