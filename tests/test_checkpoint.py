"""Checkpoints: every step is complete or absent, whatever happens in between."""

import functools
import hashlib
import json
import os
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.preprocessing import FunctionTransformer

from skdiffclust import _checkpoint
from skdiffclust._checkpoint import (
    STREAM,
    AtMost,
    Checkpoint,
    Field,
    identify,
    probe_rows,
    restore_stream,
    stream_arrays,
)

RECORD = {
    "total": Field("float64", low=0),
    "support": Field("bool", (3,)),
    "kept": Field("float32", (AtMost(3),)),
}
STATE = {"values": Field("float32", (3,)), "n_steps": Field("int64", low=0)}


def toy(folder, **identity):
    """Return the checkpoint of a toy computation."""
    identity = {"x": "1", **identity}
    return Checkpoint(folder, "toy", identity, record=RECORD, state=STATE)


def compute(folder, n_steps, *, resume=True):
    """Continue to a number of steps; return the records and the last state."""
    checkpoint = toy(folder)
    records, state = checkpoint.open(resume=resume)
    state = state or {"values": np.ones(3, np.float32), "n_steps": 0}
    assert state["n_steps"] == len(records)
    for step in range(len(records), n_steps):
        values = state["values"] * np.float32(1.1) + np.arange(3, dtype=np.float32)
        support = values > 5
        record = {"total": values.sum(), "support": support, "kept": values[support]}
        state = {"values": values, "n_steps": step + 1}
        records.append(record)
        checkpoint.append(record, state)
    return [
        [np.asarray(record[name], RECORD[name].dtype).tobytes() for name in RECORD]
        for record in records
    ], state["values"].tobytes()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Do not wait for the disk: what is lost with the power is not tested here."""
    monkeypatch.setattr(os, "fsync", lambda number: None)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "toy"


def test_what_is_written_is_read(folder):
    expected = compute(folder, 6)
    assert compute(folder, 6) == expected
    records, state = toy(folder).open(resume=True)
    assert len(records) == 6 and state.keys() == STATE.keys()
    for array, field in zip(records[2].values(), RECORD.values(), strict=True):
        assert array.dtype == field.dtype and array.flags.writeable
    # A file a step, and the last two states: the last of them might be torn.
    assert sorted(os.listdir(folder)) == [
        "manifest.json",
        "state-000004.npz",
        "state-000005.npz",
        *(f"step-{step:06d}.npz" for step in range(6)),
    ]


def test_numpy_reads_a_step(folder):
    compute(folder, 2)
    with np.load(folder / "step-000001.npz", allow_pickle=False) as archive:
        assert archive["total"] > 0 and set(archive.files) == {"header", *RECORD}


def test_no_resume_begins_again(folder):
    compute(folder, 4)
    assert toy(folder).open(resume=False) == ([], None)
    assert os.listdir(folder) == ["manifest.json"]


def test_what_is_written_is_linear_in_the_steps(folder, monkeypatch):
    sizes, replace = [], os.replace

    def noted(source, target):
        sizes.append(os.path.getsize(source))
        replace(source, target)

    monkeypatch.setattr(os, "replace", noted)
    n_bytes = []
    for n_steps in (50, 100, 200):
        compute(folder, n_steps, resume=False)
        n_bytes.append(sum(sizes))
        sizes.clear()
    # All of a record's bytes, and as many for each more of them.
    first, second, third = n_bytes
    assert 1.9 < second / first < 2.1 and 1.9 < third / second < 2.1


class Killed(BaseException):
    """What comes instead of a signal that ends the process."""


def killed_at(monkeypatch, moment):
    """Let the process end at a moment: a call that touches the disk, or during one."""
    calls = iter(range(10**6))

    def patched(name, real, module=os):
        def call(*args, **kwargs):
            if next(calls) == moment:
                raise Killed
            return real(*args, **kwargs)

        monkeypatch.setattr(module, name, call)

    for name in ("replace", "fsync", "mkdir"):
        patched(name, getattr(os, name))
    # A killed process does not tidy up.
    remove = os.remove

    def removed(path):
        if next(calls) >= moment:
            raise Killed
        remove(path)

    monkeypatch.setattr(os, "remove", removed)
    patched("write_array", np.lib.format.write_array, np.lib.format)


@pytest.mark.parametrize("before", [0, 3])
def test_killed_at_every_moment(before, folder, monkeypatch):
    expected = compute(folder, 7)
    for moment in range(10**6):
        compute(folder, before, resume=False)
        with monkeypatch.context() as patch:
            killed_at(patch, moment)
            try:
                compute(folder, 7)
                break
            except Killed:
                pass
        assert compute(folder, 7) == expected
        assert not [name for name in os.listdir(folder) if name.endswith(".part")]
    assert moment > 40


def test_killed_while_it_begins_again(folder, monkeypatch):
    expected = compute(folder, 5)
    for moment in range(100):
        compute(folder, 5)
        with monkeypatch.context() as patch:
            killed_at(patch, moment)
            try:
                toy(folder).open(resume=False)
                break
            except Killed:
                pass
        assert compute(folder, 5) == expected
    assert moment > 5


def test_a_full_disk_and_space_again(folder, monkeypatch):
    expected = compute(folder, 8)
    with monkeypatch.context() as patch:
        n_calls, fsync = iter(range(1000)), os.fsync

        def sometimes_full(number):
            if 3 <= next(n_calls) < 9:
                raise OSError(28, "No space left on device")
            fsync(number)

        patch.setattr(os, "fsync", sometimes_full)
        with pytest.warns(UserWarning, match="not be written: No space left") as caught:
            assert compute(folder, 8, resume=False) == expected
    # The same words each time, which Python shows once.
    assert len({str(warning.message) for warning in caught}) == 1
    assert len(os.listdir(folder)) == 11
    assert compute(folder, 8) == expected
    compute(folder, 8, resume=False)
    assert compute(folder, 8) == expected


def test_a_full_disk_to_the_end_leaves_what_there_was(folder, monkeypatch):
    expected = compute(folder, 8)
    compute(folder, 5, resume=False)

    def full(number):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.warns(UserWarning, match="could not be written"):
            assert compute(folder, 8) == expected
    assert len(toy(folder).open(resume=True)[0]) == 5
    assert compute(folder, 8) == expected


def test_a_folder_that_cannot_be_made_warns_always_the_same(tmp_path):
    with pytest.warns(UserWarning, match="could not be written") as caught:
        compute(tmp_path / "no" / "toy", 3)
    assert len(caught) == 4
    assert len({str(warning.message) for warning in caught}) == 1


def test_what_could_not_be_read_again_is_not_written(folder):
    checkpoint = toy(folder)
    checkpoint.open(resume=True)
    record = {"total": 1.0, "support": np.ones(3, bool), "kept": np.ones(3, np.float32)}
    good = {"values": np.ones(3, np.float32), "n_steps": 1}
    assert checkpoint.append(record, good)
    with pytest.warns(UserWarning, match="a step has NaN or infinity in 'values'"):
        assert not checkpoint.append(
            record, {**good, "values": np.full(3, np.nan, dtype=np.float32)}
        )
    assert not checkpoint.append(record, good)
    assert len(toy(folder).open(resume=True)[0]) == 1


last_files = pytest.mark.parametrize("name", ["step-000005.npz", "state-000005.npz"])


@last_files
@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_a_torn_last_step_is_computed_again(name, kept, folder):
    expected = compute(folder, 6)
    content = (folder / name).read_bytes()
    kept = int(kept * len(content)) if kept < 1 else kept
    (folder / name).write_bytes(content[:kept])
    with pytest.warns(UserWarning, match="last step .* is incomplete, and is computed"):
        assert compute(folder, 6) == expected
    assert compute(folder, 6) == expected


@last_files
def test_any_byte_of_the_last_step_that_is_changed(name, folder):
    # It is dropped, or the byte means nothing: the time of writing, say.
    expected = compute(folder, 6)
    content = (folder / name).read_bytes()
    n_dropped = 0
    for place in range(0, len(content), 23):
        changed = bytearray(content)
        changed[place] ^= 0x55
        (folder / name).write_bytes(changed)
        try:
            assert compute_quietly(folder, 6) == expected
            n_dropped += 1
        except ValueError as error:
            assert "written by this version" in str(error)
    assert n_dropped > 10


def compute_quietly(folder, n_steps):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compute(folder, n_steps)


@pytest.mark.parametrize("kept", [0, 0.5, 0.99])
def test_any_other_step_that_is_torn_is_refused(kept, folder):
    compute(folder, 6)
    file = folder / "step-000002.npz"
    content = file.read_bytes()
    file.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(ValueError, match="step 2 is not whole.*resume=False"):
        compute(folder, 6)


def test_steps_that_are_missing_or_of_another_computation(folder, tmp_path):
    compute(folder, 6)
    os.remove(folder / "step-000003.npz")
    with pytest.raises(ValueError, match="in which a step is missing"):
        compute(folder, 6)
    compute(folder, 6, resume=False)
    for step in (4, 5):
        os.remove(folder / f"state-{step:06d}.npz")
    with pytest.raises(ValueError, match="whose state 4 is missing"):
        compute(folder, 6)
    compute(folder, 6, resume=False)
    os.replace(folder / "step-000003.npz", folder / "step-000004.npz")
    compute(tmp_path / "other", 4)
    os.replace(tmp_path / "other" / "step-000003.npz", folder / "step-000003.npz")
    with pytest.raises(ValueError, match="step 4 is of something else"):
        compute(folder, 6)


def test_a_manifest_that_is_none(folder):
    compute(folder, 2)
    file = folder / "manifest.json"
    content = json.loads(file.read_text())
    for text, match in (
        ("", "manifest cannot be read"),
        ("[" * 10**5, "manifest cannot be read"),
        ("[]", "manifest cannot be read"),
        ('{"format": 3}', "manifest cannot be read"),
        ("1" * 10**4, "manifest cannot be read"),
        (" " * 10**6, "manifest has 1000000 bytes"),
        (json.dumps({**content, "format": 2}), "Got format 2, where this one is 3"),
        (json.dumps({**content, "kind": "path"}), "of 'path', not of 'toy'"),
        (json.dumps({**content, "identity": {"x": "2"}}), "different values of .'x'."),
        (json.dumps({**content, "more": 1}), "manifest is altered"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=match):
            toy(folder).open(resume=True)
    assert toy(folder).open(resume=False) == ([], None)


def test_files_of_others_are_never_touched(tmp_path):
    old = tmp_path / "path.npz"
    np.savez(old, x=np.ones(2))
    before = old.read_bytes()
    for resume in (False, True):
        with pytest.raises(ValueError, match="Got a file instead, as earlier versions"):
            toy(old).open(resume=resume)
        with pytest.raises(ValueError, match="of its own. Got one with 'path.npz' in"):
            toy(tmp_path).open(resume=resume)
    assert old.read_bytes() == before and os.listdir(tmp_path) == ["path.npz"]


def test_a_folder_without_permission(folder, monkeypatch):
    compute(folder, 2)

    def denied(path, *args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(_checkpoint.os, "scandir", denied)
    with pytest.raises(ValueError, match="cannot be read .Permission denied."):
        toy(folder).open(resume=True)


# What a computation is known by.


def digest(value, output=None):
    outputs = {} if output is None else {"a": output}
    return identify({}, {"a": value}, outputs)["a"]


def test_equal_parameters_are_equal():
    for ours, theirs in (
        (2, np.int64(2)),
        (2, np.array(2)),
        (True, np.True_),
        (0.1, np.float64(0.1)),
        ("a", np.str_("a")),
        ((1, 2), [1, np.int32(2)]),
        ((1, 2), np.array([1, 2], dtype=np.uint8)),
        ([0.5], np.array([0.5], dtype=np.float32)),
        (["a", "b"], ("a", "b")),
        ({"a": 1, "b": 2}, {"b": np.int64(2), "a": 1}),
        (np.random.RandomState(3), np.random.RandomState(3)),
        (np.random.default_rng(3), np.random.default_rng(3)),
        (np.array(["a", None], dtype=object), np.array(["a", None], dtype=object)),
    ):
        assert digest(ours) == digest(theirs) is not None


def test_other_parameters_are_other():
    long = np.arange(2000)
    other = long.copy()
    other[1000] = 0  # where a repr has dots
    values = [
        2,
        3,
        2.0,
        True,
        False,
        None,
        "2",
        "None",
        b"2",
        [2],
        [2, 2],
        [[2], [2]],
        [2.0],
        ["2"],
        [None],
        {},
        [],
        {"a": 2},
        {"a": 3},
        {"b": 2},
        0.1,
        np.nextafter(0.1, 1),
        np.float32(0.1),
        np.nan,
        np.inf,
        long,
        other,
        [long],
        np.float32,
        np.dtype("f8"),
        np.random.RandomState(0),
        np.random.RandomState(1),
        np.random.default_rng(0),
        [2**70],
        [2**64 - 1],
    ]
    digests = [digest(value) for value in values]
    assert None not in digests and len(set(digests)) == len(values)


def test_data_are_compared_byte_for_byte():
    X = np.arange(6.0).reshape(2, 3)

    def of(array):
        return identify({"X": array}, {})["X"]

    assert of(X) == of(X.copy(order="F"))
    others = [X, X.astype(np.float32), X.T, X + 1e-16, X.reshape(3, 2), None]
    others[3] = np.nextafter(X, np.inf)
    assert len({of(array) for array in others}) == len(others) - 1 + (
        of(X.T) != of(X.reshape(3, 2))
    )
    assert of(X.T) != of(X.reshape(3, 2))


def scaled(X, factors):
    return X * factors


class Thing(BaseEstimator):
    """What holds a function."""

    def __init__(self, function=None):
        self.function = function


def test_functions_are_known_by_name_and_by_what_they_return():
    outputs = np.array([[1.0, 1 / 3], [2e-300, 4.0]])

    def one(x):
        return x

    def another(x):
        return x

    assert digest(one) is None and digest(Thing(one)) is None
    assert digest(Thing()) != digest(Thing(2))
    for function in (one, functools.partial(one, x=2), Thing(one), type(one).__call__):
        assert digest(function, outputs) == digest(function, outputs.copy()) is not None
    assert digest(one, outputs) != digest(another, outputs)
    assert digest(lambda x: x, outputs) == digest(lambda x: 2 * x, outputs)  # one name
    assert digest(one, outputs) != digest(one, 2 * outputs)
    # Ten digits, at any magnitude; zero has no sign.
    assert digest(one, outputs) == digest(one, outputs * (1 + 1e-13))
    assert digest(one, outputs) != digest(one, outputs * (1 + 1e-8))
    assert digest(one, np.zeros(2)) == digest(one, -np.zeros(2))
    assert digest(one, outputs) != digest(one, outputs.T)
    # No address of a partial or an object, and none of its parts left out.
    factors = np.arange(2000)
    transformers = [
        FunctionTransformer(scaled, kw_args={"factors": f}) for f in (factors, -factors)
    ]
    first, second = (digest(transformer, outputs) for transformer in transformers)
    assert first != second
    copied = FunctionTransformer(copy_of(scaled), kw_args={"factors": factors})
    assert digest(copied, outputs) == first


def copy_of(function):
    """Return another object of the same name: what a function is after a restart."""
    return type(function)(function.__code__, function.__globals__, function.__name__)


def test_what_has_no_output_is_refused_by_name_on_resume(folder):
    with pytest.warns(UserWarning, match=r"cannot be resumed, since \['kernel'\]"):
        toy(folder, kernel=None).open(resume=False)
    with pytest.raises(ValueError, match=r"can be compared. Got \['kernel'\] instead"):
        toy(folder, kernel=None).open(resume=True)


def test_probe_rows_are_few_and_from_all_over():
    assert_array_equal(probe_rows(1), [0])
    assert_array_equal(probe_rows(5), np.arange(5))
    rows = probe_rows(10**6)
    assert len(rows) == 32 and rows[0] == 0 and rows[-1] == 10**6 - 1


def test_streams_go_on():
    rng = np.random.RandomState(3)
    rng.normal(size=3)  # an odd number leaves one behind
    arrays = stream_arrays(rng)
    for name, field in STREAM.items():
        array = np.asarray(arrays[name])
        assert field.admits(array.shape) and field.fault(array) is None
    arrays = {name: np.array(value) for name, value in arrays.items()}
    other = np.random.RandomState(0)
    assert restore_stream(other, arrays)
    assert_array_equal(other.normal(size=700), rng.normal(size=700))
    # A generator of zeros would never find a normal number.
    arrays["stream.keys"] = np.zeros(624, dtype=np.uint32)
    assert not restore_stream(other, arrays)
    with pytest.raises(ValueError, match="random_state.*integer.*Got .* of PCG64"):
        stream_arrays(np.random.RandomState(np.random.PCG64(0)))


def test_the_digest_is_of_all_that_is_there():
    arrays = {"a": np.ones(2), "b": np.zeros(1)}
    header = {"step": 1}
    expected = _checkpoint._digest(header, arrays)
    assert expected == _checkpoint._digest({**header, "digest": 0}, arrays)
    for other in (
        ({"step": 2}, arrays),
        (header, {"a": np.ones(2), "c": np.zeros(1)}),
        (header, {"a": np.ones((2, 1)), "b": np.zeros(1)}),
        (header, {"a": np.ones(2), "b": np.zeros(1, dtype=np.float32)}),
        (header, {"a": np.ones(2), "b": np.ones(1)}),
    ):
        assert _checkpoint._digest(*other) != expected
    assert len(expected) == len(hashlib.sha256().hexdigest())
