"""Kruskal with cannot-links, against the same done with sets."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from skdiffclust._constraints import as_constraints
from skdiffclust.forests._constrained._checked import checked_kruskal


def naive(first, second, lengths, constraints):
    """Take edges in total order unless the union holds a pair to separate."""
    groups, cannot = constraints.groups, {tuple(pair) for pair in constraints.cannot}
    class_of = dict(zip(groups, constraints.classes, strict=True))
    trees = {group: {group} for group in range(constraints.n_groups)}
    taken = []
    for e in np.lexsort((second, first, lengths)):
        one, other = trees[groups[first[e]]], trees[groups[second[e]]]
        pairs = {tuple(sorted((a, b))) for a in one for b in other}
        known = {class_of[group] for group in one | other} - {-1}
        if one is other or pairs & cannot or len(known) > 1:
            continue
        taken.append(e)
        both = one | other
        trees.update(dict.fromkeys(both, both))
    return taken


def random_constraints(rng, n):
    """Labels and links of random rows that do not contradict each other."""
    while True:
        labels = np.where(rng.random(n) < 0.3, rng.integers(0, 2, n), -1)
        links = rng.integers(0, n, (int(rng.integers(0, n)), 2))
        links = links[links[:, 0] != links[:, 1]]
        try:
            return as_constraints(n, labels, links[::2], links[1::2])
        except ValueError:
            continue


@pytest.mark.instances(60)
def test_checked_kruskal(seed, global_random_seed):
    seed += 1000 * global_random_seed
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 16))
    constraints = random_constraints(rng, n)
    D = squareform(pdist(rng.integers(0, 4, (n, 2))))
    first, second = np.triu_indices(n, 1)
    taken = checked_kruskal(first, second, D[first, second], constraints)
    assert taken.tolist() == naive(first, second, D[first, second], constraints)
