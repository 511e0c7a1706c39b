"""The only module with names of scikit-learn that are private or new in 1.9.

Decorators also come through it: scikit-learn's have no annotations, and without those
what they decorate would be unknown to type checkers.

All of it is loaded by ``import sklearn.cluster`` anyway, so this module costs nothing.
`fit_context` validates the parameters of the estimator and tears down its callbacks, so
that ``sklearn.callback.with_callbacks`` is not needed.
"""

from collections.abc import Callable as _Callable
from typing import Any as _Any

from sklearn.base import _fit_context
from sklearn.callback import CallbackSupportMixin
from sklearn.callback._callback_support import callback_management_context
from sklearn.cluster._hierarchical_fast import single_linkage_label
from sklearn.metrics._pairwise_distances_reduction import ArgKmin
from sklearn.metrics.pairwise import _VALID_METRICS
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._openmp_helpers import (
    _openmp_effective_n_threads as effective_n_threads,
)
from sklearn.utils._optional_dependencies import check_pandas_support
from sklearn.utils._param_validation import (
    HasMethods,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils._param_validation import Interval as _Interval
from sklearn.utils._param_validation import validate_params as _validate_params
from sklearn.utils.metaestimators import available_if as _available_if
from sklearn.utils.validation import _check_feature_names_in as check_feature_names_in
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import _num_samples as num_samples

from skdiffclust._types import Function as _Function

__all__ = [
    "ArgKmin",
    "CALLBACKS_ATTRIBUTE",
    "CONFIGURATION_ATTRIBUTES",
    "CallbackSupportMixin",
    "HasMethods",
    "Interval",
    "PAIRWISE_METRICS",
    "StrOptions",
    "available_if",
    "callback_management_context",
    "check_feature_names_in",
    "check_pandas_support",
    "check_sample_weight",
    "effective_n_threads",
    "fit_context",
    "method_available_if",
    "num_samples",
    "safe_indexing",
    "single_linkage_label",
    "validate_parameter_constraints",
    "validate_params",
]


def fit_context(
    *, prefer_skip_nested_validation: bool
) -> _Callable[[_Function], _Function]:
    """Return scikit-learn's decorator of a fit."""
    return _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)


def validate_params(
    parameter_constraints: dict[str, _Any], *, prefer_skip_nested_validation: bool
) -> _Callable[[_Function], _Function]:
    """Return scikit-learn's decorator of a function with parameters to validate."""
    return _validate_params(
        parameter_constraints,
        prefer_skip_nested_validation=prefer_skip_nested_validation,
    )


def available_if(
    check: _Callable[[_Any], bool],
) -> _Callable[[_Function], _Function]:
    """Return scikit-learn's decorator of a method that not all instances have."""
    return _available_if(check)


class Interval(_Interval):
    """scikit-learn's interval of numbers, without True and False.

    Python accepts them as the numbers one and zero, with which a fit would fail later.
    """

    def is_satisfied_by(self, val):
        """Whether a parameter may have this value."""
        return not isinstance(val, bool) and super().is_satisfied_by(val)


# The names that `sklearn.metrics.pairwise_distances` takes.
PAIRWISE_METRICS = set(_VALID_METRICS) - {"precomputed"}

# Attribute in which `CallbackSupportMixin.set_callbacks` keeps its list, absent if
# empty.
CALLBACKS_ATTRIBUTE = "_skl_callbacks"
# What scikit-learn keeps in an estimator besides parameters and fitted attributes:
# callbacks and their parent, the container of `set_output`, requests of metadata.
CONFIGURATION_ATTRIBUTES = (
    CALLBACKS_ATTRIBUTE,
    "_parent_callback_ctx",
    "_sklearn_output_config",
    "_metadata_request",
)


def method_available_if(check, name):
    """Return a class decorator: `available_if` for a method that set_output wraps.

    scikit-learn wraps ``transform`` after the body of the class is read, so that an
    `available_if` inside the class has no effect.
    """

    def decorate(cls):
        setattr(cls, name, available_if(check)(getattr(cls, name)))
        return cls

    return decorate
