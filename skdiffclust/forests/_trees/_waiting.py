"""Whether a fit should wait for compilation or do without the fast kernels.

The kernels of `_euclidean` compile in about twenty seconds, once for each installation.
A fit that takes less time without them does not wait; the time spent that way adds up,
and once it reaches the cost of compiling, the next fit compiles. The state belongs to
the process and is kept in no other module.
"""

import logging
import threading

# Processor seconds that compiling takes.
_COMPILING = 20.0
_logger = logging.getLogger("skdiffclust")


class _Spent:
    """Seconds that fits of this process took without the fast kernels, as estimated."""

    def __init__(self):
        self.seconds = 0.0
        self.lock = threading.Lock()


_spent = _Spent()


def slow_solver(n_samples, n_features):
    """Return "prim" or "boruvka", what to use without the compiler, or None to wait.

    Seconds are estimated from the sizes alone, so that the choice is the same in every
    run. Both give the tree that the fast kernels give, bit for bit.
    """
    from skdiffclust._compiled import is_ready
    from skdiffclust.forests._trees._euclidean import search_leaves

    if is_ready(search_leaves):
        return None
    by_prim = n_samples * (3e-5 + n_samples * (1e-8 + 1e-9 * n_features))
    by_boruvka = 1.0 + 4e-6 * n_samples * 1.6 ** max(n_features - 3, 0)
    seconds = min(by_prim, by_boruvka)
    with _spent.lock:
        if _spent.seconds + seconds < _COMPILING:
            _spent.seconds += seconds
            return "prim" if by_prim <= by_boruvka else "boruvka"
    _logger.warning(
        "skdiffclust compiles its kernels for spanning trees: about %.0f seconds, once "
        "for each installation. skdiffclust.warmup() does it ahead.",
        _COMPILING,
    )
    return None
