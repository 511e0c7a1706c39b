"""Chunks of work on Python threads.

Kernels release the interpreter lock and write to separate memory, so plain threads run
them in parallel. Nothing outlives a call: forks and concurrent fits are safe, and an
interruption takes effect within a chunk.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache
from time import perf_counter

from threadpoolctl import ThreadpoolController

# Seconds that a chunk should take; the next one is sized by the last.
_CHUNK_SECONDS = 0.04
# Multiplications of the largest product of a loop, below which one thread is as fast.
_SMALL_PRODUCT = 10**8


@cache
def _controller():
    """Return the controller of the libraries that are loaded; finding them costs ms."""
    return ThreadpoolController()


@contextmanager
def small_products(n_multiplications):
    """Let BLAS use one thread in the block if its largest product is a small one.

    The threads of a product wait for each other: on a busy processor, products that
    take a tenth of a millisecond then take ten. The limit is that of the process, as in
    scikit-learn's KMeans; of concurrent blocks, threadpoolctl lets one set it.
    """
    is_small = n_multiplications <= _SMALL_PRODUCT
    with _controller().limit(limits=1, user_api="blas") if is_small else nullcontext():
        yield


def run_chunks(kernel, n_items, arguments, n_threads, size=1):
    """Call ``kernel(first, last, *arguments)`` over ranges of 0 to `n_items`.

    Ranges, the first of `size` items, are handed out in order, each to the thread that
    is free. An exception of a kernel in any thread is raised here.
    """
    lock = threading.Lock()
    handed_out = 0
    is_closed = False

    def take():
        nonlocal handed_out
        with lock:
            first = n_items if is_closed else handed_out
            handed_out = min(first + size, n_items)
            return first, handed_out

    def work():
        nonlocal size, is_closed
        try:
            first, last = take()
            while first < last:
                begun = perf_counter()
                kernel(first, last, *arguments)
                seconds = max(perf_counter() - begun, 1e-6)
                # At most doubled, so that one fast range does not take all the rest.
                growth = min(2.0, _CHUNK_SECONDS / seconds)
                size = max(1, int((last - first) * growth))
                first, last = take()
        finally:  # after an error or an interruption, too
            is_closed = True

    n_others = min(n_threads, n_items) - 1
    if n_others < 1:
        work()
        return
    with ThreadPoolExecutor(n_others) as pool:
        try:
            others = [pool.submit(work) for _ in range(n_others)]
            work()
        finally:
            is_closed = True
    for other in others:
        other.result()
