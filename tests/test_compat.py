"""Private scikit-learn names: each does what the package relies on."""

from numbers import Real

import pytest
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator

from skdiffclust._compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    fit_context,
    validate_params,
)


class Constrained(CallbackSupportMixin, BaseEstimator):
    _parameter_constraints = {
        "rate": [Interval(Real, 0, 1, closed="right")],
        "name": [StrOptions({"a", "b"})],
    }

    def __init__(self, rate=0.5, name="a"):
        self.rate = rate
        self.name = name

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        self._init_callback_context()
        return self


@pytest.mark.parametrize(
    "parameter, text",
    [
        ({"rate": float("nan")}, r"'rate' parameter of Constrained must be .*\(0.0, 1"),
        ({"rate": 0.0}, r"\(0.0, 1.0\]. Got 0.0 instead"),
        ({"name": "c"}, r"'name' .* must be a str among .*. Got 'c' instead"),
    ],
)
def test_fit_context_refuses_wrong_parameters(parameter, text):
    with pytest.raises(ValueError, match=text):
        Constrained(**parameter).fit([[0.0]])


@validate_params(
    {"rate": [Interval(Real, 0, 1, closed="right")], "any": "no_validation"},
    prefer_skip_nested_validation=True,
)
def function(rate, any=None, *, name="a"):
    return rate, any, name, get_config()["skip_parameter_validation"]


def test_functions_refuse_what_scikit_learn_refuses():
    assert function(1, "x", name="b") == (1, "x", "b", True)
    assert function(rate=0.5) == (0.5, None, "a", True)
    for arguments in ((0.0,), (True,), ("1",), (None,)):
        with pytest.raises(ValueError, match="'rate' parameter of function must be"):
            function(*arguments)
    with config_context(skip_parameter_validation=True):
        assert function(7)[0] == 7
    assert not get_config()["skip_parameter_validation"]
    for args, kwargs in (((), {}), ((1, 2, 3), {}), ((1,), {"b": 2})):
        with pytest.raises(TypeError):
            function(*args, **kwargs)
