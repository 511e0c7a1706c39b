"""Loops that run as plain Python on few samples and compiled on many."""

from functools import cache, wraps

# Up to this many samples, a process in which nothing is compiled does without: the
# first fit of a thousand samples must not wait for the compiler.
SMALL = 5000
# Up to as many times more, a loop of linear time takes less in Python than to compile.
LINEAR = 20


def is_compiled(n_rows, kernel):
    """Whether to run a kernel compiled on this many rows: always if it is ready."""
    from skdiffclust._compiled import is_ready

    return n_rows > SMALL or is_ready(kernel)


def compiled_above_small(loop):
    """Run `loop` in Python, or compiled with numba if it is ready or rows are many.

    The loop is written once, in the subset of Python that numba compiles, takes time
    linear in its first array, and calls no other function of ours.
    """

    @wraps(loop)
    def call(first, *others):
        compiled = is_compiled(len(first) / LINEAR, call.compiled())
        return (call.compiled() if compiled else loop)(first, *others)

    call.compiled = lambda: _compile(loop)
    return call


@cache
def _compile(loop):
    """Return the compiled twin of `loop`, kept in numba's cache on disk."""
    from skdiffclust._compiled import compiled

    return compiled()(loop)
