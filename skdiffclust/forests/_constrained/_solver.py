"""A constrained forest of a dense similarity: contraction, trees, moves."""

from skdiffclust._compiled import compiled
from skdiffclust.forests._constrained._exchange import exchange
from skdiffclust.forests._constrained._partition import (
    contract,
    forest_state,
    grow_tree,
    merge_greedily,
    move_groups,
)


@compiled(nogil=True)
def solve(similarity, groups, conflicts, colours, greedy, n_clusters):
    """Return a constrained forest: components (n,) and its edges as `up` (n,).

    ``up[v]`` is the neighbour of v towards the root of its tree, -1 at a root.
    """
    n_found = -1
    if greedy:
        component, n_found = merge_greedily(similarity, groups, conflicts, n_clusters)
    if n_found != n_clusters:
        component = contract(similarity, groups, colours, n_clusters)
    state = improve(similarity, component, groups, conflicts, n_clusters)
    while greedy and exchange(similarity, component, groups, conflicts, state):
        move_groups(similarity, component, groups, conflicts, state)
    return component, state[0]


@compiled(nogil=True)
def improve(similarity, component, groups, conflicts, n_clusters):
    """Solve the trees of components (n,) and move groups; return the `forest_state`."""
    state = forest_state(len(groups), n_clusters)
    for c in range(n_clusters):
        grow_tree(similarity, component, c, state)
    move_groups(similarity, component, groups, conflicts, state)
    return state
