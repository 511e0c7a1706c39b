"""Loops that run as plain Python on few samples and compiled on many."""

from functools import cache, wraps

# Below this many samples, compiling costs more than it saves: the first fit of a
# thousand samples must not be delayed by compilation.
SMALL = 3000
# Below this, a loop of linear time is faster in Python than its compilation.
MEDIUM = 100_000


def above_small(n_rows, kernel_of):
    """Whether to use compiled loops for so many samples; ``kernel_of()`` is one.

    Between SMALL and MEDIUM, only if it is compiled already.
    """
    if n_rows <= SMALL:
        return False
    return n_rows > MEDIUM or not SMALL or _is_ready(kernel_of())


def compiled_above_small(loop):
    """Compile `loop` with numba when its first array has more than SMALL rows.

    Up to MEDIUM rows only if it is compiled already: Python takes less time than the
    compiler. The loop is written once, in the subset of Python that numba compiles,
    takes time linear in that array, and calls no other function of ours.
    """

    @wraps(loop)
    def call(first, *others):
        if len(first) <= SMALL:
            return loop(first, *others)
        kernel = _compile(loop)
        if len(first) <= MEDIUM and SMALL and not _is_ready(kernel):
            return loop(first, *others)
        return kernel(first, *others)

    call.compiled = lambda: _compile(loop)
    return call


def _is_ready(kernel):
    """Whether a kernel is compiled, here or on disk."""
    from skdiffclust._compiled import is_ready

    return is_ready(kernel)


@cache
def _compile(loop):
    """Compiled twin of `loop`, kept in numba's cache on disk."""
    from skdiffclust._compiled import compiled

    return compiled()(loop)
