"""The definition of the forest under constraints, in NumPy: what the kernels find."""

import numpy as np

from skdiffclust._constraints import constraints_from_matrix
from skdiffclust.forests import maximum_spanning_forest
from skdiffclust.forests._constrained._problem import constrained_problem
from skdiffclust.forests._constrained._search import chains
from skdiffclust.forests._trees._tree import components

MAX_ROUNDS = 100
UNIT = 1e-10


def constrained_forest(affinity, known, n_clusters, *, moves=True):
    """Return labels (n,) and edges (m, 2) of the forest under partial labels or links.

    Edges have i < j and are in row-major order. Without moves it is one of which means
    are taken: the trees of the parts that merging ends with.
    """
    constraints = constraints_from_matrix(known, len(affinity))
    problem = constrained_problem(constraints, n_clusters)
    labels = merge_greedily(affinity, problem, problem.conflicts)
    if labels is None:
        colours = problem.colours
        apart = (colours[:, None] != colours) & (colours >= 0) & (colours[:, None] >= 0)
        labels = merge_greedily(affinity, problem, apart)
    if not moves:
        parts = [np.flatnonzero(labels == part) for part in np.unique(labels)]
        edges = [
            rows[maximum_spanning_forest(affinity[np.ix_(rows, rows)], 1).edges]
            for rows in parts
        ]
        edges = np.concatenate(edges).reshape(-1, 2)
        return labels, edges[np.lexsort(edges.T[::-1])]
    labels, up = improve_forest(affinity, labels, problem)
    return labels, edges_of(up)


def merge_greedily(affinity, problem, conflicts):
    """Partition (n,) by Kruskal that skips what conflicts (n_groups, n_groups) forbid.

    None if it is stuck at more than n_clusters components.
    """
    groups = problem.groups
    n_groups = len(problem.conflicts)
    i, j = np.triu_indices(len(groups), 1)
    part = np.arange(n_groups)
    clashes = conflicts.copy()
    n_parts = n_groups
    for e in np.argsort(-affinity[i, j], kind="stable"):
        if n_parts == problem.n_clusters:
            break
        one = part[groups[i[e]]]
        other = part[groups[j[e]]]
        if one == other or clashes[one, other]:
            continue
        clashes[one] |= clashes[other]
        clashes[:, one] |= clashes[:, other]
        part[part == other] = one
        n_parts -= 1
    if n_parts > problem.n_clusters:
        return None
    return components(chains(part[groups]), len(groups))


def improve_forest(affinity, labels, problem):
    """Return labels and neighbours towards roots (n,) after all moves."""
    groups = problem.groups
    k = problem.n_clusters
    labels = labels.copy()
    unit = gain_unit(affinity)
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    members = np.split(order, np.cumsum(sizes)[:-1])
    firsts = np.array([rows[0] for rows in members])
    is_single = sizes == 1
    masses = np.bincount(groups, problem.weights)
    trees = [None] * k
    changed = np.arange(k)
    # What each tree gains with each group; what its own tree loses, or a lower bound of
    # it: a sample takes its heaviest edge along, so those left behind lose at least
    # that.
    added = np.full((len(sizes), k), -np.inf)
    lost = np.full(len(sizes), np.nan)
    least = np.full(len(sizes), -np.inf)
    for _ in range(MAX_ROUNDS):
        for c in changed:
            trees[c] = tree = _Tree(affinity, np.flatnonzero(labels == c))
            inside = groups[tree.rows]
            lost[inside] = np.nan
            least[inside] = np.rint(tree.best_edges() / unit)
            apart = problem.conflicts[:, inside].any(axis=1)
            gains = np.full(len(sizes), -np.inf)
            gains[is_single] = tree.added(affinity, firsts[is_single])
            for g in np.flatnonzero(~is_single & ~apart):
                both = np.union1d(tree.rows, members[g])
                gains[g] = _Tree(affinity, both).weight - tree.weight
            gains[apart] = -np.inf
            added[:, c] = np.rint(gains / unit)
        least[~is_single] = -np.inf
        homes = labels[firsts]
        elsewhere = added.copy()
        elsewhere[np.arange(len(homes)), homes] = -np.inf
        n_left = np.bincount(labels)[homes] - sizes
        left = np.bincount(labels, problem.weights)[homes] - masses
        elsewhere[(n_left < 1) | (left < problem.min_size)] = -np.inf
        targets = elsewhere.argmax(axis=1)
        top = elsewhere.max(axis=1)
        gains = np.zeros(len(sizes))
        hopeful = top > least
        gains[hopeful] = top[hopeful] - np.where(np.isnan(lost), least, lost)[hopeful]
        changed = set()
        while gains.max() > 0:
            g = gains.argmax()
            if homes[g] in changed or targets[g] in changed:
                gains[g] = 0.0
            elif np.isnan(lost[g]):
                tree = trees[homes[g]]
                lost[g] = np.rint(tree.lost(affinity, members[g]) / unit)
                gains[g] = top[g] - lost[g]
            else:
                labels[members[g]] = targets[g]
                gains[g] = 0.0
                changed |= {homes[g], targets[g]}
        if not changed:
            break
    up = np.full(len(groups), -1, dtype=np.int64)
    for c in range(k):
        tree = _Tree(affinity, np.flatnonzero(labels == c))
        up[tree.rows[1:]] = tree.rows[tree.above[1:]]
    return labels, up


def gain_unit(affinity):
    """Return the unit in which gains are compared."""
    above = np.abs(affinity[np.triu_indices(len(affinity), 1)])
    return UNIT * above.max(initial=0.0) or 1.0


class _Tree:
    """Maximum spanning tree of some rows, by Prim's algorithm from the first of them.

    Attributes
    ----------
    rows : ndarray of shape (m,), int64
        In the order of Prim's algorithm.
    above : ndarray of shape (m,), int64
        Position of the neighbour towards the root, of all but the first row.
    weights : ndarray of shape (m,), float64
        Of those edges.
    """

    def __init__(self, affinity, rows):
        m = len(rows)
        order = np.zeros(m, dtype=np.int64)
        above = np.zeros(m, dtype=np.int64)
        weights = np.zeros(m)
        inside = affinity[np.ix_(rows, rows)]
        position = np.zeros(m, dtype=np.int64)
        waiting = np.arange(1, m)
        via = np.zeros(m, dtype=np.int64)
        heaviest = np.full(m, -np.inf)
        newest = 0
        for t in range(1, m):
            found = inside[newest, waiting]
            # For a fixed end j, (i, j) precedes (i', j) exactly when i < i'.
            closer = found > heaviest[waiting]
            closer |= (found == heaviest[waiting]) & (newest < via[waiting])
            heaviest[waiting[closer]] = found[closer]
            via[waiting[closer]] = newest
            ties = waiting[heaviest[waiting] == heaviest[waiting].max()]
            pairs = np.sort([via[ties], ties], axis=0)
            newest = ties[np.lexsort((pairs[1], pairs[0]))[0]]
            order[t] = newest
            position[newest] = t
            above[t] = position[via[newest]]
            weights[t] = heaviest[newest]
            waiting = waiting[waiting != newest]
        self.rows = rows[order]
        self.above = above
        self.weights = weights

    @property
    def weight(self):
        """Sum of the weights of its edges."""
        return self.weights.sum()

    def added(self, affinity, others):
        """Return what each of `others` (m,) would add to the weight, one at a time.

        From the leaves up, each row compares its heaviest connection to the new one
        with the edge to its parent: the lighter of the two is passed on to the parent,
        the heavier one stays.
        """
        ways = affinity[np.ix_(self.rows, others)]
        added = np.zeros(len(others))
        for a in range(len(self.rows) - 1, 0, -1):
            weight = self.weights[a]
            above = self.above[a]
            added += np.maximum(ways[a], weight) - weight
            ways[above] = np.maximum(ways[above], np.minimum(ways[a], weight))
        return added + ways[0]

    def best_edges(self):
        """Return the weight (m,) of the heaviest edge of each row, -inf if alone."""
        best = np.append(-np.inf, self.weights[1:])
        np.maximum.at(best, self.above[1:], self.weights[1:])
        return best

    def lost(self, affinity, rows):
        """Return what the weight falls by without some of the rows (r,)."""
        best = self.best_edges()
        weights = self.weights
        if len(rows) == 1:
            at = int(np.flatnonzero(self.rows == rows[0])[0])
            n_edges = np.count_nonzero(self.above[1:] == at) + (at > 0)
            if n_edges == 1:
                return best[at]
        rest = np.setdiff1d(self.rows, rows)
        return weights.sum() - _Tree(affinity, rest).weight


def edges_of(up):
    """Edges (m, 2), i < j in row-major order, of neighbours towards roots (n,)."""
    lower = np.flatnonzero(up >= 0)
    edges = np.sort(np.column_stack([lower, up[lower]]), axis=1)
    return edges[np.lexsort(edges.T[::-1])]
