"""The decorator that compiles all kernels, and all names of numba that are private.

Without these names, as another version of numba may be, kernels are compiled plainly:
Ctrl-C may then end a fit with another error than KeyboardInterrupt, and kernels in
numba's cache on disk are not known to be ready.
"""

import signal
import threading
from contextlib import contextmanager
from functools import cache

from numba import config, njit

try:
    from numba.core.registry import CPUDispatcher
except ImportError:
    CPUDispatcher = object


@contextmanager
def _interruptions_held():
    """Let Ctrl-C wait until the end of the block; only the main thread sees it."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(
        handler
    ):
        yield
        return
    held = []
    signal.signal(signal.SIGINT, lambda *arguments: held.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if held:
            handler(*held[0])


class _Kernel(CPUDispatcher):
    """A compiled function that ends with KeyboardInterrupt when Ctrl-C was pressed.

    numba calls Python to pack the arrays that a kernel returns, and a signal that
    arrived during the kernel raises there: the call then ends with a SystemError, whose
    cause is the interruption. An interrupted compilation or loading from the cache
    would end the process in the next call, so neither is interrupted.
    """

    def _compile_for_args(self, *args, **kwargs):
        with _interruptions_held():
            return super()._compile_for_args(*args, **kwargs)

    def __call__(self, *args, **kwargs):
        try:
            return super().__call__(*args, **kwargs)
        except SystemError as error:
            cause = error
            while isinstance(cause, SystemError) and cause.__cause__ is not None:
                cause = cause.__cause__
            if isinstance(cause, KeyboardInterrupt):
                raise cause from None
            raise


def is_ready(kernel):
    """Whether a kernel is compiled, in this process or in numba's cache on disk.

    False if numba does not tell, and for a cache of other code or another processor.
    """
    if not hasattr(kernel, "signatures"):  # a function, with NUMBA_DISABLE_JIT
        return True
    return bool(kernel.signatures) or _is_stored(kernel)


@cache
def _is_stored(kernel):
    """Whether numba's cache had a kernel when the process first asked. Takes 0.1 ms."""
    try:
        stored = kernel._cache._cache_file._load_index()
        processor = kernel.targetctx.codegen().magic_tuple()
        return any(key[1] == processor for key in stored)
    except (AttributeError, LookupError, OSError, TypeError):
        return False


def compiled(**options):
    """Return a decorator like numba's ``njit(cache=True)``, or without a cache.

    Where neither the installation nor the user's cache folder can be written (a
    read-only image, no home folder), numba refuses to compile a cached function at
    all; the kernel is then compiled again in every process. `options` are those of
    ``njit``.
    """

    def decorate(function):
        if config.DISABLE_JIT:
            return function
        try:
            kernel = _Kernel(function, targetoptions={"nopython": True, **options})
        except TypeError:  # no dispatcher, or one of other arguments
            kernel = njit(**options)(function)
        try:
            kernel.enable_caching()
        except RuntimeError as error:
            if "no locator" not in str(error):
                raise
        return kernel

    return decorate


# For kernels that only others call: numba compiles no wrapper that Python could call.
inner = compiled(no_cpython_wrapper=True)
