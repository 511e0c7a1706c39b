"""Partial labels and links between samples, as one closed set of constraints.

Equal partial labels and must-links join samples into *groups*; different partial labels
and cannot-links separate groups. All of it is closed transitively here, once, and
contradictions are refused, so that the methods only see the result.
"""

import numbers
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from skdiffclust._validation import canonical_rows, refuse_indices

_NO_PAIRS = np.empty((0, 2), dtype=np.int64)
_LABELS = "an array of shape (n_samples,) of integers or strings, -1 where unknown"
_PAIRS = "index pairs of shape (n_links, 2)"
_INCIDENCE = "a sparse incidence matrix of shape (n_samples, n_links)"
_GROUPS = "group ids of shape (n_samples,) with -1 for none"
_ADVICE = (
    "Pairs cannot follow samples through a cross-validation: pass an incidence matrix "
    "(skdiffclust.metrics.links_to_incidence makes one) or, for must-links, group ids."
)


@dataclass(frozen=True, eq=False)
class Constraints:
    """Constraints on samples, after transitive closure.

    Attributes
    ----------
    groups : ndarray of shape (n_samples,), int64
        Samples with the same group id must share a cluster: must-links and equal
        partial labels, closed transitively. Ids are 0 to `n_groups` - 1 in the order of
        their first sample; a sample without a label or link is a group of its own.
    classes : ndarray of shape (n_samples,), int64
        Class of the group that the sample is in, -1 if no sample of it has a partial
        label. Ids are 0 to `n_classes` - 1 in the order of their first sample. A class
        is exactly one group, and a group has at most one class; two different classes
        must be separated.
    cannot : ndarray of shape (n_pairs, 2), int64
        Pairs of *groups* (not samples) that must be separated because of a cannot-link:
        smaller id first, each once, in lexicographic order. Pairs of two groups that
        both have a class are never listed, since `classes` implies them.
    """

    groups: np.ndarray
    classes: np.ndarray
    cannot: np.ndarray

    @property
    def n_groups(self):
        """Number of groups, the largest number of clusters that is possible."""
        return int(self.groups.max()) + 1

    @property
    def n_classes(self):
        """Number of classes, 0 without partial labels."""
        return int(self.classes.max()) + 1


def as_constraints(n_samples, partial_labels=None, must_link=None, cannot_link=None):
    """Return the `Constraints` given as metadata of `fit`, or None if none is given.

    The form of a link is decided by its container and number of dimensions, never by
    its values: sparse is incidence, dense 1-D is group ids, dense 2-D is pairs.

    Parameters
    ----------
    n_samples : int
        Number of samples of X.
    partial_labels : array-like of shape (n_samples,), default=None
        Integers (integral floats are accepted) or strings; -1 where unknown, and
        beside strings and in object arrays also "-1", None and NaN.
    must_link : array-like or sparse matrix, default=None
        Index pairs (n_links, 2), group ids (n_samples,) with -1 for none, or sparse
        incidence (n_samples, n_links) with two non-zeros in a column. A pair of a
        sample with itself is ignored.
    cannot_link : array-like or sparse matrix, default=None
        Index pairs or sparse incidence, as for `must_link`.

    Returns
    -------
    constraints : Constraints or None

    Raises
    ------
    ValueError
        If a form is none of these, an index is out of range, or the constraints
        contradict each other through their transitive closure (the message names two
        samples).

    Notes
    -----
    A column of an incidence matrix that has lost one or both of its ends, as happens
    when a cross-validation slices the samples, is dropped. O(n_samples + n_links)
    memory, one sort of time.
    """
    if partial_labels is None and must_link is None and cannot_link is None:
        return None
    refuse_indices(must_link, name="must_link")
    refuse_indices(cannot_link, name="cannot_link")
    labels = np.full(n_samples, -1, dtype=np.int64)
    if partial_labels is not None:
        title = "The 'partial_labels' parameter of fit"
        partial_labels = _as_array(partial_labels, title, _LABELS)
        if partial_labels.ndim == 1 and partial_labels.dtype.kind in "TUO":
            partial_labels = numbers_of_names(partial_labels, title)
        labels = _check_labels(partial_labels, n_samples, title, _LABELS)
    must = _NO_PAIRS if must_link is None else must_link
    cannot = _NO_PAIRS if cannot_link is None else cannot_link
    component = _components(_check_must_link(must, n_samples), n_samples)
    return _close(labels, component, _check_cannot_link(cannot, n_samples))


def constraints_from_matrix(constraints, n_samples):
    """Return the `Constraints` that public functions of affinities are given.

    Parameters
    ----------
    constraints : None, array-like of shape (n_samples,) or (n_samples, n_samples), or \
            sparse matrix of shape (n_samples, n_samples)
        Partial labels (integers, -1 unknown), or +1 for a pair that must be linked, -1
        for one that must not, 0 for unknown. An entry on one side of the diagonal
        counts for both; the diagonal may be 0 or +1.
    n_samples : int
        Number of samples of the affinity.

    Returns
    -------
    constraints : Constraints or None

    Notes
    -----
    If all groups in cannot-links must be separated from each other, the matrix is
    equivalent to partial labels; then these groups become classes, so that both forms
    give the same result.
    """
    if constraints is None:
        return None
    refuse_indices(constraints, name="constraints")
    title = "The 'constraints' parameter"
    what = (
        f"{_LABELS}, or an array or sparse matrix of shape ({n_samples}, {n_samples}) "
        "of +1 (must link), -1 (must not) and 0 (unknown)"
    )
    if not sparse.issparse(constraints):
        constraints = _as_array(constraints, title, what)
        if constraints.ndim == 1:
            labels = _check_labels(constraints, n_samples, title, what)
            return _close(labels, np.arange(n_samples), _NO_PAIRS)
    must, cannot = _pairs_of_matrix(constraints, n_samples, title, what)
    closed = _close(np.full(n_samples, -1), _components(must, n_samples), cannot)
    return _clique_as_classes(closed)


def check_feasible(constraints, n_clusters):
    """Refuse a number of clusters that the constraints exclude.

    Exact for partial labels and must-links alone, and for at most two clusters; with
    cannot-links and more clusters the question is graph colouring (NP-complete), and
    only the bound by a clique, found greedily, is checked: passing proves nothing then.

    Parameters
    ----------
    constraints : Constraints or None
    n_clusters : int

    Raises
    ------
    ValueError
        With both numbers and the reason.
    """
    if constraints is None:
        return
    title = "The 'n_clusters' parameter must be"
    if n_clusters > constraints.n_groups:
        raise ValueError(
            f"{title} at most {constraints.n_groups}, the number of groups of samples "
            "after merging those that are linked or share a partial label. Got "
            f"{n_clusters} instead. Use fewer clusters or give fewer links."
        )
    if n_clusters < constraints.n_classes:
        raise ValueError(
            f"{title} at least {constraints.n_classes}, the number of classes in "
            f"'partial_labels'. Got {n_clusters} instead. Use more clusters or "
            "merge classes."
        )
    if not len(constraints.cannot):
        return
    clique = _greedy_clique(constraints)
    if n_clusters < len(clique):
        rows = [int(np.argmax(constraints.groups == group)) for group in clique[:5]]
        raise ValueError(
            f"{title} at least {len(clique)}, because {len(clique)} groups of samples "
            "must all be separated from each other (among them samples "
            f"{', '.join(map(str, rows))}). Got {n_clusters} instead. Use more "
            "clusters or give fewer cannot-links."
        )
    if n_clusters == 2:
        row = _row_on_odd_cycle(constraints)
        if row is not None:
            raise ValueError(
                f"{title} at least 3: the cannot-links around sample {row} form a "
                "cycle of odd length, which two clusters cannot satisfy. Got 2 "
                "instead. Use more clusters or give fewer cannot-links."
            )


def bounds_of_clusters(constraints):
    """Return the least and the largest number of clusters for `check_feasible`.

    Without constraints, one and infinity.
    """
    if constraints is None:
        return 1, np.inf
    least = max(constraints.n_classes, 1)
    if len(constraints.cannot):
        least = max(least, len(_greedy_clique(constraints)))
        if least == 2 and _row_on_odd_cycle(constraints) is not None:
            least = 3
    return least, constraints.n_groups


def metadata_of(constraints, rows):
    """Return arguments of `as_constraints` for the constraints of some samples.

    `rows` (m,) are the positions of these samples, and pairs are positions among
    `rows`. With all samples, `as_constraints` makes the same Constraints of them.
    """
    groups = constraints.groups[rows]
    position = np.full(constraints.n_groups, -1)
    position[groups] = np.arange(len(groups))
    pairs = position[constraints.cannot]
    return {
        "partial_labels": constraints.classes[rows],
        "must_link": groups,
        "cannot_link": pairs[(pairs >= 0).all(axis=1)],
    }


def restrict(constraints, rows):
    """Return the Constraints of some samples (m,).

    `constraints` may have pairs in any order, more than once, or implied by classes.
    """
    given = metadata_of(constraints, rows)
    return _close(given["partial_labels"], given["must_link"], given["cannot_link"])


def is_free(constraints):
    """Return (n,) True for samples without a label or link."""
    groups = constraints.groups
    alone = np.bincount(groups)[groups] == 1
    separated = np.isin(groups, constraints.cannot)
    return alone & ~separated & (constraints.classes < 0)


def check_pairs(pairs, n_samples, title, what=_PAIRS):
    """Return index pairs as an int64 array (n_links, 2) with entries in [0, n_samples).

    `title` opens the error messages ("The 'x' parameter of C"), `what` says what is
    accepted.
    """
    pairs = _as_array(pairs, title, what)
    if pairs.size == 0:
        return _NO_PAIRS
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(
            f"{title} must be {what}. Got an array of shape {pairs.shape} instead. A "
            "single pair is [[i, j]]; an incidence matrix must be a scipy sparse one."
        )
    pairs = _as_integers(pairs, title, what)
    if pairs.min() < 0:
        raise ValueError(
            f"{title} must contain indices from 0 to {n_samples - 1}. Got the index "
            f"{pairs.min()} instead. Negative indices do not count from the end here."
        )
    if pairs.max() >= n_samples:
        raise ValueError(
            f"{title} must contain indices from 0 to {n_samples - 1}, since there are "
            f"{n_samples} samples. Got the index {pairs.max()} instead. {_ADVICE}"
        )
    return pairs


def _as_array(values, title, what):
    """Return `values` as an array, refused if masked or ragged."""
    if np.ma.isMaskedArray(values):
        raise ValueError(
            f"{title} must be {what}. Got a masked array instead. Fill it with the "
            "value that means unknown."
        )
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"{title} must be {what}. Got nested sequences of unequal length instead."
        ) from error


def _as_integers(array, title, what):
    """Return `array` as int64, refused unless every entry is a whole number."""
    if array.dtype.kind == "O" and all(_is_number(value) for value in array.flat):
        array = array.astype(np.float64)
    if array.dtype.kind not in "iuf":
        raise ValueError(
            f"{title} must be {what}. Got values of type {_type_name(array)} instead. "
            "Encode them as integers first."
        )
    with np.errstate(invalid="ignore"):  # NaN, and what is too large
        values = array.astype(np.int64)
    whole = values == array
    if not whole.all():
        raise ValueError(
            f"{title} must be {what}. Got the value {array[~whole][0]} instead."
        )
    return values


def _is_number(value):
    """Whether an object is a real number that is not a bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def _type_name(array):
    """Name of the type of an array, or of its first entry that is no number."""
    if array.dtype.kind != "O":
        return str(array.dtype)
    return next(type(v).__name__ for v in array.flat if not _is_number(v))


def _check_labels(labels, n_samples, title, what):
    """Return an array of labels or group ids as int64 (n_samples,), at least -1."""
    if labels.shape != (n_samples,):
        raise ValueError(
            f"{title} must be {what}, here of shape ({n_samples},). Got an array of "
            f"shape {labels.shape} instead."
        )
    labels = _as_integers(labels, title, what)
    if labels.min() < -1:
        raise ValueError(
            f"{title} must be {what}. Got the value {labels.min()} instead. Only -1 "
            "may be negative."
        )
    return labels


def numbers_of_names(labels, title):
    """Return an array of labels (n,) with strings as integers by their order.

    Unknown are -1, None, NaN, the NA of pandas, and "-1", which NumPy makes of -1 in a
    list of strings: all of them become -1. Other entries are returned unchanged if none
    is a string, and refused beside strings.
    """
    labels = labels.astype(object)
    is_unknown = np.array([_is_unknown(value) for value in labels], dtype=bool)
    labels[is_unknown] = -1
    is_name = np.array([isinstance(value, str) for value in labels], dtype=bool)
    if not is_name.any():
        return labels
    others = labels[~is_name & ~is_unknown]
    if len(others):
        raise ValueError(
            f"{title} must have strings only, and -1 or None where the class is "
            f"unknown, if it has strings. Got {others[0]!r} among them instead. Turn "
            "all labels into strings, or all into integers."
        )
    ids = np.full(len(labels), -1, dtype=np.int64)
    ids[is_name] = np.unique(labels[is_name].astype(str), return_inverse=True)[1]
    return ids


def _is_unknown(label):
    """Whether an entry of an array with strings or objects means an unknown class."""
    if isinstance(label, numbers.Real):
        return label == -1 or label != label
    is_mark = isinstance(label, str) and label == "-1"
    return is_mark or label is None or type(label).__name__ == "NAType"


def _check_must_link(links, n_samples):
    """Return must-links in any of the three forms as pairs (n_links, 2)."""
    title = "The 'must_link' parameter of fit"
    what = f"{_PAIRS}, {_GROUPS}, or {_INCIDENCE}"
    if sparse.issparse(links):
        return _pairs_of_incidence(links, n_samples, title)
    links = _as_array(links, title, what)
    if links.ndim == 1 and links.size:
        return _pairs_of_groups(_check_labels(links, n_samples, title, what))
    return check_pairs(links, n_samples, title, what)


def _check_cannot_link(links, n_samples):
    """Return cannot-links in either form as pairs (n_links, 2) of different samples."""
    title = "The 'cannot_link' parameter of fit"
    if sparse.issparse(links):
        return _pairs_of_incidence(links, n_samples, title)
    pairs = check_pairs(links, n_samples, title, f"{_PAIRS} or {_INCIDENCE}")
    refuse_self_pairs(pairs, title)
    return pairs


def refuse_self_pairs(pairs, title):
    """Refuse pairs (n_links, 2) of a sample with itself."""
    alone = pairs[pairs[:, 0] == pairs[:, 1], 0]
    if alone.size:
        raise ValueError(
            f"{title} must have two different samples in a pair. Got sample {alone[0]} "
            "twice instead. Remove that pair."
        )


def _pairs_of_groups(ids):
    """Return the pairs that chain the samples of each group id >= 0."""
    rows = np.flatnonzero(ids >= 0)
    rows = rows[np.argsort(ids[rows])]
    linked = ids[rows[:-1]] == ids[rows[1:]]
    return np.column_stack([rows[:-1][linked], rows[1:][linked]])


def _pairs_of_incidence(incidence, n_samples, title):
    """Return the pairs of the columns that have both ends, as int64 (n_links, 2)."""
    if incidence.ndim != 2 or incidence.shape[0] != n_samples:
        raise ValueError(
            f"{title}, when sparse, must be {_INCIDENCE}, here with {n_samples} "
            f"samples. Got the shape {incidence.shape} instead."
        )
    links = canonical_rows(incidence.T)
    negative = np.flatnonzero(links.data < 0)
    if negative.size:
        column = int(np.searchsorted(links.indptr, negative[0], side="right")) - 1
        raise ValueError(
            f"{title}, when sparse, must have positive entries at the two samples of a "
            f"link. Got {links.data[negative[0]]} in column {column} instead. Mark "
            "both samples by 1, and pass samples that must be separated as cannot_link."
        )
    n_ends = np.diff(links.indptr)
    if (n_ends > 2).any():
        column = int(np.argmax(n_ends > 2))
        raise ValueError(
            f"{title}, when sparse, must have two non-zeros in a column, the two "
            f"samples of a link. Got {n_ends[column]} in column {column} instead. Use "
            "one column for each link."
        )
    starts = links.indptr[:-1][n_ends == 2]
    ends = [links.indices[starts], links.indices[starts + 1]]
    return np.column_stack(ends).astype(np.int64)


def _pairs_of_matrix(matrix, n_samples, title, what):
    """Return the must and cannot pairs, each (m, 2), of a matrix of +1, -1 and 0."""
    if matrix.shape != (n_samples, n_samples):
        raise ValueError(
            f"{title} must be {what}. Got an array of shape {matrix.shape} instead."
        )
    if matrix.dtype.kind not in "if":
        raise ValueError(
            f"{title} must be {what}. Got values of type {matrix.dtype} instead."
        )
    entries = sparse.coo_array(matrix, copy=True)
    entries.sum_duplicates()
    known = np.isin(entries.data, (-1, 0, 1))
    if not known.all():
        raise ValueError(
            f"{title} must be {what}. Got the entry {entries.data[~known][0]} instead."
        )
    pairs = np.column_stack(entries.coords).astype(np.int64)
    cannot = pairs[entries.data == -1]
    refuse_self_pairs(cannot, title)
    return pairs[entries.data == 1], cannot


def _close(labels, component, cannot):
    """Return the Constraints of labels (n,), components of links (n,) and pairs (b, 2).

    Samples of the same component must be together, and those of a pair apart.
    """
    classes = _propagate(labels, component)
    # A class joins its components; components without one get ids above those.
    joined = np.where(classes >= 0, classes, len(labels) + component)
    groups = number_by_first_row(joined)
    if not len(cannot):
        return Constraints(groups, classes, cannot)
    ends = np.sort(groups[cannot], axis=1)
    within = cannot[ends[:, 0] == ends[:, 1]]
    if len(within):
        first, second = within[0]
        reason = (
            "must-links join them"
            if component[first] == component[second]
            else "partial labels, closed under the must-links, put both in one class"
        )
        raise ValueError(
            f"The constraints contradict each other: samples {first} and {second} must "
            f"not be linked, but {reason}. Remove the cannot-link, or a link that "
            "connects the two samples."
        )
    class_of_group = np.full(groups.max() + 1, -1, dtype=np.int64)
    class_of_group[groups] = classes
    implied = (class_of_group[ends] >= 0).all(axis=1)
    return Constraints(groups, classes, np.unique(ends[~implied], axis=0))


def _components(pairs, n_nodes):
    """Return the connected component (n_nodes,) of each node of a graph of pairs."""
    graph = sparse.coo_array((np.ones(len(pairs)), pairs.T), shape=(n_nodes, n_nodes))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def _propagate(labels, component):
    """Return class ids (n,), one for each component, -1 where it has no label."""
    rows = np.flatnonzero(labels >= 0)
    label_of = np.full(component.max() + 1, -1, dtype=np.int64)
    label_of[component[rows]] = labels[rows]
    clashing = rows[label_of[component[rows]] != labels[rows]]
    if clashing.size:
        first = clashing[0]
        same = component[rows] == component[first]
        other = rows[same & (labels[rows] != labels[first])][0]
        raise ValueError(
            f"The constraints contradict each other: samples {first} and {other} have "
            f"the partial labels {labels[first]} and {labels[other]}, but are "
            "connected by must-links. Remove one of these links, or one of the labels."
        )
    classes = label_of[component]
    known = classes >= 0
    classes[known] = number_by_first_row(classes[known])
    return classes


def number_by_first_row(values):
    """Return numbers (n,) of the distinct values (n,), in the order of first rows."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _clique_as_classes(constraints):
    """Return the same constraints by classes, if the separated groups are a clique."""
    separated = np.unique(constraints.cannot)
    n_pairs_of_clique = len(separated) * (len(separated) - 1) // 2
    if not len(separated) or len(constraints.cannot) < n_pairs_of_clique:
        return constraints
    class_of_group = np.full(constraints.n_groups, -1, dtype=np.int64)
    class_of_group[separated] = np.arange(len(separated))
    classes = class_of_group[constraints.groups]
    return Constraints(constraints.groups, classes, constraints.cannot[:0])


def _class_groups(constraints):
    """Return the group (n_classes,) of each class."""
    rows = np.flatnonzero(constraints.classes >= 0)
    _, first = np.unique(constraints.classes[rows], return_index=True)
    return constraints.groups[rows[first]]


def _greedy_clique(constraints):
    """Return groups that must all be separated from each other: a large clique.

    It is the larger of two, one grown from the classes, the other from the group with
    the most cannot-links.
    """
    labelled = set(_class_groups(constraints).tolist())
    neighbours = {group: set() for group in sorted(labelled)}
    for first, second in constraints.cannot.tolist():
        neighbours.setdefault(first, set()).add(second)
        neighbours.setdefault(second, set()).add(first)
    order = sorted(neighbours, key=lambda group: (-len(neighbours[group]), group))
    cliques = [sorted(labelled), order[:1]]
    for clique in cliques:
        for group in order:
            if group not in clique and all(
                other in neighbours[group] or {group, other} <= labelled
                for other in clique
            ):
                clique.append(group)
    return max(cliques, key=len)


def _row_on_odd_cycle(constraints):
    """Return a sample of a group on an odd cycle of cannot-links, None without one."""
    n_groups = constraints.n_groups
    pairs = constraints.cannot
    labelled = _class_groups(constraints)
    if len(labelled) == 2:
        pairs = np.vstack([pairs, labelled])
    # In the double cover each link changes sides; a group is connected to its own other
    # side exactly if an odd number of links leads back to it.
    first, second = np.concatenate([pairs, pairs + n_groups]).T
    second = np.roll(second, len(pairs))
    side = _components(np.column_stack([first, second]), 2 * n_groups)
    odd = np.flatnonzero(side[:n_groups] == side[n_groups:])
    if not len(odd):
        return None
    return int(np.argmax(constraints.groups == odd[0]))
