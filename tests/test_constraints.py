"""Constraints against their definition: closure, contradictions, feasibility."""

import itertools

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.model_selection import GridSearchCV

from skdiffclust._constraints import (
    Constraints,
    as_constraints,
    bounds_of_clusters,
    check_feasible,
    check_pairs,
    constraints_from_matrix,
    metadata_of,
)
from skdiffclust.metrics import links_to_incidence


def random_instance(rng):
    """Return n, labels (n,), must-link pairs and cannot-link pairs, at random."""
    n = rng.integers(2, 9)
    labels = np.where(rng.random(n) < 0.5, -1, rng.integers(0, 3, n))
    must = rng.integers(0, n, (rng.integers(0, 4), 2))
    cannot = rng.integers(0, n, (rng.integers(0, 4), 2))
    return n, labels, must, cannot[cannot[:, 0] != cannot[:, 1]]


def brute_force(n, labels, must, cannot):
    """Return "must share" and "must be separated" (n, n), by their definition."""
    together = np.eye(n, dtype=bool)
    apart = np.zeros((n, n), dtype=bool)
    for i, j in must:
        together[i, j] = together[j, i] = True
    for i, j in cannot:
        apart[i, j] = apart[j, i] = True
    for i, j in itertools.product(range(n), repeat=2):
        if labels[i] >= 0 and labels[j] >= 0:
            (together if labels[i] == labels[j] else apart)[i, j] = True
    for _ in range(n):
        together |= (together.astype(int) @ together) > 0
    apart = (together.astype(int) @ apart @ together) > 0
    return together, apart


def relations(constraints):
    """Return the same two relations, read from Constraints."""
    groups, classes, cannot = (
        constraints.groups,
        constraints.classes,
        {tuple(pair) for pair in constraints.cannot.tolist()},
    )
    n = len(groups)
    together = groups[:, None] == groups[None, :]
    apart = (classes[:, None] != classes) & (classes[:, None] >= 0) & (classes >= 0)
    for i, j in itertools.product(range(n), repeat=2):
        pair = tuple(sorted((int(groups[i]), int(groups[j]))))
        apart[i, j] |= pair in cannot
    return together, apart


@pytest.mark.parametrize("seed", range(10))
def test_closure_and_contradictions_by_definition(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    n_contradictions = 0
    for _ in range(40):
        n, labels, must, cannot = random_instance(rng)
        together, apart = brute_force(n, labels, must, cannot)
        if (together & apart).any():
            n_contradictions += 1
            with pytest.raises(ValueError, match="contradict each other: samples"):
                as_constraints(n, labels, must, cannot)
            continue
        constraints = as_constraints(n, labels, must, cannot)
        found_together, found_apart = relations(constraints)
        assert_array_equal(found_together, together)
        assert_array_equal(found_apart, apart)
    assert 0 < n_contradictions < 40


def test_ids_are_in_order_of_first_row():
    constraints = as_constraints(
        7,
        partial_labels=[-1, 30, -1, 10, -1, -1, 10],
        must_link=[[0, 3], [4, 5], [2, 2]],
        cannot_link=[[5, 2], [2, 4], [0, 1], [6, 2]],
    )
    # Row 0 is joined to class 10, which is therefore met first.
    assert_array_equal(constraints.groups, [0, 1, 2, 0, 3, 3, 0])
    assert_array_equal(constraints.classes, [0, 1, -1, 0, -1, -1, 0])
    # (0, 1) parts two classes and says nothing new; (2, 3) is given twice.
    assert_array_equal(constraints.cannot, [[0, 2], [2, 3]])
    assert (constraints.n_groups, constraints.n_classes) == (4, 2)
    for array in (constraints.groups, constraints.classes, constraints.cannot):
        assert array.dtype == np.int64


@pytest.mark.parametrize("seed", range(4))
def test_constraints_of_some_samples(seed, global_random_seed):
    rng = np.random.default_rng(seed + 1000 * global_random_seed)
    for _ in range(12):
        n, labels, must, cannot = random_instance(rng)
        try:
            whole = as_constraints(n, labels, must, cannot)
        except ValueError:
            continue
        rows = np.flatnonzero(rng.random(n) < 0.7)
        if not len(rows):
            continue
        part = as_constraints(len(rows), **metadata_of(whole, rows))
        for found, expected in zip(relations(part), relations(whole), strict=True):
            assert_array_equal(found, expected[np.ix_(rows, rows)])
        again = as_constraints(n, **metadata_of(whole, slice(None)))
        for name, expected in vars(whole).items():
            assert_array_equal(getattr(again, name), expected)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1, -1, 0], dtype=np.int8),
        np.array([0, 1, -1, 0], dtype=np.float16),
        np.array([0, 1, -1, 0], dtype=np.longdouble),
        np.array([0, 1, -1, 0], dtype=">i4"),
        np.array([0, 1, -1, 0], dtype=object),
        [0, 1.0, -1, 0],
        pd.Series([0, 1, -1, 0], index=[9, 8, 7, 6]),
        np.array([2**62, 2**62 - 1, -1, 2**62]),
    ],
)
def test_dtypes_of_partial_labels(labels):
    constraints = as_constraints(4, partial_labels=labels)
    assert_array_equal(constraints.classes, [0, 1, -1, 0])
    assert_array_equal(constraints.groups, [0, 1, 2, 0])


def test_labels_may_be_strings():
    names = np.array(["low", -1, "high", "low"], dtype=object)
    constraints = as_constraints(4, partial_labels=names)
    expected = as_constraints(4, partial_labels=[1, -1, 0, 1])
    assert_array_equal(constraints.classes, expected.classes)
    assert_array_equal(constraints.groups, expected.groups)
    for mark in (-1, "-1", None, np.nan, pd.NA):
        marked = ["low", mark, "high", "low"]
        for form in (np.array(marked, dtype=object), pd.Series(marked)):
            constraints = as_constraints(4, partial_labels=form)
            assert_array_equal(constraints.classes, expected.classes)
    # NumPy makes "-1" of the number in a list.
    for known in (["low", -1, "high", "low"], pd.Categorical(marked)):
        constraints = as_constraints(4, partial_labels=known)
        assert_array_equal(constraints.classes, expected.classes)
    constraints = as_constraints(2, partial_labels=np.array([None, 1]))
    assert_array_equal(constraints.classes, [-1, 0])


@pytest.mark.parametrize(
    "labels, message",
    [
        ([b"a", b"b"], "'partial_labels' .* of integers.* Got values of type .S1"),
        (np.array(["a", 1], dtype=object), "Got 1 among them instead"),
        (np.array([(0,), 1], dtype=object), "Got values of type tuple instead"),
        ([True, False], "Got values of type bool instead"),
        (np.array([True, 2], dtype=object), "Got values of type bool instead"),
        ([1j, 0], "Got values of type complex128"),
        (np.array([0, 1], dtype="datetime64[D]"), "Got values of type datetime64"),
        ([0.5, 1], "Got the value 0.5 instead"),
        ([np.nan, 1], "Got the value nan instead"),
        ([np.inf, 1], "Got the value inf instead"),
        (np.array([2**63, 0], dtype=np.uint64), "Got the value 9223372036854775808"),
        ([-2, 1], "Got the value -2 instead. Only -1 may be negative"),
        ([0, 1, 2], r"here of shape \(2,\). Got an array of shape \(3,\)"),
        ([[0], [1]], r"Got an array of shape \(2, 1\)"),
        ([[0, 1], [1]], "nested sequences of unequal length"),
        (np.ma.masked_equal([0, 1], 1), "Got a masked array instead"),
    ],
)
def test_partial_labels_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        as_constraints(2, partial_labels=labels)


def test_forms_of_must_link_agree():
    pairs = [[0, 3], [3, 4], [1, 2]]
    forms = [
        pairs,
        np.array(pairs, dtype=float),
        pd.DataFrame(pairs),
        np.array([5, 2, 2, 5, 5, -1]),
        links_to_incidence(pairs, 6),
        sparse.csc_matrix(links_to_incidence(pairs, 6)),
        sparse.coo_array(links_to_incidence(pairs, 6).astype(bool)),
    ]
    for form in forms:
        constraints = as_constraints(6, must_link=form)
        assert_array_equal(constraints.groups, [0, 1, 1, 0, 0, 2])
        assert_array_equal(constraints.classes, np.full(6, -1))


def test_forms_of_cannot_link_agree():
    pairs = [[4, 0], [1, 2], [0, 4]]
    for form in [pairs, links_to_incidence(pairs, 5)]:
        constraints = as_constraints(5, cannot_link=form)
        assert_array_equal(constraints.cannot, [[0, 4], [1, 2]])


def test_incidence_columns_that_lost_an_end_are_dropped():
    pairs = np.array([[0, 1], [1, 2], [3, 4], [0, 4]])
    incidence = links_to_incidence(pairs, 5)
    kept = np.array([0, 1, 4])
    constraints = as_constraints(3, must_link=incidence[kept])
    assert_array_equal(constraints.groups, [0, 0, 0])
    constraints = as_constraints(3, cannot_link=incidence[kept])
    assert_array_equal(constraints.cannot, [[0, 1], [0, 2]])


@pytest.mark.parametrize("name", ["must_link", "cannot_link"])
@pytest.mark.parametrize(
    "links, message",
    [
        ([[0, 3]], "samples. Got the index 3 instead. .*links_to_incidence"),
        ([[0, 3]], "group ids"),
        ([[0, -1]], "from 0 to 2. Got the index -1 instead. Negative indices"),
        ([[0.5, 1]], "Got the value 0.5"),
        ([["a", "b"]], "Got values of type <U1"),
        ([[True, False]], "Got values of type bool"),
        ([[0, 1, 2]], r"shape \(1, 3\) instead. .*incidence matrix must be .* sparse"),
        (np.zeros((3, 1, 2)), r"Got an array of shape \(3, 1, 2\)"),
        ([[0, 1], [2]], "nested sequences of unequal length"),
        (np.ma.masked_equal([[0, 1]], 1), "Got a masked array"),
        (sparse.csr_array(np.ones((2, 1))), r"with 3 samples. Got the shape \(2, 1\)"),
        (sparse.csr_array(np.ones((3, 2))), "two non-zeros .* Got 3 in column 0"),
    ],
)
def test_links_refused(name, links, message):
    with pytest.raises(ValueError, match=message) as error:
        as_constraints(3, **{name: links})
    assert str(error.value).startswith(f"The '{name}' parameter of fit")


@pytest.mark.parametrize(
    "ids, message",
    [
        ([0, 0], r"here of shape \(3,\). Got an array of shape \(2,\)"),
        ([0, -2, 0], "Got the value -2 instead. Only -1 may be negative"),
    ],
)
def test_group_ids_refused(ids, message):
    with pytest.raises(ValueError, match=message):
        as_constraints(3, must_link=ids)


def test_cannot_link_is_never_one_dimensional():
    with pytest.raises(ValueError, match=r"'cannot_link' .*\(3,\) instead. A single"):
        as_constraints(3, cannot_link=[0, 1, 1])


@pytest.mark.parametrize(
    "given, message",
    [
        (
            {"partial_labels": [7, -1, 9], "must_link": [[0, 1], [1, 2]]},
            "the partial labels 7 and 9, but are connected by must-links",
        ),
        (
            {"must_link": [[0, 1], [1, 2]], "cannot_link": [[0, 2]]},
            "samples 0 and 2 must not be linked, but must-links join them",
        ),
        (
            {"partial_labels": [3, -1, 3], "cannot_link": [[2, 0]]},
            "samples 2 and 0 must not be linked, but partial labels.* in one class",
        ),
        (
            {
                "partial_labels": [3, -1, 3],
                "must_link": [[0, 1]],
                "cannot_link": [[1, 2]],
            },
            "samples 1 and 2 must not be linked, but partial labels.* in one class",
        ),
    ],
)
def test_contradictions_name_the_pair(given, message):
    with pytest.raises(ValueError, match=message):
        as_constraints(3, **given)


def test_the_named_pair_is_truly_contradictory():
    labels = [0, 1, -1, 1, 0, 1]
    with pytest.raises(ValueError, match="samples 3 and 4 have .* 1 and 0") as error:
        as_constraints(6, labels, must_link=[[3, 2], [2, 4]])
    assert "Remove one of these links" in str(error.value)


def test_check_pairs_serves_other_callers():
    with pytest.raises(ValueError, match="^The 'edges' parameter of f must be pairs"):
        check_pairs([0], 2, "The 'edges' parameter of f", "pairs")


# ------------------------------------------------------------------ matrices


def matrix_of(n, must, cannot):
    """Return the (n, n) matrix with +1 and -1, on one side of the diagonal only."""
    matrix = np.zeros((n, n), dtype=np.int8)
    for i, j in must:
        matrix[i, j] = 1
    for i, j in cannot:
        matrix[i, j] = -1
    return matrix


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.coo_matrix])
@pytest.mark.parametrize("symmetric", [False, True])
def test_matrix_says_what_pairs_say(container, symmetric):
    must, cannot = [[0, 1], [4, 1]], [[2, 0], [2, 3], [3, 5]]
    matrix = matrix_of(6, must, cannot)
    if symmetric:
        matrix = matrix + matrix.T + np.eye(6, dtype=np.int8)
    found = constraints_from_matrix(container(matrix), 6)
    expected = as_constraints(6, must_link=must, cannot_link=cannot)
    assert_array_equal(found.groups, expected.groups)
    assert_array_equal(found.classes, expected.classes)
    assert_array_equal(found.cannot, expected.cannot)


@pytest.mark.parametrize(
    "labels", [[0, 1, 0, 2, -1], [-1, 5, 5, 2, -1], [1, 1, 0, 0, 1]]
)
def test_matrix_of_partial_labels_is_partial_labels(labels):
    labels = np.array(labels)
    known = (labels[:, None] >= 0) & (labels >= 0)
    matrix = np.where(known, np.where(labels[:, None] == labels, 1, -1), 0)
    from_matrix = constraints_from_matrix(matrix, 5)
    from_labels = constraints_from_matrix(labels, 5)
    for name in ("groups", "classes", "cannot"):
        assert_array_equal(getattr(from_matrix, name), getattr(from_labels, name))
    assert_array_equal(from_labels.classes, as_constraints(5, labels).classes)


def test_matrix_that_is_no_clique_keeps_its_pairs():
    # A path of three groups: the ends may share a cluster, so these are no classes.
    found = constraints_from_matrix(matrix_of(3, [], [[0, 1], [1, 2]]), 3)
    assert_array_equal(found.classes, [-1, -1, -1])
    assert_array_equal(found.cannot, [[0, 1], [1, 2]])


@pytest.mark.parametrize("seed", range(5))
def test_matrix_by_definition(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    n_closed = 0
    for _ in range(40):
        n, _, must, cannot = random_instance(rng)
        together, apart = brute_force(n, np.full(n, -1), must, cannot)
        if (together & apart).any():
            continue
        n_closed += 1
        found = constraints_from_matrix(matrix_of(n, must, cannot), n)
        assert_array_equal(relations(found)[0], together)
        assert_array_equal(relations(found)[1], apart)
    assert n_closed > 10


@pytest.mark.parametrize(
    "constraints, message",
    [
        ([0, 1], r"'constraints' .* Got an array of shape \(2,\)"),
        (np.zeros((3, 2)), r"Got an array of shape \(3, 2\)"),
        (sparse.csr_array((2, 2)), r"Got an array of shape \(2, 2\)"),
        (1, r"Got an array of shape \(\)"),
        (np.eye(3, dtype=bool), "Got values of type bool"),
        (np.full((3, 3), "a"), "Got values of type <U1"),
        (2 * np.eye(3), "Got the entry 2.0"),
        (np.full((3, 3), np.nan), "Got the entry nan"),
        (sparse.coo_array(([1, 1], ([0, 0], [1, 1])), shape=(3, 3)), "the entry 2"),
        (
            -np.eye(3),
            "'constraints' .* two different samples in a pair. Got sample 0 twice",
        ),
        (matrix_of(3, [[0, 1]], [[1, 0]]), "samples 1 and 0 must not be linked"),
        (
            matrix_of(3, [[0, 1], [1, 2]], [[0, 2]]),
            "samples 0 and 2 .* must-links join",
        ),
        ([[0, 1], [1]], "nested sequences of unequal length"),
        (np.ma.masked_equal([0, 1, 2], 1), "Got a masked array"),
        ([0, 1, -2], "Got the value -2"),
    ],
)
def test_matrix_refused(constraints, message):
    with pytest.raises(ValueError, match=message):
        constraints_from_matrix(constraints, 3)


# ------------------------------------------------------------------ feasibility


def possible_numbers_of_clusters(constraints):
    """Return every number of non-empty clusters that meets them, by enumeration."""
    together, apart = relations(constraints)
    possible = set()
    for labels in itertools.product(range(len(together)), repeat=len(together)):
        labels = np.array(labels)
        same = labels[:, None] == labels
        if same[together].all() and not same[apart].any():
            possible.add(len(np.unique(labels)))
    return possible


def is_refused(constraints, n_clusters):
    try:
        check_feasible(constraints, n_clusters)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize("seed", range(4))
def test_feasibility_by_enumeration(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    for _ in range(12):
        n = 5
        cannot = np.array(
            [p for p in itertools.combinations(range(n), 2) if rng.random() < 0.5]
        ).reshape(-1, 2)
        labels = np.where(rng.random(n) < 0.3, rng.integers(0, 2, n), -1)
        try:
            constraints = as_constraints(n, labels, cannot_link=cannot)
        except ValueError:
            continue
        possible = possible_numbers_of_clusters(constraints)
        least, most = bounds_of_clusters(constraints)
        accepted = [k for k in range(1, n + 2) if not is_refused(constraints, k)]
        assert accepted == list(range(least, most + 1))
        for n_clusters in range(1, n + 1):
            if is_refused(constraints, n_clusters):
                assert n_clusters not in possible
            # What is decided exactly is refused exactly.
            elif n_clusters <= 2 or not len(constraints.cannot):
                assert n_clusters in possible


def test_feasible_numbers_of_partial_labels():
    # As many clusters as classes, up to one more for every unlabelled row.
    constraints = as_constraints(7, partial_labels=[0, 0, 1, 1, 2, -1, -1])
    accepted = [k for k in range(1, 9) if not is_refused(constraints, k)]
    assert accepted == [3, 4, 5]


@pytest.mark.parametrize(
    "given, n_clusters, message",
    [
        (
            {"partial_labels": [0, 1, 2, -1, -1]},
            2,
            "at least 3, the number of classes .* Got 2 instead. Use more",
        ),
        (
            {"must_link": [[0, 1], [2, 3]]},
            4,
            "at most 3, the number of groups .* Got 4 instead. Use fewer",
        ),
        (
            {"cannot_link": [[0, 1], [0, 2], [1, 2], [3, 4]]},
            2,
            r"at least 3, because 3 groups.* \(among them samples 0, 1, 2\). Got 2",
        ),
        (
            {"partial_labels": [0, 1, -1, -1, -1], "cannot_link": [[2, 0], [2, 1]]},
            2,
            r"at least 3, because 3 groups .*Got 2 instead. Use more",
        ),
        (
            {"cannot_link": [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]]},
            2,
            "at least 3: the cannot-links around sample 0 form a cycle of odd length",
        ),
        (
            # Two of three classes, and two rows that part from both and each other.
            {
                "partial_labels": [0, 1, 2, -1, -1],
                "cannot_link": [[3, 0], [3, 1], [4, 0], [4, 1], [3, 4]],
            },
            3,
            "at least 4, because 4 groups",
        ),
        (
            # The cycle is closed by the two classes.
            {
                "partial_labels": [0, 1, -1, -1, -1],
                "cannot_link": [[0, 2], [2, 3], [3, 4], [4, 1]],
            },
            2,
            "at least 3: the cannot-links around sample 0 form a cycle of odd length",
        ),
    ],
)
def test_infeasible_numbers_are_named(given, n_clusters, message):
    with pytest.raises(ValueError, match=message):
        check_feasible(as_constraints(5, **given), n_clusters)


def test_even_cycle_is_feasible_with_two():
    cycle = [[0, 1], [1, 2], [2, 3], [3, 0]]
    check_feasible(as_constraints(4, cannot_link=cycle), 2)


# ------------------------------------------------------------------ searches


class RecordLinks(ClusterMixin, BaseEstimator):
    """Keep the constraints that a fit was given; the only feature is the row's id."""

    def __init__(self, parameter=0):
        self.parameter = parameter

    def fit(self, X, y=None, *, must_link=None, partial_labels=None):
        self.rows_ = X[:, 0].astype(int)
        self.constraints_ = as_constraints(len(X), partial_labels, must_link)
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=np.int64)


def record(estimator, X, y=None):
    """Score a fold by whether each group is what the links say of its rows."""
    ids = estimator.rows_ // 3
    same = ids[:, None] == ids
    groups = estimator.constraints_.groups
    return float((same == (groups[:, None] == groups)).all())


@pytest.mark.parametrize("form", ["incidence", "group ids", "partial labels"])
def test_links_follow_rows_through_a_search(form):
    # Rows 3i, 3i + 1 and 3i + 2 belong together; every pair of them is a link.
    n = 30
    X = np.arange(n, dtype=float)[:, None]
    pairs = [p for p in itertools.combinations(range(n), 2) if p[0] // 3 == p[1] // 3]
    params = {
        "incidence": {"must_link": links_to_incidence(pairs, n)},
        "group ids": {"must_link": np.arange(n) // 3},
        "partial labels": {"partial_labels": np.arange(n) // 3},
    }[form]
    search = GridSearchCV(RecordLinks(), {"parameter": [0, 1]}, scoring=record)
    search.fit(X, **params)
    assert_array_equal(search.cv_results_["mean_test_score"], [1.0, 1.0])
    assert search.best_estimator_.constraints_.n_groups == 10


def test_pairs_are_refused_in_a_search():
    X = np.arange(30.0)[:, None]
    search = GridSearchCV(
        RecordLinks(), {"parameter": [0]}, scoring=record, error_score="raise"
    )
    with pytest.raises(ValueError, match="Got the index 29 instead.*cross-validation"):
        search.fit(X, must_link=[[0, 29], [1, 2]])


def test_large_inputs_stay_linear():
    # Two classes of 200 000 rows imply 10^10 pairs; nothing of that size is made.
    n = 400_000
    constraints = as_constraints(n, partial_labels=np.arange(n) % 2)
    assert isinstance(constraints, Constraints)
    assert constraints.cannot.shape == (0, 2)
    assert constraints.n_groups == constraints.n_classes == 2
