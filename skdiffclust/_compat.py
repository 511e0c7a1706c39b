"""The only door to names of scikit-learn that are private or new in 1.9.

All of it is loaded by ``import sklearn.cluster`` anyway, so this module costs nothing.
`fit_context` validates the parameters of the estimator and tears down its callbacks, so
that ``sklearn.callback.with_callbacks`` is not needed.
"""

from functools import wraps as _wraps
from inspect import signature as _signature

from sklearn import config_context as _config_context
from sklearn import get_config as _get_config
from sklearn.base import _fit_context as fit_context
from sklearn.callback import CallbackSupportMixin
from sklearn.cluster._hierarchical_fast import single_linkage_label
from sklearn.metrics.pairwise import _VALID_METRICS
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._openmp_helpers import (
    _openmp_effective_n_threads as effective_n_threads,
)
from sklearn.utils._param_validation import (
    HasMethods,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils._param_validation import Interval as _Interval
from sklearn.utils._param_validation import make_constraint as _make_constraint
from sklearn.utils.metaestimators import available_if as _available_if
from sklearn.utils.validation import _check_feature_names_in as check_feature_names_in
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import _num_samples as num_samples

__all__ = [
    "CALLBACKS_ATTRIBUTE",
    "CONFIGURATION_ATTRIBUTES",
    "CallbackSupportMixin",
    "HasMethods",
    "Interval",
    "PAIRWISE_METRICS",
    "StrOptions",
    "check_feature_names_in",
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


class Interval(_Interval):
    """scikit-learn's interval of numbers, without True and False.

    Python takes these as one and zero, and they would fail later.
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

    scikit-learn wraps ``transform`` when the body of the class has been read, and what
    `available_if` said there is lost.
    """

    def decorate(cls):
        setattr(cls, name, _available_if(check)(getattr(cls, name)))
        return cls

    return decorate


def _satisfies_one(rules, value):
    """Return whether a value satisfies one of the rules of a parameter."""
    for rule in rules:
        if rule.is_satisfied_by(value):
            return True
    return False


def validate_params(constraints, *, prefer_skip_nested_validation):
    """`validate_params` of scikit-learn, for functions that are called in loops.

    That takes 0.1 ms per call. Here the rules are constructed once. Use
    ``prefer_skip_nested_validation=False`` where estimators of the user are fitted.
    """
    rules = {
        name: [_make_constraint(rule) for rule in allowed]
        for name, allowed in constraints.items()
        if allowed != "no_validation"
    }

    def decorate(function):
        names = tuple(_signature(function).parameters)

        @_wraps(function)
        def checked(*args, **kwargs):
            if not _get_config()["skip_parameter_validation"]:
                # Loops, because Ctrl-C is lost where a generator is left early.
                for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
                    if name in rules and not _satisfies_one(rules[name], value):
                        validate_parameter_constraints(
                            constraints, {name: value}, function.__qualname__
                        )
            if not prefer_skip_nested_validation:
                return function(*args, **kwargs)
            with _config_context(skip_parameter_validation=True):
                return function(*args, **kwargs)

        return checked

    return decorate
