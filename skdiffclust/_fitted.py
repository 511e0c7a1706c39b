"""Fitted state, replaced as a whole by a fit and read as a whole by other methods.

A fit works on a draft, a shallow copy of the estimator, and is published by one
assignment of ``__dict__`` once it has succeeded. A fit that fails or is interrupted
changes nothing. The methods that read work on such a copy as well, so that one call
never sees two fits, whatever another thread does meanwhile, and no lock is needed.
`skdiffclust._history.keep_state_on_error` does the first, `reads_whole` the second:

>>> from sklearn.base import BaseEstimator
>>> from skdiffclust._fitted import draft_of, publish, reads_whole
>>> @reads_whole("both")
... class Pair(BaseEstimator):
...     def fit(self, X):
...         draft = draft_of(self)
...         draft.first_ = X
...         draft.second_ = X                    # self has neither before both are
...         publish(self, draft)
...         return self
...     def both(self):
...         return self.first_, self.second_     # of one fit
>>> Pair().fit(1).both()
(1, 1)
"""

import functools
import inspect

import numpy as np
from sklearn.utils.metaestimators import available_if

from skdiffclust._compat import CONFIGURATION_ATTRIBUTES, AvailableIf


def draft_of(estimator):
    """Return a shallow copy of an estimator: its attributes as of one moment.

    Parameters
    ----------
    estimator : estimator instance
        Its own ``__copy__`` and ``__init__`` are not called.

    Returns
    -------
    draft : estimator instance
        Of the same class, with the same objects as attributes; parameters that are
        scalars of NumPy are Python's, which neither overflow nor wrap.
    """
    draft = object.__new__(type(estimator))
    # Copying a dict with strings as keys is atomic to other threads.
    attributes = vars(estimator).copy()
    scalars = {
        name: value.item()
        for name, value in attributes.items()
        if isinstance(value, np.number | np.bool_ | np.str_)
    }
    if scalars:
        parameters = estimator.get_params(deep=False)
        attributes |= {name: scalars[name] for name in scalars if name in parameters}
    draft.__dict__ = attributes
    return draft


def publish(estimator, draft):
    """Make the fitted attributes of an estimator those of a draft, all at once.

    Parameters, callbacks, the container of outputs and requests of metadata stay as
    they are now; every other attribute is that of the draft, or deleted if the draft
    has none.

    Parameters
    ----------
    estimator : estimator instance
        The one that is seen by others.
    draft : estimator instance
        What `draft_of` returned, after a fit.
    """
    configuration = {*CONFIGURATION_ATTRIBUTES, *estimator.get_params(deep=False)}
    now = vars(estimator).copy()
    new = vars(draft)
    kept = {name: now[name] for name in now if name in configuration}
    fitted = {name: new[name] for name in new if name not in configuration}
    estimator.__dict__ = kept | fitted


def drop_stale(estimator, names):
    """Delete fitted attributes of another configuration, which a new fit has not made.

    Parameters
    ----------
    estimator : estimator instance
        The draft of a fit.
    names : iterable of str
        Attributes that an earlier fit may have left.
    """
    for name in names:
        vars(estimator).pop(name, None)


def reads_whole(*names):
    """Make methods of a class read the fitted state of one moment, by a decorator.

    It decorates the class, so that it applies to inherited methods, and to those that
    scikit-learn has wrapped for ``set_output``.

    Parameters
    ----------
    *names : str
        Methods that read fitted attributes and assign none. Assignments would be lost
        with the copy that they work on.

    Returns
    -------
    function
        The decorator of the class, which returns the same class.
    """

    def decorate(cls):
        for name in names:
            setattr(cls, name, _on_a_copy(inspect.getattr_static(cls, name)))
        return cls

    return decorate


def _on_a_copy(method):
    """Return a method that works on a copy of the estimator."""
    if isinstance(method, AvailableIf):
        return available_if(method.check)(_on_a_copy(method.fn))

    @functools.wraps(method)
    def reading(estimator, *args, **kwargs):
        return method(draft_of(estimator), *args, **kwargs)

    return reading
