"""Two processes, forked or of ``torchrun``, against one on the joint batch."""

import multiprocessing
import os
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from skdiffclust import SpanningForestEmbedding

HERE = Path(__file__).parent
LAUNCH = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


@pytest.fixture
def script():
    """The functions of train.py."""
    before = torch.get_default_dtype()
    yield runpy.run_path(str(HERE / "train.py"))
    torch.set_default_dtype(before)


def assert_as_one(script, folder):
    """Compare what the processes wrote with the joint batch in this one."""
    expected = script["train"](slice(0, 16))
    assert len(expected) == 3 * 3 + 2 * (2 + 2 + 6)
    X, y, _ = script["data"]()
    embedding = SpanningForestEmbedding(3, max_iter=2, random_state=0)
    expected["fit"] = embedding.fit(X.numpy(), y.numpy()).coefs_[0]
    for rank in range(2):
        with np.load(folder / f"{rank}.npz") as found:
            assert found.keys() == expected.keys() - ({"fit"} if rank else set())
            for name, value in found.items():
                np.testing.assert_allclose(value, expected[name], rtol=0, atol=1e-10)


def join_and_train(script, folder, rank):
    """Join the other process, and train."""
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
    )
    script["work"](folder, rank, after_backward=script["average"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="There is no fork here.")
def test_two_processes_train_as_one(script, tmp_path):
    context = multiprocessing.get_context("fork")
    children = [
        context.Process(target=join_and_train, args=(script, tmp_path, rank))
        for rank in range(2)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads alive
        for child in children:
            child.start()
    for child in children:
        child.join(120)
    assert [child.exitcode for child in children] == [0, 0]
    assert_as_one(script, tmp_path)


@pytest.mark.long
def test_torchrun_trains_as_one(script, tmp_path):
    run = subprocess.run(
        [sys.executable, "-W", "ignore", *LAUNCH, HERE / "train.py", tmp_path],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert run.returncode == 0, run.stderr
    assert_as_one(script, tmp_path)
