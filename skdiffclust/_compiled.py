"""The one way in which a kernel is compiled."""

from numba import njit


def compiled(**options):
    """Return a decorator: numba's ``njit(cache=True)``, or without cache if it must be.

    Where neither the installation nor the user's cache folder can be written (a
    read-only image, no home folder), numba refuses to compile a cached function at
    all; the kernel is then compiled anew in every process. `options` are those of
    ``njit``.
    """

    def decorate(function):
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError as error:
            if "no locator" not in str(error):
                raise
            return njit(**options)(function)

    return decorate
