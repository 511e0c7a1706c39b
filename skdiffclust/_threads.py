"""Chunks of work on Python threads.

Kernels release the interpreter lock and write to separate memory, so plain threads run
them in parallel. Nothing outlives a call: forks and concurrent fits are safe, and an
interruption takes effect within a chunk.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from math import inf, prod
from threading import Lock
from time import perf_counter

from threadpoolctl import ThreadpoolController

# Seconds that a chunk should take; the next one is sized by the last.
_CHUNK_SECONDS = 0.04
# Multiplications of the largest product of a loop, below which one thread is as fast.
_SMALL_PRODUCT = 10**8


@cache
def _libraries(_torch_is_loaded):
    """Return the controllers of the loaded libraries; to find them takes milliseconds.

    They are looked for again once torch, which brings libraries of its own, is loaded.
    """
    return ThreadpoolController().lib_controllers


def _set_threads(library, n_threads):
    """Set the number of threads of a library.

    Since version 3.8 threadpoolctl leaves OpenBLAS to the first thread that sets it,
    and ignores the others until that one is done. The lock makes them take turns.
    """
    let_go = getattr(library, "clear_controlling_thread", lambda force: None)
    let_go(force=True)
    library.set_num_threads(n_threads)
    let_go(force=True)


class _OneThread:
    """A limit of one thread for some libraries, shared by all blocks inside it."""

    def __init__(self):
        self.lock = Lock()
        self._blocks = set()
        self._before = []

    @contextmanager
    def limit(self, libraries):
        """Limit the libraries in a block, which may overlap with those of others.

        The first block sets the numbers of threads to one, and the last one sets them
        back, in whatever order they end. A number that was changed meanwhile stays.
        """
        block = object()
        try:
            with self.lock:
                self._blocks.add(block)
                if len(self._blocks) == 1:
                    self._before = [(one, one.num_threads) for one in libraries]
                    for library in libraries:
                        _set_threads(library, 1)
            yield
        finally:
            with self.lock:
                self._blocks.discard(block)
                if not self._blocks:
                    for library, n_threads in self._before:
                        if library.num_threads == 1:
                            _set_threads(library, n_threads)
                    self._before = []


# A BLAS has one number of threads for the process, and OpenMP one for each thread.
_blas = _OneThread()
if hasattr(os, "register_at_fork"):
    # A child must not inherit a lock that another thread of its parent holds.
    os.register_at_fork(
        before=_blas.lock.acquire,
        after_in_parent=_blas.lock.release,
        after_in_child=_blas.lock.release,
    )


@contextmanager
def small_products(n_multiplications):
    """Let BLAS, OpenMP and torch use one thread if the largest product is a small one.

    The threads of a product wait for each other: where others use the processor,
    products that take a tenth of a millisecond then take ten. OpenMP, and torch with
    it, are limited in the calling thread; a BLAS only in the whole process.
    ``torch.set_num_threads`` is not called: threads that use torch for the first time
    meanwhile would keep its number forever.
    """
    if n_multiplications > _SMALL_PRODUCT:
        yield
        return
    number_of_torch = getattr(sys.modules.get("torch"), "get_num_threads", None)
    if number_of_torch is not None:
        # In each thread, the first call sets the number that the user chose.
        number_of_torch()
    libraries = _libraries(number_of_torch is not None)
    openmp, blas = (
        [library for library in libraries if library.user_api == api]
        for api in ("openmp", "blas")
    )
    with _OneThread().limit(openmp), _blas.limit(blas):
        yield


def largest_product(n_samples, weights):
    """Return the multiplications of the largest product of samples with weights.

    The weights are arrays or tensors. Tensors of more than two axes belong to
    convolutions, which use them many times: their products never count as small.
    """
    sizes = [prod(array.shape) if array.ndim <= 2 else inf for array in weights]
    return n_samples * max(sizes, default=0)


def run_chunks(kernel, n_items, arguments, n_threads, size=1):
    """Call ``kernel(first, last, *arguments)`` over ranges of 0 to `n_items`.

    Ranges, the first of `size` items, are handed out in order, each to the thread that
    is free. An exception of a kernel in any thread is raised here.
    """
    lock = Lock()
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
                # The size is at most doubled: one fast range must not take all the rest
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
