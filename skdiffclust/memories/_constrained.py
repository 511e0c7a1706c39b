"""k-means of groups: linked samples share a memory, or are separated."""

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from skdiffclust._kmeans import (
    means_of,
    on_sphere,
    squared_distances,
    squared_lengths,
    take,
)
from skdiffclust.memories._medians import move_to_medians

_STEPS = 100


def constrained_lloyd(Z, weight, seeds, constraints, metric):
    """Return memories (k, d) and labels (n,) of low cost that satisfy `Constraints`.

    Lloyd's steps start from each of seeds (r, k, d) and from the means of linked
    samples that are far apart. A group of linked samples is assigned as one, classes
    get different memories by the assignment of least cost, and groups that must be
    separated are assigned one after the other, those with the fewest choices first. Z
    (n, d) are samples in training units, dense or CSR.
    """
    best = None
    apart = _groups_apart(Z, weight, constraints.groups, seeds.shape[1])
    if metric == "cosine":
        apart = on_sphere(apart)
    for memories in (*seeds.astype(np.float64), apart):
        cost = np.inf
        for _ in range(_STEPS):
            far = divergences(Z, memories, metric) * weight[:, None]
            trial = _assign_groups(far, constraints)
            value = float(far[np.arange(len(far)), trial].sum())
            if value >= cost * (1.0 - 1e-9):
                break
            cost = value
            labels = trial
            kept = memories
            memories = _means(Z, weight, labels, memories, far, metric)
        if best is None or cost < best[0]:
            best = cost, kept, labels
    return best[1:]


def _groups_apart(Z, weight, groups, n_memories):
    """Return the means (k, d) of groups (n,) of samples, each far from those before.

    The first is that of the heaviest group. Means are used, because at seeds that are
    samples a group may not be assigned as a whole.
    """
    sizes = np.bincount(groups, weight)
    shares = weight / np.where(sizes > 0, sizes, 1.0)[groups]
    members = sparse.csr_array(
        (shares, (groups, np.arange(len(groups)))), shape=(len(sizes), len(groups))
    )
    means = members @ Z
    squares = squared_lengths(means)
    chosen = [int(np.argmax(sizes))]
    nearest = np.full(len(sizes), np.inf)
    for _ in range(n_memories - 1):
        memory = take(means, np.array(chosen[-1]))
        far = squares - 2.0 * (means @ memory) + memory @ memory
        nearest = np.minimum(nearest, np.maximum(far, 0.0))
        chosen.append(int(np.argmax(sizes * nearest)))
    return take(means, np.array(chosen))


def divergences(Z, memories, metric):
    """Return the costs (n, k) of samples: squared or city-block distances."""
    if metric == "manhattan":
        return cdist(Z, memories, "cityblock")
    return squared_distances(Z, memories)


def _means(Z, weight, labels, memories, far, metric):
    """Return the centres (k, d) of the samples of each label."""
    moved, sizes = means_of(Z, weight, labels, memories)
    if metric == "manhattan":
        move_to_medians(moved, range(len(moved)), Z, weight, labels)
    empty = np.flatnonzero(sizes == 0)
    worst = np.argsort(-far[np.arange(len(far)), labels], kind="stable")[: len(empty)]
    moved[empty[: len(worst)]] = take(Z, worst)
    return on_sphere(moved) if metric == "cosine" else moved


def _assign_groups(far, constraints):
    """Return labels (n,) for costs (n, k) of samples, group by group."""
    groups = constraints.groups
    cost = np.stack([np.bincount(groups, column) for column in far.T], axis=1)
    label = cost.argmin(axis=1)
    labelled = np.flatnonzero(constraints.classes >= 0)
    owners = np.full(constraints.n_classes, -1)
    owners[constraints.classes[labelled]] = groups[labelled]
    chosen, own = linear_sum_assignment(cost[owners])
    label[owners[chosen]] = own
    if len(constraints.cannot):
        _part(cost, label, constraints.cannot, owners)
    return label[groups]


def _part(cost, label, cannot, fixed):
    """Change labels (g,), in place, so that pairs (p, 2) of groups differ.

    Groups in `fixed` keep theirs. The next group is the one with the fewest memories
    left, and among these the one that loses most by its second choice.
    """
    k = cost.shape[1]
    ends = np.concatenate([cannot, cannot[:, ::-1]])
    ends = ends[np.argsort(ends[:, 0], kind="stable")]
    waiting = np.setdiff1d(ends[:, 0], fixed)
    starts = np.searchsorted(ends[:, 0], np.arange(len(cost) + 1))
    closed = np.zeros(cost.shape, dtype=bool)

    def close(group):
        near = ends[starts[group] : starts[group + 1], 1]
        closed[near, label[group]] = True

    for group in fixed:
        close(group)
    ordered = np.sort(cost[waiting], axis=1)
    regret = ordered[:, 1] - ordered[:, 0] if k > 1 else np.zeros(len(waiting))
    is_open = np.ones(len(waiting), dtype=bool)
    for _ in range(len(waiting)):
        left = np.where(is_open, closed[waiting].sum(axis=1), -1)
        ties = np.flatnonzero(left == left.max())
        i = ties[np.argmax(regret[ties])]
        group = waiting[i]
        if closed[group].all():
            raise ValueError(
                "The 'n_clusters' parameter of ClAM must be large enough to separate "
                f"all groups of samples that must be separated. Got {k} instead, for "
                "which no solution was found. Use more clusters, or drop some of the "
                "cannot-links."
            )
        label[group] = np.where(closed[group], np.inf, cost[group]).argmin()
        is_open[i] = False
        close(group)
