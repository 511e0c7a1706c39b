"""Fits with the threads that users have, in processes without ``OMP_NUM_THREADS``.

`conftest.py` sets one thread for all other tests.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Two threads whatever the machine has, and no other limit than those of the package.
START = """
import os, sys, threading, warnings
import numpy as np
from sklearn.datasets import make_blobs
from threadpoolctl import ThreadpoolController, threadpool_limits
import skdiffclust
from skdiffclust import _threads
warnings.simplefilter("ignore")
X, y = make_blobs(80, n_features=4, centers=3, random_state=0)

def counts(api="blas"):
    libraries = ThreadpoolController().lib_controllers
    return [one.num_threads for one in libraries if one.user_api == api]

class Callback:
    def __init__(self, at_epoch):
        self.at_epoch = at_epoch
    def setup(self, estimator, context):
        pass
    def on_fit_task_begin(self, estimator, context):
        pass
    def on_fit_task_end(self, estimator, context):
        if context.task_name == "epoch":
            self.at_epoch()
    def teardown(self, estimator, context):
        pass
"""


def run(script):
    """Run a script in a process of its own, with two threads for every library."""
    limits = {name for name in os.environ if name.endswith("_NUM_THREADS")}
    environment = {k: v for k, v in os.environ.items() if k not in limits}
    environment["PYTHONPATH"] = str(ROOT)
    two = "\nThreadpoolController().limit(limits=2).__enter__()\n"
    done = subprocess.run(
        [sys.executable, "-c", START + two + script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


WITHOUT_TORCH = """
# Overlapping fits in two threads.
first_is_in, second_is_in, first_is_over = (threading.Event() for _ in range(3))
seen = []

def first_epoch(of_the_second):
    seen.extend(counts())
    if of_the_second:
        second_is_in.set()
        first_is_over.wait(100)
    else:
        first_is_in.set()
        second_is_in.wait(100)
    seen.extend(counts())

def fit(at_epoch):
    model = skdiffclust.GEMINI(3, max_iter=3, n_init=1, random_state=0)
    return model.set_callbacks(Callback(at_epoch)).fit(X)

before = counts()
assert max(before) == 2, before
threads = [threading.Thread(target=fit, args=(lambda k=k: first_epoch(k),))
           for k in (False, True)]
threads[0].start()
assert first_is_in.wait(100)
threads[1].start()
threads[0].join()
first_is_over.set()
threads[1].join()
assert set(seen) == {1}, seen
assert counts() == before, (counts(), before)

# A number that the user changes during a fit stays.
fit(lambda: ThreadpoolController().limit(limits=3, user_api="blas"))
assert max(counts()) == 3, counts()
ThreadpoolController().limit(limits=2, user_api="blas")

# A child of a fit, and a fit in a child.
def fork(work):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if work() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

if hasattr(os, "fork"):
    fit(lambda: fork(lambda: set(counts()) == {1}))
    assert counts() == before
    fork(lambda: fit(lambda: None) and counts() == before)
assert "torch" not in sys.modules
"""
WITH_TORCH = """
import torch
torch.set_num_threads(2)
target = np.where(np.arange(80) % 2, y, -1)
before = ThreadpoolController().info()
params = dict(
    ClAM=dict(max_iter=2, init="random", n_init=2),
    DeepClAM=dict(max_iter=2),
    GEMINI=dict(max_iter=2, model="mlp"),
    PRCut=dict(max_iter=2),
    SparseGEMINI=dict(max_iter=2, model="mlp"),
    SpanningForestEmbedding=dict(max_iter=2),
)


def seen_in(name):
    model, seen = getattr(skdiffclust, name)(3, random_state=0, **params[name]), []
    model.set_callbacks(
        Callback(lambda: seen.append((max(counts()), torch.get_num_threads())))
    ).fit(X, target)
    assert ThreadpoolController().info() == before, name
    return set(seen)

for name in params:
    assert seen_in(name) == {(1, 1)}, name
# 80 samples are worth two threads now.
_threads._SMALL_PRODUCT = 0
assert seen_in("PRCut") == {(2, 2)}
of_another = []
other = threading.Thread(target=lambda: of_another.append(torch.get_num_threads()))
other.start()
other.join()
assert of_another == [2], of_another
"""


def test_fits_of_small_products_use_one_thread_and_leave_the_numbers_as_they_were():
    # Torch is loaded after fits that know the other libraries only.
    run(WITHOUT_TORCH + WITH_TORCH * (find_spec("torch") is not None))
