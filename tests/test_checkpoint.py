"""Checkpoints: every step is complete or absent, whatever happens in between."""

import functools
import os
import pathlib

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.preprocessing import FunctionTransformer

from skdiffclust._checkpoint import (
    Checkpoint,
    identify,
)

RECORD = {
    "total": 0.0,
    "support": np.zeros(3, dtype=bool),
    "kept": np.zeros(3, dtype=np.float32),
}
STATE = {"values": np.ones(3, dtype=np.float32), "n_steps": 0}


def toy(folder, *, resume, kind="toy", record=RECORD, state=STATE, **identity):
    """Return the checkpoint of a toy computation, its records and its last state."""
    checkpoint = Checkpoint(folder, kind, {"x": "1", **identity})
    records, last = checkpoint.open(
        resume=resume,
        record=record,
        state=state,
        varying={"kept"},
        n_values={"n_steps": 100},
    )
    return checkpoint, records, last


def compute(folder, n_steps, *, resume=True):
    """Continue to a number of steps; return the records and the last state."""
    checkpoint, records, state = toy(folder, resume=resume)
    state = state or STATE
    assert state["n_steps"] == len(records)
    for step in range(len(records), n_steps):
        values = state["values"] * np.float32(1.1) + np.arange(3, dtype=np.float32)
        support = values > 5
        record = {
            "total": float(values.sum()),
            "support": support,
            "kept": values[support],
        }
        state = {"values": values, "n_steps": step + 1}
        records.append(record)
        checkpoint.append(record, state)
    return [
        [np.asarray(record[name]).tobytes() for name in RECORD] for record in records
    ], state["values"].tobytes()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Do not wait for the disk: power failures are not tested here."""
    monkeypatch.setattr(os, "fsync", lambda number: None)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "toy"


def test_what_is_written_is_read(folder):
    expected = compute(folder, 6)
    assert compute(folder, 6) == expected
    _, records, state = toy(folder, resume=True)
    assert len(records) == 6 and state.keys() == STATE.keys()
    # A file per step.
    expected = [f"skdiffclust-{step:06d}.npz" for step in range(6)]
    assert sorted(os.listdir(folder)) == expected


def test_the_last_two_steps_have_a_state(folder):
    # The last file may be incomplete.
    compute(folder, 5)
    found = []
    for step in range(5):
        with np.load(folder / f"skdiffclust-{step:06d}.npz") as archive:
            assert archive["record.total"] > 0
            found.append("state.values" in archive)
    assert found == [False, False, False, True, True]


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
    # The bytes grow by those of a record for each more step.
    first, second, third = n_bytes
    assert 1.9 < second / first < 2.1 and 1.9 < third / second < 2.1


class Killed(BaseException):
    """What comes instead of a signal that ends the process."""


def killed_at(monkeypatch, moment):
    """End the process at a moment: before or during a call that touches the disk."""
    calls = iter(range(10**6))

    def patched(module, name):
        real = getattr(module, name)

        def call(*args, **kwargs):
            # A killed process does no cleaning up: nothing runs after that moment.
            if next(calls) >= moment:
                raise Killed
            return real(*args, **kwargs)

        monkeypatch.setattr(module, name, call)

    for name in ("replace", "fsync"):
        patched(os, name)
    for name in ("mkdir", "unlink"):
        patched(pathlib.Path, name)
    patched(np.lib.format, "write_array")


# NumPy 2.0 leaves an archive open if writing it is interrupted.
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <function ZipFile.__del__"
    ":pytest.PytestUnraisableExceptionWarning"
)
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


def test_killed_while_another_computation_begins(folder, monkeypatch):
    for moment in range(100):
        compute(folder, 5, resume=False)
        with monkeypatch.context() as patch:
            killed_at(patch, moment)
            try:
                toy(folder, resume=False, x="2")
                break
            except Killed:
                pass
        # The remaining steps are those of the computation before.
        with pytest.raises(ValueError, match="different values of .'x'."):
            toy(folder, resume=True, x="2")
    assert moment > 3
    assert toy(folder, resume=True, x="2")[1:] == ([], None)


def test_a_full_disk_that_has_space_again(folder, monkeypatch):
    expected = compute(folder, 8)
    with monkeypatch.context() as patch:
        n_calls, fsync = iter(range(1000)), os.fsync

        def sometimes_full(number):
            if 3 <= next(n_calls) < 7:
                raise OSError(28, "No space left on device")
            fsync(number)

        patch.setattr(os, "fsync", sometimes_full)
        with pytest.warns(UserWarning, match="not be written: No space left") as caught:
            assert compute(folder, 8, resume=False) == expected
    # The message is the same each time, so that Python shows it once.
    assert len({str(warning.message) for warning in caught}) == 1
    assert len(os.listdir(folder)) == 8
    assert compute(folder, 8) == expected
    # The last step may still be incomplete.
    os.truncate(folder / "skdiffclust-000007.npz", 10)
    with pytest.warns(UserWarning, match="is incomplete"):
        assert compute(folder, 8) == expected
    compute(folder, 8, resume=False)
    assert compute(folder, 8) == expected


def test_a_disk_that_stays_full_keeps_the_steps_before(folder, monkeypatch):
    expected = compute(folder, 8)
    compute(folder, 5, resume=False)

    def full(number):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.warns(UserWarning, match="could not be written"):
            assert compute(folder, 8) == expected
    assert len(toy(folder, resume=True)[1]) == 5
    assert compute(folder, 8) == expected


@pytest.mark.parametrize("n_steps", [1, 6])
@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_a_torn_last_step_is_computed_again(kept, n_steps, folder):
    expected = compute(folder, n_steps)
    file = folder / f"skdiffclust-{n_steps - 1:06d}.npz"
    content = file.read_bytes()
    kept = int(kept * len(content)) if kept < 1 else kept
    file.write_bytes(content[:kept])
    with pytest.warns(UserWarning, match="last step .* is incomplete, and is computed"):
        assert compute(folder, n_steps) == expected
    assert compute(folder, n_steps) == expected


@pytest.mark.parametrize("kept", [0, 0.5, 0.99])
def test_any_other_step_that_is_torn_is_refused(kept, folder):
    compute(folder, 6)
    file = folder / "skdiffclust-000002.npz"
    content = file.read_bytes()
    file.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(ValueError, match="step 2 missing or damaged.*resume=False"):
        compute(folder, 6)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"x": "2"}, "different values of .'x'. instead"),
        ({"kind": "path"}, "different values of .'kind'. instead"),
        ({"record": RECORD | {"more": 0.0}}, "other arrays .'more'. in step 0"),
        ({"record": RECORD | {"total": 0}}, "float64 .* for 'total' in step 0"),
        ({"state": STATE | {"values": np.ones(4, np.float32)}}, "for 'values' in"),
        ({"record": RECORD | {"kept": np.zeros((3, 1), np.float32)}}, "for 'kept'"),
    ],
)
def test_a_checkpoint_of_another_computation_is_refused(changed, match, folder):
    compute(folder, 3)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match=f"checkpoint .*{match}.*resume=False"):
        toy(folder, resume=True, **changed)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert toy(folder, resume=False, **changed)[1:] == ([], None)


# The identity of a computation.


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
        (np.array(["a", None], dtype=object), np.array(["a", None], dtype=object)),
    ):
        assert digest(ours) == digest(theirs)


def test_different_parameters_differ():
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
        [2**70],
        [2**64 - 1],
    ]
    assert len({digest(value) for value in values}) == len(values)


def test_data_are_compared_byte_for_byte():
    X = np.arange(6.0).reshape(2, 3)

    def of(array):
        return identify({"X": array}, {})["X"]

    assert of(X) == of(X.copy(order="F"))
    other = np.nextafter(X, np.inf)
    others = [X, X.astype(np.float32), X.T, other, X.reshape(3, 2), None]
    assert len({of(array) for array in others}) == len(others)


def scaled(X, factors):
    return X * factors


class Thing(BaseEstimator):
    """An object that holds a function."""

    def __init__(self, function=None):
        self.function = function


def test_functions_are_known_by_name_and_by_what_they_return():
    outputs = np.array([[1.0, 1 / 3], [2e-30, 4.0]])

    def one(x):
        return x

    def another(x):
        return x

    assert digest(Thing()) != digest(Thing(2))
    for function in (one, functools.partial(one, x=2), Thing(one), type(one).__call__):
        assert digest(function, outputs) == digest(function, outputs.copy())
    assert digest(one, outputs) != digest(another, outputs)
    assert digest(Thing(one), outputs) != digest(Thing(another), outputs)
    assert digest(lambda x: x, outputs) == digest(lambda x: 2 * x, outputs)  # one name
    assert digest(one, outputs) != digest(one, 2 * outputs)
    # Seven digits; zero has no sign.
    assert digest(one, outputs) == digest(one, outputs * (1 + 1e-13))
    assert digest(one, outputs) != digest(one, outputs * (1 + 1e-5))
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
    """Return another function of the same name, as after a restart."""
    return type(function)(function.__code__, function.__globals__, function.__name__)
