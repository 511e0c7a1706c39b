"""Chunks on threads: every item once, errors and interruptions come through."""

import threading
from time import sleep

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from skdiffclust._threads import largest_product, run_chunks, small_products


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_every_item_once(n_threads):
    lock, seen = threading.Lock(), []

    def kernel(first, last, offset):
        with lock:
            seen.extend(range(first + offset, last + offset))

    run_chunks(kernel, 1000, (5,), n_threads)
    assert sorted(seen) == list(range(5, 1005))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_error_in_any_thread_stops_all(error):
    calls, before = [], threading.active_count()

    def kernel(first, last):
        calls.append(first)
        if first >= 10:
            raise error("stop")

    for n_threads in (1, 3):
        calls.clear()
        with pytest.raises(error, match="stop"):
            run_chunks(kernel, 10**9, (), n_threads)
        assert len(calls) < 1000
    assert threading.active_count() <= before


def test_an_interruption_while_threads_start_stops_those_that_run(monkeypatch):
    before, start, started = threading.active_count(), threading.Thread.start, []

    def interrupted_start(thread):
        if started:
            raise KeyboardInterrupt
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted_start)
    with pytest.raises(KeyboardInterrupt):
        run_chunks(lambda first, last: sleep(0.05), 200, (), 3)
    assert threading.active_count() <= before


def test_the_largest_product_is_that_of_the_widest_layer():
    layers = [np.zeros((20, 128)), np.zeros(128), np.zeros((128, 3))]
    assert largest_product(100, layers) == 100 * 20 * 128
    assert largest_product(100, ()) == 0
    # The weights of a convolution are used at every position.
    assert largest_product(100, [*layers, np.zeros((8, 1, 3, 3))]) == np.inf


def blas_threads():
    """Return the largest number of threads that a BLAS may use."""
    return max(
        library["num_threads"]
        for library in threadpool_info()
        if library["user_api"] == "blas"
    )


def test_small_products_use_one_thread_and_leave_no_limit_behind():
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        with pytest.raises(KeyboardInterrupt), small_products(10):
            assert blas_threads() == 1
            raise KeyboardInterrupt
        assert blas_threads() == before
        with small_products(10**12):
            assert blas_threads() == before
        # Concurrent blocks leave what was before, in whatever order they end.
        barrier = threading.Barrier(4)

        def work():
            with small_products(10):
                barrier.wait()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert blas_threads() == before
