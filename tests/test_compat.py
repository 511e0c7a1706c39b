"""Private scikit-learn names: each does what the package relies on."""

import subprocess
import sys
from numbers import Real

import pytest
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from skdiffclust import _compat
from skdiffclust._compat import (
    CALLBACKS_ATTRIBUTE,
    CallbackSupportMixin,
    Interval,
    StrOptions,
    effective_n_threads,
    fit_context,
    validate_params,
)


class Watcher:
    """The smallest callback; it remembers whether it was torn down."""

    torn_down = False

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        self.torn_down = True


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


def test_fit_context_tears_callbacks_down():
    # This is why `with_callbacks` is not needed, and not exported.
    watcher = Watcher()
    Constrained().set_callbacks(watcher).fit([[0.0]])
    assert watcher.torn_down


def test_callbacks_attribute_holds_the_callbacks():
    estimator, watcher = Constrained(), Watcher()
    assert not hasattr(estimator, CALLBACKS_ATTRIBUTE)
    estimator.set_callbacks(watcher)
    assert getattr(estimator, CALLBACKS_ATTRIBUTE) == [watcher]


def test_all_is_complete_and_resolves():
    assert _compat.__all__ == sorted(_compat.__all__)
    public = {name for name in vars(_compat) if not name.startswith("_")}
    assert set(_compat.__all__) == public


@pytest.mark.full
def test_costs_nothing_beside_sklearn_cluster():
    # A count of modules, not of seconds: `_compat` loads nothing but itself.
    code = (
        "import sys, sklearn.cluster; before = set(sys.modules);"
        "import skdiffclust._compat; print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["skdiffclust", "skdiffclust._compat"]


def test_number_of_threads_follows_the_limits_of_others():
    assert effective_n_threads(1) == 1
    assert effective_n_threads(3) == 3
    with threadpool_limits(1):
        assert effective_n_threads() == effective_n_threads(None) == 1
