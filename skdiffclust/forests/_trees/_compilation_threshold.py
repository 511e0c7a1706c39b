"""Loops that run as plain Python on few rows and compiled on many."""

from functools import cache, wraps

# Below this many rows a compiler costs more than it saves: the first fit of a
# thousand rows must not wait for numba.
SMALL = 3000


def compiled_above_small(loop):
    """Compile `loop` with numba when its first array has more than SMALL rows.

    The loop is written once, in the subset of Python that numba compiles, and calls
    no other function of ours.
    """

    @wraps(loop)
    def call(first, *others):
        if len(first) <= SMALL:
            return loop(first, *others)
        return _compile(loop)(first, *others)

    return call


@cache
def _compile(loop):
    """Compiled twin of `loop`, kept in numba's cache on disk."""
    from skdiffclust._compiled import compiled

    return compiled()(loop)
