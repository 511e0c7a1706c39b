"""FAULTS 27: Ctrl-C in the middle of a fit."""

import signal
import threading
import time

import numpy as np
import pytest

from skdiffclust import SpanningForestClustering

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "pthread_kill"), reason="Signals cannot be sent to a thread."
)


def interrupt_after(seconds):
    """Send the signal of Ctrl-C to this thread; return when it was sent."""
    sent = []

    def send(thread):
        sent.append(time.perf_counter())
        signal.pthread_kill(thread, signal.SIGINT)

    timer = threading.Timer(seconds, send, args=[threading.get_ident()])
    timer.start()
    return sent


def slow_metric(a, b):
    """Distance that takes a millisecond."""
    time.sleep(1e-3)
    return np.abs(a - b).sum()


@pytest.mark.parametrize(
    "clusterer, shape",
    [
        (SpanningForestClustering(2, metric=slow_metric), (200, 2)),
        (SpanningForestClustering(2, algorithm="prim"), (60_000, 20)),
        (SpanningForestClustering(2, algorithm="kruskal"), (6_000, 20)),
    ],
    ids=["callable", "prim", "kruskal"],
)
def test_control_c(clusterer, shape):
    X = np.random.default_rng(0).normal(size=shape)
    if clusterer.metric == "euclidean":
        clusterer.fit(X[:3100])  # so that the kernels are compiled
    clusterer.fit(X[:20])
    before = clusterer.labels_.copy()
    sent = interrupt_after(0.5)
    with pytest.raises(KeyboardInterrupt):
        clusterer.fit(X)
    assert time.perf_counter() - sent[0] < 1
    assert np.array_equal(clusterer.labels_, before)
    assert np.array_equal(clusterer.fit(X[:20]).labels_, before)
