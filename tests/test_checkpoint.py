"""Checkpoints: written whole or not at all, and read only if unchanged."""

import json
import os

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.preprocessing import FunctionTransformer

from skdiffclust import _checkpoint
from skdiffclust._checkpoint import fingerprint, load_checkpoint, save_checkpoint

ARRAYS = {
    "weights": np.arange(6, dtype=np.float32).reshape(2, 3),
    "support": np.array([True, False]),
    "empty": np.zeros((0, 4)),
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "state.npz"
    assert save_checkpoint(path, "toy", {"alpha": 0.1, "names": ["a"]}, ARRAYS)
    return path


def test_what_is_written_is_read(path):
    header, arrays = load_checkpoint(path, "toy")
    assert header == {"alpha": 0.1, "names": ["a"]}
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert_array_equal(arrays[name], array)
    assert os.listdir(path.parent) == ["state.npz"]


def test_float_parameters_survive_bit_for_bit(path):
    alpha = 0.1 * 1.05**17
    save_checkpoint(path, "toy", {"alpha": alpha}, {})
    assert load_checkpoint(path, "toy")[0]["alpha"] == alpha


def test_a_failed_write_warns_and_leaves_the_old_file(path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_checkpoint.np, "savez", full)
    with pytest.warns(UserWarning, match="could not be written.*No space left"):
        assert not save_checkpoint(path, "toy", {}, {"other": np.ones(3)})
    assert os.listdir(path.parent) == ["state.npz"]
    assert load_checkpoint(path, "toy")[0]["alpha"] == 0.1


def test_an_interrupted_write_leaves_the_old_file(path, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(_checkpoint.np, "savez", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, "toy", {}, {})
    assert os.listdir(path.parent) == ["state.npz"]
    assert load_checkpoint(path, "toy")[0]["alpha"] == 0.1


def test_a_folder_that_is_not_there_warns_always_the_same(tmp_path):
    with pytest.warns(UserWarning, match="could not be written") as caught:
        for _ in range(2):
            assert not save_checkpoint(tmp_path / "no" / "state.npz", "toy", {}, {})
    assert len({str(warning.message) for warning in caught}) == 1


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.9])
def test_truncated(path, kept):
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data)) if kept < 1 else kept])
    with pytest.raises(ValueError, match="cannot be read.*resume=False"):
        load_checkpoint(path, "toy")


def test_altered(path):
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["weights"] = arrays["weights"] + 1
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="not what was written"):
        load_checkpoint(path, "toy")


@pytest.mark.parametrize("header", [b"{", b"[]", json.dumps({"format": 1}).encode()])
def test_header_that_is_none(path, header):
    np.savez(path, header=np.frombuffer(header, dtype=np.uint8))
    with pytest.raises(ValueError, match="cannot be read"):
        load_checkpoint(path, "toy")


@pytest.mark.parametrize("where, value", [(8, 1), (10, 99)])
def test_what_no_zipfile_can_open_is_refused(path, where, value):
    # Bytes of the archive's directory: "encrypted", and a compression there is not.
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + where] = value
    path.write_bytes(content)
    with pytest.raises(ValueError, match="cannot be read"):
        load_checkpoint(path, "toy")


def test_other_files_are_refused(path):
    with pytest.raises(ValueError, match="of 'toy', not of 'path'"):
        load_checkpoint(path, "path")
    with pytest.raises(ValueError, match="cannot be read"):
        load_checkpoint(path.parent / "missing.npz", "toy")
    np.savez(path, header=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="cannot be read .ValueError.") as refusal:
        load_checkpoint(path, "toy")
    assert "pickle" not in str(refusal.value)  # NumPy would advise to allow it
    assert refusal.value.__suppress_context__


def scaled(X, factors):
    return X * factors


def test_a_fingerprint_sees_all_of_a_parameter_and_no_address():
    long = np.arange(2000)
    other = long.copy()
    other[1000] = 0  # where a repr has dots

    def digest(value):
        return fingerprint([np.ones(3)], {"a": value, "b": None})

    def transformer(factors):
        return FunctionTransformer(scaled, kw_args={"factors": factors})

    assert digest(long) == digest(long.copy()) != digest(other)
    assert digest([long]) != digest([other])
    assert digest(transformer(long)) != digest(transformer(other))
    near = np.nextafter(0.1, 1)
    assert digest(transformer(np.array([0.1]))) != digest(transformer(np.array([near])))
    # Another object of the same name: what a function is after a restart.
    before = digest(transformer(long))
    again = FunctionTransformer(copy_of(scaled), kw_args={"factors": long})
    assert digest(again) == before


def copy_of(function):
    return type(function)(function.__code__, function.__globals__, function.__name__)
