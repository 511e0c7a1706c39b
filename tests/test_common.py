"""scikit-learn's own checks on every estimator, and the count of those that ran."""

import re
from pathlib import Path
from typing import NamedTuple
from unittest import SkipTest

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import (
    check_estimator,
    estimator_checks_generator,
    parametrize_with_checks,
)

from skdiffclust import (
    GEMINI,
    AssociativeImputer,
    ClAM,
    DeepClAM,
    GraphCutClustering,
    PRCut,
    SpanningForestClustering,
    SpanningForestEmbedding,
    SparseGEMINI,
    SparseGEMINICV,
    _validation,
)

# The kernels of the first one compile while those of the last one compile in another
# process: two processes that need the same ones at the same time both compile them.
ESTIMATORS = [
    SpanningForestEmbedding(max_iter=5),
    AssociativeImputer(),
    ClAM(),
    GEMINI(),
    SpanningForestClustering(),
    SparseGEMINI(),
    GraphCutClustering(),
]
# Their checks take minutes. The first fits many SparseGEMINI, others train a network.
SLOW = [
    SparseGEMINICV(SparseGEMINI(n_init=1, max_iter=20), n_alphas=2, n_resamples=2),
    DeepClAM(max_iter=5),
    PRCut(hidden_layer_sizes=8),
]


class Failure(NamedTuple):
    """A check of scikit-learn that cannot be passed: what it raises, and why."""

    error: type
    match: str
    reason: str


_UNEQUAL = r"(?s)fitting with `sample_weight` is not\s+equivalent"
# It reads the `classifier_tags` of every estimator with predict_proba that takes sparse
# X, which a clusterer does not have; a test of ours checks the rest.
_PROBABILITIES = Failure(
    AttributeError,
    "no attribute 'multi_class'",
    "reads classifier_tags, which a clusterer with predict_proba lacks",
)
_SPARSE_CHECKS = dict.fromkeys(
    ["check_estimator_sparse_array", "check_estimator_sparse_matrix"], _PROBABILITIES
)


def _unequal_weights(reason):
    """Return the failures of the checks of weights."""
    checks = "dense_data", "sparse_data"
    return {
        f"check_sample_weight_equivalence_on_{data}": Failure(
            AssertionError, _UNEQUAL, reason
        )
        for data in checks
    }


_NEIGHBOURS = _unequal_weights(
    "weights are sizes that divide the cut; a repeated sample is a neighbour more, and "
    "changes the graph"
)
# Estimator name -> {check: Failure}. Only what a clusterer cannot pass, or what
# scikit-learn's own KMeans fails too.
EXPECTED_FAILURES = {
    # Without training the partition is the same (`test_weights_are_repetitions`).
    "ClAM": _SPARSE_CHECKS | _unequal_weights("batches and masks are drawn by sample"),
    "DeepClAM": _SPARSE_CHECKS
    | _unequal_weights("batches and masks are drawn by sample"),
    "GEMINI": _SPARSE_CHECKS,
    # On one graph they are equal:
    # `cuts/test_graph_cut.py::test_on_one_graph_a_weight_of_two_is_a_repetition`.
    "GraphCutClustering": _NEIGHBOURS,
    "PRCut": _SPARSE_CHECKS | _NEIGHBOURS,
    "SparseGEMINI": _SPARSE_CHECKS,
    "SparseGEMINICV": _SPARSE_CHECKS
    | _unequal_weights("a sample and its repetition may be in different subsets"),
}

# Checks that fail in addition if every X becomes float32.
_DTYPE = {"check_transformer_preserve_dtypes": "it asks for float64 as well"}
_ROUNDING = {
    "check_sample_weight_equivalence_on_dense_data": "equal within 1e-7, below rounding"
}
FLOAT32_FAILED_CHECKS = {
    "ClAM": _DTYPE,
    "DeepClAM": _DTYPE,
    "GEMINI": _ROUNDING,
    "PRCut": _DTYPE,
    "SparseGEMINI": _ROUNDING,
    "SpanningForestEmbedding": _DTYPE,
}

# Estimator name -> (checks passed, expected failures, of both in float32), as it is
# written in doc/reliability.rst: the least number that scikit-learn 1.9 runs.
PAGE = Path(__file__).parents[1] / "doc" / "reliability.rst"
N_CHECKS = {
    name: tuple(int(count) for count in counts.split(", "))
    for name, counts in re.findall(
        r"^   (\w+), (\d+, \d+, \d+, \d+)$", PAGE.read_text(encoding="utf-8"), re.M
    )
}

# The checks that may skip themselves -> reason.
SKIPPED_CHECKS = {
    "check_array_api_input": "runs only where SCIPY_ARRAY_API=1 is in the environment"
}


def expected_failures(estimator):
    """Return {check: Failure} of an estimator."""
    expected = EXPECTED_FAILURES.get(type(estimator).__name__, {})
    if not estimator.__sklearn_tags__().input_tags.sparse:
        expected = {name: why for name, why in expected.items() if "sparse" not in name}
    return expected


def run_check(estimator, check):
    """Run a check, which must raise the expected error if there is one."""
    name = check.func.__name__
    failure = expected_failures(estimator).get(name)
    if failure is None:
        try:
            check(estimator)
        except SkipTest:
            assert name in SKIPPED_CHECKS
            raise
        return
    with pytest.raises(failure.error, match=failure.match):
        try:
            check(estimator)
        except AssertionError as error:
            # Some checks hide the error that they meet behind one of their own.
            raise error.__cause__ or error from None


# Some checks ask for more clusters than there are distinct rows, or learn eight from a
# few tens of rows with a seed of their own; ClAM and the cuts say so. Others ask for
# one cluster, which no feature makes, or for one where a target has three classes.
few_rows = pytest.mark.filterwarnings(
    r"ignore:\w+ found .* clusters:sklearn.exceptions.ConvergenceWarning",
    "ignore:No features were selected:UserWarning",
    "ignore:SpanningForestEmbedding was asked for .* clusters, fewer than the classes",
)


@few_rows
@pytest.mark.few_epochs
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    run_check(estimator, check)


@few_rows
@pytest.mark.few_epochs
@pytest.mark.full
@parametrize_with_checks(SLOW)
def test_scikit_learn_check_of_the_slow(estimator, check):
    run_check(estimator, check)


@few_rows
@pytest.mark.few_epochs
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows_have_clusters_and_shares(container):
    # The two checks above that are expected to fail, but for the number of classes.
    estimators = [
        estimator
        for estimator in ESTIMATORS + SLOW
        if hasattr(estimator, "predict_proba")
        and estimator.__sklearn_tags__().input_tags.sparse
    ]
    assert estimators
    X = np.random.RandomState(0).uniform(size=(40, 3))
    X[X < 0.6] = 0
    for estimator in estimators:
        name = type(estimator).__name__
        assert _PROBABILITIES in EXPECTED_FAILURES[name].values()
        model = clone(estimator).fit(container(X))
        for form in ("csr", "csc", "coo", "lil", "dok", "dia", "bsr"):
            rows = container(X).asformat(form)
            shares = model.predict_proba(rows)
            assert model.predict(rows).shape == (40,)
            assert len(shares) == 40
            assert shares.shape[1] >= model.n_clusters_
            np.testing.assert_allclose(shares.sum(axis=1), 1)


@pytest.mark.parametrize("estimator", ESTIMATORS + SLOW, ids=lambda e: type(e).__name__)
def test_number_of_checks(estimator):
    # Counted without running: `test_scikit_learn_check` runs each of them once.
    expected = expected_failures(estimator)
    names = [check.func.__name__ for _, check in estimator_checks_generator(estimator)]
    assert set(expected) <= set(names)
    n_run = sum(name not in {*expected, *SKIPPED_CHECKS} for name in names)
    n_passed, n_expected, *_ = N_CHECKS[type(estimator).__name__]
    assert n_run >= n_passed
    assert len(expected) <= n_expected


def count_checks(estimator, expected):
    """Run all checks; return how many passed. Those expected to fail must do so."""
    results = check_estimator(
        estimator, expected_failed_checks=expected, on_skip=None, on_fail=None
    )
    by_status = {"passed": [], "failed": [], "skipped": [], "xfail": []}
    for result in results:
        by_status[result["status"]].append(result["check_name"])
    assert by_status["failed"] == []
    assert set(by_status["skipped"]) <= set(SKIPPED_CHECKS)
    assert set(by_status["xfail"]) == set(expected)
    return len(by_status["passed"])


@few_rows
@pytest.mark.few_epochs
@pytest.mark.long
@pytest.mark.parametrize("estimator", ESTIMATORS + SLOW, ids=lambda e: type(e).__name__)
def test_number_of_checks_in_float32(estimator, monkeypatch):
    validate_data = _validation.validate_data

    def in_float32(*args, **kwargs):
        return validate_data(*args, **kwargs | {"dtype": np.float32})

    monkeypatch.setattr(_validation, "validate_data", in_float32)
    name = type(estimator).__name__
    expected = {
        check: failure.reason for check, failure in expected_failures(estimator).items()
    }
    expected |= FLOAT32_FAILED_CHECKS.get(name, {})
    *_, n_passed, n_expected = N_CHECKS[name]
    assert count_checks(estimator, expected) >= n_passed
    assert len(expected) <= n_expected
