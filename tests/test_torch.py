"""Devices, arrays, random streams, encoders, the training loop, process groups."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from skdiffclust import _devices, _torch
from skdiffclust._encoder import ACTIVATIONS, Encoder
from skdiffclust._history import EpochLoop

ROOT = Path(__file__).resolve().parents[1]


def test_device():
    assert _devices.resolve_device("cpu", "C") == "cpu"
    assert _devices.resolve_device(torch.device("cpu"), "C") == "cpu"
    best = "cuda" if torch.cuda.is_available() else "cpu"
    assert _devices.resolve_device("auto", "C") == best


@pytest.mark.parametrize("device", ["cuda:99", "meta", "gpu", 1.5, None])
def test_a_device_that_is_missing_is_refused_with_those_present(device):
    with pytest.raises(ValueError, match=r"'device' parameter of C .*present: cpu"):
        _devices.resolve_device(device, "C")


@pytest.mark.skipif(torch.cuda.is_available(), reason="There is a CUDA device here.")
def test_cuda_without_cuda_is_refused():
    with pytest.raises(ValueError, match="Got 'cuda' instead"):
        _devices.resolve_device("cuda", "C")


def test_tensor_shares_memory_where_that_is_safe():
    array = np.arange(6.0).reshape(2, 3)
    _torch.to_tensor(array)[0, 0] = 7.0
    assert array[0, 0] == 7.0


def test_read_only_memory_map_is_copied(tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(6.0))
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    tensor = _torch.to_tensor(rows)
    tensor += 1
    np.testing.assert_array_equal(rows, np.arange(6.0))


@pytest.mark.parametrize(
    "array",
    [np.arange(4.0)[::-1], np.arange(4, dtype=">f8"), np.arange(8.0)[::2]],
    ids=["reversed", "big-endian", "strided"],
)
def test_any_layout_becomes_a_tensor(array):
    np.testing.assert_array_equal(_torch.to_tensor(array).numpy(), array)


def test_numpy_array_owns_its_memory():
    tensor = torch.zeros(3, requires_grad=True)
    array = _torch.to_numpy(tensor)
    array += 1
    assert tensor.sum() == 0


def test_isolated_streams_are_put_back_even_after_an_error(global_random_seed):
    before = torch.random.get_rng_state()
    draws = []
    for _ in range(2):
        with (
            pytest.raises(KeyError),
            _torch.isolated_streams(np.random.RandomState(global_random_seed)),
        ):
            draws.append(torch.rand(3))
            raise KeyError
    assert torch.equal(draws[0], draws[1])
    assert torch.equal(before, torch.random.get_rng_state())


def make_encoder(sizes, dtype=np.float64, activation="relu"):
    rng = np.random.RandomState(0)
    return Encoder.with_random_weights(sizes, rng, dtype, activation=activation)


@pytest.mark.parametrize("sizes", [(5, 2), (5, 7, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_encoder_becomes_a_module_and_an_encoder_again(
    sizes, dtype, activation, global_random_seed
):
    encoder = make_encoder(sizes, dtype, activation)
    before = torch.random.get_rng_state()
    module = _torch.encoder_module(encoder)
    assert torch.equal(before, torch.random.get_rng_state())
    back = _torch.module_encoder(module, activation)
    assert back.activation == activation
    for one, other in zip(encoder.arrays, back.arrays, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)

    X = np.random.RandomState(global_random_seed).randn(4, 5).astype(dtype)
    with torch.no_grad():
        output = module(torch.from_numpy(X)).numpy()
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    expected = encoder.outputs(X)
    np.testing.assert_allclose(output, expected, atol=tolerance)


def test_training_the_module_leaves_the_arrays_alone():
    encoder = make_encoder((2, 2))
    module = _torch.encoder_module(encoder)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    assert all(array.any() for array in encoder.arrays)


def test_module_state_there_and_back():
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    state = _torch.module_state(module)
    assert all(isinstance(value, np.ndarray) for value in state.values())
    other = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    _torch.load_module_state(other, state)
    for name, value in other.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), state[name])


class Line(nn.Module):
    """A slope to be learned; it remembers the modes it was in."""

    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(()))


def fit_line(loss_of, *, batch_size=4, max_iter=30):
    module = Line()
    loop = EpochLoop("Toy", max_iter=max_iter, learning_rate=0.1)
    sizes, modes = [], []

    def batches(size):
        sizes.append(size)
        rows = torch.arange(1.0, 9.0) / 8
        return rows.split(size)

    def close(loop, mean_loss):
        modes.append(module.training)
        loop.record(mean_loss, state=lambda: _torch.module_state(module))

    optimizer = torch.optim.SGD(module.parameters(), lr=0.3)
    _torch.train_module(
        loop,
        module,
        batches,
        lambda rows: loss_of(module, rows),
        optimizer,
        batch_size=batch_size,
        close=close,
    )
    return module, loop, sizes, modes


def squared_error(module, rows):
    return ((module.slope * rows - 2 * rows) ** 2).mean()


def test_training_learns_and_records():
    module, loop, _, modes = fit_line(squared_error)
    assert float(module.slope.detach()) == pytest.approx(2.0, abs=1e-3)
    assert len(loop.history["loss"]) == 30
    assert loop.history["loss"][-1] < loop.history["loss"][0]
    assert not any(modes)  # closed in evaluation mode


def test_batches_without_a_loss_are_passed_over():
    module, loop, *_ = fit_line(lambda module, rows: None, max_iter=2)
    assert loop.history["loss"] == [0.0, 0.0]
    assert float(module.slope.detach()) == 0.0


def test_out_of_memory_halves_the_batch():
    def hungry(module, rows):
        if len(rows) > 2:
            raise torch.cuda.OutOfMemoryError("no room")
        return squared_error(module, rows)

    _, loop, sizes, _ = fit_line(hungry, batch_size=8)
    assert sizes[:3] == [8, 4, 2] and set(sizes[3:]) == {2}
    assert len(loop.history["loss"]) == 30


def test_out_of_memory_for_good_is_an_error_with_advice():
    def hopeless(module, rows):
        raise torch.cuda.OutOfMemoryError("no room")

    with pytest.raises(torch.cuda.OutOfMemoryError, match="Lower batch_size"):
        fit_line(hopeless, batch_size=8)


def test_parts_stay_small_once_memory_has_run_out():
    parts, tried, released = _torch.Parts("batch_size"), [], []

    def work(n_parts):
        tried.append(n_parts)
        if n_parts < 4:
            raise torch.cuda.OutOfMemoryError("no room")
        return "done"

    for _ in range(2):
        assert parts.run(work, 8, release=lambda: released.append(1)) == "done"
    assert tried == [1, 2, 4, 4] and len(released) == 2

    def hopeless(n_parts):
        raise torch.cuda.OutOfMemoryError("no room")

    with pytest.raises(torch.cuda.OutOfMemoryError, match="8 samples in 4 parts"):
        parts.run(hopeless, 8)


def test_sum_without_processes_is_the_tensor():
    tensor = torch.ones(2)
    assert _torch.sum_over_processes(tensor) is tensor


WORKER = """
import sys
import torch, torch.distributed as dist
from skdiffclust._torch import sum_over_processes
rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
rows = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)[rank]
slope = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
total = sum_over_processes((slope * rows).sum())
loss = total ** 2
(gradient,) = torch.autograd.grad(loss, slope)
dist.all_reduce(gradient)
print(float(loss.detach()), float(gradient) / 2)
dist.destroy_process_group()
"""


@pytest.mark.full
def test_two_processes_agree_with_one(tmp_path):
    # One process: loss (15 s)^2 at s = 2, gradient 2 * 15^2 * s.
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(rank), str(tmp_path / "store")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for worker in workers:
        out, err = worker.communicate(timeout=60)
        assert worker.returncode == 0, err
        assert out.split() == ["900.0", "900.0"]
