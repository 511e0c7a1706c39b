"""Loops that run as plain Python on few samples and compiled on many."""

from functools import cache, wraps

# Below this many samples, compiling costs more than it saves: the first fit of a
# thousand samples must not be delayed by compilation.
SMALL = 3000
# Below this, a loop of linear time is faster in Python than its compilation.
MEDIUM = 100_000


def above_small(n_rows, kernel_of):
    """Whether to use compiled loops for so many samples; ``kernel_of()`` is one.

    At any size if it is compiled already. Above SMALL also if the kernels of the tree
    are, which take many times as long to compile, and above MEDIUM always.
    """
    if not SMALL or n_rows > MEDIUM or _is_ready(kernel_of()):
        return True
    return n_rows > SMALL and _is_ready(tree_kernel())


def compiled_above_small(loop):
    """Run `loop` in Python, or compiled with numba by the rule of `above_small`.

    The loop is written once, in the subset of Python that numba compiles, takes time
    linear in its first array, and calls no other function of ours.
    """

    @wraps(loop)
    def call(first, *others):
        is_compiled = above_small(len(first), call.compiled)
        return (_compile(loop) if is_compiled else loop)(first, *others)

    call.compiled = lambda: _compile(loop)
    return call


def tree_kernel():
    """Return the kernel that searches for the edges of a tree of points."""
    from skdiffclust.forests._trees._euclidean import search_leaves

    return search_leaves


def _is_ready(kernel):
    """Whether a kernel is compiled, here or on disk."""
    from skdiffclust._compiled import is_ready

    return is_ready(kernel)


@cache
def _compile(loop):
    """Compiled twin of `loop`, kept in numba's cache on disk."""
    from skdiffclust._compiled import compiled

    return compiled()(loop)
