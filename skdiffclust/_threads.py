"""Chunks of work on Python threads, without a thread pool.

Kernels release the interpreter lock and write to separate memory, so plain threads run
them in parallel. Nothing outlives a call: forks and concurrent fits are safe, and an
interruption takes effect within a chunk.
"""

import threading
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
    queue = _Queue(n_items, size)

    def work():
        try:
            _drain(queue, kernel, arguments)
        except BaseException as error:
            queue.error = error
            queue.is_closed = True

    n_threads = min(n_threads, n_items)
    threads = [threading.Thread(target=work) for _ in range(n_threads - 1)]
    try:
        for thread in threads:
            thread.start()
        _drain(queue, kernel, arguments)
    finally:
        # Without the lock, because an interruption may have come while it was held.
        queue.is_closed = True
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    if queue.error is not None:
        raise queue.error


class _Queue:
    """Ranges not yet handed out."""

    def __init__(self, n_items, size):
        self.n_items = n_items
        self.size = size
        self.next = 0
        self.lock = threading.Lock()
        self.error = None
        self.is_closed = False

    def take(self):
        """Return the next range, empty at the end and once the queue is closed."""
        with self.lock:
            first = self.n_items if self.is_closed else self.next
            self.next = last = min(first + self.size, self.n_items)
        return first, last


def _drain(queue, kernel, arguments):
    """Work on ranges until none is left."""
    while True:
        first, last = queue.take()
        if first == last:
            return
        begun = perf_counter()
        kernel(first, last, *arguments)
        seconds = max(perf_counter() - begun, 1e-6)
        # At most doubled, so that one fast range does not take all the rest.
        queue.size = max(1, int((last - first) * min(2.0, _CHUNK_SECONDS / seconds)))
