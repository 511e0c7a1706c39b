"""Features in pairs: a covering array of strength two for every estimator.

Each case is a fit to 40 samples with few iterations. Its result agrees with that of
the plainest form of the same fit (a dense array of float64, repetitions in place of
weights, no checkpoint), or it is refused with the message that the table states.
"""

import random
import warnings
from itertools import combinations

import numpy as np
import pytest
from crossings_table import CROSSED, DENSE, KNOWN, LINKS, SPARSE
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.validation import has_fit_parameter

from skdiffclust import PRCut

SHARE = 10  # one of this many cases is in the default selection
SIZES = 16, 13, 11
ORDER = np.random.RandomState(0).permutation(sum(SIZES))
GROUPS = np.repeat([0, 1, 2], SIZES)[ORDER]
# Pairs of samples: in the same group, and in different ones.
TOGETHER = np.array([np.flatnonzero(GROUPS == group)[:2] for group in range(3)])
APART = np.array([[TOGETHER[0, 0], TOGETHER[1, 1]], [TOGETHER[1, 0], TOGETHER[2, 1]]])
# Rarely, and only for samples without a link.
ZEROS = [np.flatnonzero(GROUPS == group)[-1] for group in range(2)]


def make_samples(scale):
    """Return three groups of non-negative samples (40, 5), some entries zero.

    Multiples of `scale` / 64, which float32 holds, and an integer if `scale` is 64.
    """
    rng = np.random.RandomState(0)
    X = rng.randint(1, 128, size=(len(GROUPS), 5)) * (scale / 64)
    X[:, 2:] *= rng.uniform(size=(len(GROUPS), 3)) < 0.6
    X[:, :3] += 12 * scale * np.eye(3)[GROUPS]
    return X


def factors_of(crossed):
    """Return {factor: levels} of an estimator: its parameters and what fit may get."""
    estimator = crossed.estimator
    containers = DENSE
    if estimator.__sklearn_tags__().input_tags.sparse:
        containers = DENSE + SPARSE
    factors = {
        "fitted on": containers,
        "asked about": containers,
        "type": ("float64", "float32", "int64"),
        "read-only": (False, True),
    }
    if has_fit_parameter(estimator, "sample_weight"):
        factors["weights"] = None, "counts", "with zeros"
    if has_fit_parameter(estimator, "must_link"):
        factors["labels"] = None, *KNOWN
        factors["links"] = None, *LINKS
    if has_fit_parameter(estimator, "checkpoint"):
        factors["checkpoint"] = None, "written", "resumed"
    return factors | crossed.levels


def covering_array(factors, refused, rng):
    """Return cases {factor: level} in which all pairs occur that may.

    Greedy: a case begins with a pair that is missing, and each further factor gets the
    level that adds most pairs.
    """

    def is_allowed(case):
        return not any(levels.items() <= case.items() for levels in refused)

    missing = {
        frozenset([(one, a), (other, b)])
        for one, other in combinations(factors, 2)
        for a in factors[one]
        for b in factors[other]
        if is_allowed({one: a, other: b})
    }
    order = {pair: repr(sorted_items(pair)) for pair in missing}
    cases = []
    while missing:
        begun = dict(sorted_items(rng.choice(sorted(missing, key=order.get))))
        case = complete(begun, factors, is_allowed, missing, rng)
        missing.difference_update(map(frozenset, combinations(case.items(), 2)))
        cases.append(case)
    return cases


def sorted_items(pair):
    """Return the two (factor, level) of a pair in a fixed order."""
    return sorted(pair, key=repr)


def complete(begun, factors, is_allowed, missing, rng):
    """Return a case that contains a pair, and as many missing ones as it can."""
    for _ in range(100):
        case = dict(begun)
        for name in rng.sample(list(factors), len(factors)):
            if name in case:
                continue
            gains = {
                level: sum(
                    frozenset([(name, level), item]) in missing for item in case.items()
                )
                for level in factors[name]
                if is_allowed({**case, name: level})
            }
            if not gains:
                break
            most = max(gains.values())
            case[name] = rng.choice([v for v, gain in gains.items() if gain == most])
        else:
            return case
    raise ValueError(f"No case that is not refused contains {begun}.")


def contain(X, form, dtype, is_read_only, folder):
    """Return samples in a container."""
    X = X.astype(dtype)
    if form == "list":
        return X.tolist()
    if form == "memory map":
        path = folder / f"samples-{len(list(folder.iterdir()))}"
        np.save(path, X)
        return np.load(f"{path}.npy", mmap_mode="r")
    if form in SPARSE:
        name, _, index = form.partition(" ")
        rows = getattr(sparse, name)(X)
        if index:
            rows.indices = rows.indices.astype(np.int64)
            rows.indptr = rows.indptr.astype(np.int64)
        parts = (
            ("data", "row", "col") if "coo" in form else ("data", "indices", "indptr")
        )
        for part in parts if is_read_only else ():
            getattr(rows, part).setflags(write=False)
        return rows
    X = np.asfortranarray(X) if form == "Fortran" else X
    X.setflags(write=not is_read_only)
    if form == "frame":
        pandas = pytest.importorskip("pandas")
        return pandas.DataFrame(X, columns=list("abcde"), copy=False)
    return X


def known_of(case):
    """Return what `fit` learns of the samples: (labels, keywords, weights)."""
    labels = None
    if case.get("labels"):
        is_known = case["labels"] == "all" or np.arange(len(GROUPS)) % 3
        labels = np.where(is_known, GROUPS, -1)
    if case.get("labels") == "strings":
        labels = np.where(
            labels < 0, -1, np.array(["one", "b", "third"], object)[labels]
        )
    links = {}
    groups = np.full(len(GROUPS), -1)
    groups[TOGETHER] = np.arange(3)[:, None]
    incidence = sparse.csc_array(
        (np.ones(6), (TOGETHER.ravel(), np.repeat([0, 1, 2], 2))), (len(GROUPS), 3)
    )
    level = case.get("links")
    if level:
        forms = {"must pairs": TOGETHER, "must groups": groups, "both": TOGETHER}
        forms["must incidence"] = incidence
        if level in forms:
            links["must_link"] = forms[level]
        if level in ("cannot pairs", "both"):
            links["cannot_link"] = APART
    weights = None
    if case.get("weights"):
        weights = 1 + np.arange(len(GROUPS)) % 2
        if case["weights"] == "with zeros":
            weights[ZEROS] = 0
    return labels, links, weights


def fit(estimator, X, labels, links, weights, **more):
    """Fit a clone. An embedding gets the labels as y."""
    given = {**links, **more}
    if weights is not None:
        given["sample_weight"] = weights
    if labels is not None and has_fit_parameter(estimator, "partial_labels"):
        given["partial_labels"] = labels
        labels = None
    return clone(estimator).fit(X, labels, **given)


def repeat(X, labels, links, weights):
    """Return the same with samples repeated by their weights; links by their first."""
    first = np.cumsum(weights) - weights
    labels = None if labels is None else np.repeat(labels, weights)
    repeated = {}
    for name, value in links.items():
        if sparse.issparse(value):
            shape = (weights.sum(), value.shape[1])
            entries = value.tocoo()
            value = sparse.csc_array(
                (entries.data, (first[entries.row], entries.col)), shape
            )
        elif value.ndim == 1:
            value = np.repeat(value, weights)
        else:
            value = first[value]
        repeated[name] = value
    return np.repeat(X, weights, axis=0), labels, repeated


def plain_answer(estimator, X, known, repeats):
    """Return labels or the output from the plainest form of a fit."""
    labels, links, weights = known
    kept = np.arange(len(X))
    if weights is not None and repeats:
        kept = np.flatnonzero(weights)
        first = (np.cumsum(weights) - weights)[kept]
        X, labels, links = repeat(X, labels, links, weights)
        model = fit(estimator, X, labels, links, None)
    else:
        first = kept
        model = fit(estimator, X, labels, links, weights)
    answer = model.labels_ if hasattr(model, "labels_") else model.transform(X)
    return kept, answer[first]


def run_case(name, case, folder):
    """Fit and ask; compare with the plain form."""
    crossed = CROSSED[name]
    parameters = crossed.estimator.get_params()
    estimator = clone(crossed.estimator).set_params(
        **{key: value for key, value in case.items() if key in parameters}
    )
    if "random_state" in parameters:
        estimator.set_params(random_state=0)
    if case.get("model") == "mlp":
        # After few short steps, rounding decides where a perceptron is. Ten epochs at a
        # penalty would be repeated until it is solved, which takes seconds.
        estimator.set_params(max_iter=9, learning_rate=0.1)
    X = make_samples(64 if case["type"] == "int64" else 1)
    if name == "AssociativeImputer":
        X[::7, 1] = estimator.missing_values
    known = known_of(case)
    fitted_on, asked_about = (
        contain(X, case[form], case["type"], case["read-only"], folder)
        for form in ("fitted on", "asked about")
    )
    steps = {None: [], "written": [False], "resumed": [False, True]}
    runs = [
        {"checkpoint": folder / "steps", "resume": resume}
        for resume in steps[case.get("checkpoint")]
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", ".*separates .* joins", ConvergenceWarning)
        for run in runs or [{}]:
            model = fit(estimator, fitted_on, *known, **run)
    # Where links are penalties, a link that is not satisfied is reported.
    are_met = crossed.links_are_met or not caught
    # Which samples share a batch is drawn by sample, and min_samples counts samples,
    # whatever their weights.
    by_sample = case.get("batch_size") or case.get("min_samples")
    repeats = crossed.repeats and not by_sample
    kept, expected = plain_answer(estimator, X, known, repeats)
    if hasattr(model, "labels_"):
        assert_labels_fit(model, X, asked_about, known, are_met)
        assert adjusted_rand_score(expected, model.labels_[kept]) == 1
    else:
        found = np.asarray(model.transform(asked_about))[kept]
        # In another type or scale, rounding may decide which edge is in a forest.
        rounding = 1e-6 if case["type"] == "float64" else 0.15
        assert_allclose(found, expected, atol=rounding * np.abs(expected).max())


def assert_labels_fit(model, X, asked_about, known, are_met):
    """Compare the labels with predictions, shares, scores, labels and links."""
    given, links, _ = known
    labels = model.labels_
    assert labels.dtype == np.int64
    assert labels.min() >= -1
    assert labels.max() == model.n_clusters_ - 1
    # A link may move the samples that it names away from their prediction.
    is_free = np.ones(len(labels), dtype=bool)
    is_free[np.r_[TOGETHER.ravel(), APART.ravel()]] = not links
    if isinstance(model, PRCut) and given is not None:
        # So may a given label: its samples share a cluster that has no other class.
        is_free &= given == -1
        is_given = given != -1
        names = given[is_given].astype(str)
        assert adjusted_rand_score(names, labels[is_given]) == 1
    if hasattr(model, "predict"):
        assert_array_equal(model.predict(asked_about)[is_free], labels[is_free])
    if hasattr(model, "predict_proba"):
        shares = model.predict_proba(asked_about)
        assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
        assert_array_equal(shares.argmax(axis=1)[is_free], labels[is_free])
    if hasattr(model, "score"):
        assert model.score(asked_about) == pytest.approx(model.score(X), rel=1e-4)
    if "must_link" in links and are_met:
        assert_array_equal(*labels[TOGETHER].T)
    if "cannot_link" in links and are_met:
        assert np.all(labels[APART[:, 0]] != labels[APART[:, 1]])


def cases_of(name):
    """Return the cases of an estimator."""
    crossed = CROSSED[name]
    refused = [levels for levels, _ in crossed.refused]
    return covering_array(factors_of(crossed), refused, random.Random(0))


def parametrized():
    """Return all cases; all but a drawn share of them have the marker full."""
    rng = random.Random(1)
    for name in CROSSED:
        for number, case in enumerate(cases_of(name)):
            marks = [] if rng.randrange(SHARE) == 0 else [pytest.mark.full]
            yield pytest.param(name, case, id=f"{name}-{number}", marks=marks)


@pytest.fixture
def quiet():
    """Ignore what few iterations on few samples cause; all else is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "X (does not have|has feature names)")
        warnings.filterwarnings("ignore", "The graph of .* has .* parts")
        warnings.filterwarnings("ignore", ".* sees no clear number of clusters")
        yield


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name, case", list(parametrized()))
def test_two_features_work_together(name, case, tmp_path):
    run_case(name, case, tmp_path)


def refusals():
    """Return each refusal of the table of which the estimator has all levels."""
    for name, crossed in CROSSED.items():
        factors = factors_of(crossed)
        for number, (levels, _) in enumerate(crossed.refused):
            if all(level in factors.get(key, ()) for key, level in levels.items()):
                yield pytest.param(name, number, id=f"{name}-{number}")


@pytest.mark.full
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name, number", list(refusals()))
def test_what_does_not_go_together_is_refused(name, number, tmp_path):
    crossed = CROSSED[name]
    levels, message = crossed.refused[number]
    factors = factors_of(crossed)
    others = [refused for refused, _ in crossed.refused if refused != levels]

    def is_allowed(case):
        return not any(refused.items() <= case.items() for refused in others)

    try:
        case = complete(levels, factors, is_allowed, set(), random.Random(number))
    except ValueError:  # whatever goes with them is refused as well
        case = {factor: values[0] for factor, values in factors.items()} | levels
    with pytest.raises((ValueError, TypeError), match=message):
        run_case(name, case, tmp_path)
