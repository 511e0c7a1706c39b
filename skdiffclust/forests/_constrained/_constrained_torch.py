"""Forests under constraints of many matrices at once: the torch twin.

It finds the forests that `_constrained_tree` defines. All moves of a round are
evaluated together. What every tree gains with every row follows from the rounds of
Borůvka's algorithm, which are a tree of depth log n with the bottlenecks of the forest
(King 1997). What a tree loses is computed only for rows whose move may be an
improvement, each by a tree of its own.
"""

import numpy as np
import torch

from skdiffclust._torch import to_tensor
from skdiffclust.forests._constrained._constrained_tree import MAX_ROUNDS, UNIT
from skdiffclust.forests._trees._boruvka_torch import (
    batched_boruvka,
    components_of,
    heaviest_edges,
)

# Entries of the matrices whose trees are grown together, of 8 bytes, a few times.
_ENTRIES_AT_ONCE = 2**25


class TorchProblem:
    """A ConstrainedProblem as tensors on a device.

    Parameters
    ----------
    problem : ConstrainedProblem
    device : torch.device
    """

    def __init__(self, problem, device):
        groups = problem.groups
        colours = problem.colours[problem.groups]
        n = len(groups)
        self.n_clusters = problem.n_clusters
        self.greedy = problem.greedy
        self.min_size = float(problem.min_size)
        blocks = np.unique(np.where(colours >= 0, -1, groups), return_inverse=True)[1]
        n_colours = int(colours.max(initial=-1)) + 1
        n_parts = int(blocks.max()) + 1 - (n_colours > 0) + n_colours
        self.n_between = n_parts - problem.n_clusters
        joined = np.where(colours >= 0, n + colours, groups)
        sizes = np.bincount(groups)
        firsts = np.unique(groups, return_index=True)[1]
        singles = np.flatnonzero(sizes == 1)
        several = np.flatnonzero(sizes > 1)
        self.has_conflicts = bool(problem.conflicts.any())
        arrays = {
            "groups": groups,
            "blocks": _first_rows(blocks),
            "joined": _first_rows(joined),
            "firsts": firsts,
            "singles": singles,
            "several": several,
            "sizes": sizes,
            "conflicts": problem.conflicts,
            "loads": np.bincount(groups, problem.weights),
            "weights": problem.weights,
        }
        for name, array in arrays.items():
            setattr(self, name, to_tensor(np.ascontiguousarray(array), device))


def constrained_trees(weights, problem):
    """Return the constrained forests of dense matrices.

    Parameters
    ----------
    weights : tensor of shape (s, n, n), float64
        Symmetric; the diagonal is finite and does not matter.
    problem : TorchProblem

    Returns
    -------
    labels : tensor of shape (s, n), int64
        Components, as `constrained_tree` numbers them.
    edges : tensor of shape (s, n - n_clusters), int64
        i * n + j with i < j, the heaviest first.
    values : tensor of shape (s, n - n_clusters), float64
        Their weights.
    """
    labels = contract(weights, problem)
    if problem.greedy:
        merged, is_done = merge_greedily(weights, problem)
        labels = torch.where(is_done[:, None], merged, labels)
    return improve_forests(weights, labels, problem)


def contract(weights, problem):
    """Partitions (s, n) of the best forests in which every colour is one component."""
    shape = weights.shape[:2]
    edges = batched_boruvka(weights.clone(), problem.blocks.expand(shape))
    edges, _ = heaviest_edges(weights, edges, problem.n_between)
    return _by_first_row(components_of(edges, problem.joined.expand(shape)))


def merge_greedily(weights, problem):
    """Partitions (s, n) by Kruskal between groups that skips what conflicts forbid.

    Also returns in which samples (s,) it reached n_clusters components.
    """
    n_groups = len(problem.sizes)
    (n_samples, n) = weights.shape[:2]
    groups = problem.groups.expand(n_samples, n)
    best = weights.new_full((n_samples, n, n_groups), -torch.inf)
    best.scatter_reduce_(2, groups[:, None].expand(weights.shape), weights, "amax")
    if n_groups < n:
        by_row = best
        best = best.new_full((n_samples, n_groups, n_groups), -torch.inf)
        best.scatter_reduce_(1, groups[:, :, None].expand(by_row.shape), by_row, "amax")
    index = torch.arange(n_groups, device=weights.device)
    best.masked_fill_(index[:, None] >= index, -torch.inf)
    part = index.expand(n_samples, n_groups)
    clashes = problem.conflicts.expand(n_samples, n_groups, n_groups)
    n_parts = torch.full_like(part[:, 0], n_groups)
    for _ in range(n_groups - problem.n_clusters):
        same = part[:, :, None] == part[:, None, :]
        open_pairs = best.masked_fill(clashes | same, -torch.inf)
        top, at = open_pairs.flatten(1).max(dim=1)
        is_open = top > -torch.inf
        one = at // n_groups
        other = at % n_groups
        both = (clashes[_each(one), one] | clashes[_each(one), other])[:, None, :]
        one, other = part.gather(1, torch.stack([one, other], dim=1)).T[:, :, None]
        joined = ((part == one) | (part == other)) & is_open[:, None]
        part = torch.where(joined, one, part)
        clashes = clashes | (joined[:, :, None] & both)
        clashes = clashes | clashes.mT
        n_parts = n_parts - is_open.long()
    return _by_first_row(part.gather(1, groups)), n_parts == problem.n_clusters


def improve_forests(weights, labels, problem):
    """Move groups to other components while their trees get heavier.

    As `improve_forest` defines it for each sample; returns what `constrained_trees`
    does. Samples without another move leave the batch.
    """
    labels = labels.clone()
    unit = _gain_unit(weights)
    active = torch.arange(len(weights), device=weights.device)
    for _ in range(MAX_ROUNDS if problem.n_clusters > 1 else 0):
        part = weights if len(active) == len(weights) else weights[active]
        homes, targets, gains = _proposals(part, labels[active], problem, unit[active])
        is_moved = _carry_out(homes, targets, gains, problem.n_clusters)
        moved = torch.where(is_moved, targets, homes)
        labels[active] = moved[:, problem.groups]
        # The host waits for the device here, once a round, to learn which samples are
        # left.
        active = active[is_moved.any(dim=1)]
        if not len(active):
            break
    edges = batched_boruvka(_inside(weights, labels), _rows(labels))
    n_edges = labels.shape[1] - problem.n_clusters
    return labels, *heaviest_edges(weights, edges, n_edges)


def _gain_unit(weights):
    """Unit (s,) in which gains are compared."""
    n = weights.shape[1]
    above = torch.ones(n, n, dtype=torch.bool, device=weights.device).triu(1)
    top = weights.abs().masked_fill(~above, 0.0).amax(dim=(1, 2))
    return torch.where(top > 0, UNIT * top, torch.ones_like(top))


def _proposals(weights, labels, problem, unit):
    """Return the origin, target and gain of each group's move, (s, n_groups) each."""
    k = problem.n_clusters
    (n_samples, n) = labels.shape
    n_groups = len(problem.sizes)
    unit = unit[:, None]
    levels = []
    edges = batched_boruvka(_inside(weights, labels), _rows(labels), levels)
    rows = edges.clamp(min=0)
    values = weights.flatten(1).gather(1, rows).masked_fill(edges < 0, 0.0)
    totals = weights.new_zeros(n_samples, k)
    totals.scatter_add_(1, labels.gather(1, rows // n), values)

    homes = labels[:, problem.firsts]
    added = weights.new_full((n_samples, n_groups, k), -torch.inf)
    added[:, problem.singles] = _added(weights, labels, levels, k)[
        :, problem.firsts[problem.singles]
    ]
    barred = homes[:, :, None] == torch.arange(k, device=homes.device)
    in_component = barred.to(weights.dtype)
    if problem.has_conflicts:
        barred |= (problem.conflicts.to(weights.dtype) @ in_component) > 0
    sizes = torch.zeros_like(totals).scatter_add_(
        1, homes, problem.sizes.to(weights.dtype).expand(homes.shape)
    )
    masses = torch.zeros_like(totals).scatter_add_(
        1, labels, problem.weights.expand(labels.shape)
    )
    stays = sizes.gather(1, homes) - problem.sizes < 1
    stays |= masses.gather(1, homes) - problem.loads < problem.min_size
    barred |= stays[:, :, None]
    if len(problem.several):
        s, g, c = (~barred[:, problem.several]).nonzero(as_tuple=True)
        g = problem.several[g]
        members = (labels[s] == c[:, None]) | (problem.groups == g[:, None])
        added[s, g, c] = _tree_weights(weights, s, members) - totals[s, c]
    added = (added / unit[:, :, None]).round().masked_fill_(barred, -torch.inf)
    top, targets = added.max(dim=2)

    # A row takes its heaviest edge along, so the rows left behind lose at least that.
    least = weights.new_full((n_samples, n_groups), -torch.inf)
    best = levels[0].top.masked_fill(levels[0].top == torch.inf, -torch.inf)
    least[:, problem.singles] = best[:, problem.firsts[problem.singles]]
    s, g = (top > (least / unit).round()).nonzero(as_tuple=True)
    members = (labels[s] == homes[s, g][:, None]) & (problem.groups != g[:, None])
    lost = totals[s, homes[s, g]] - _tree_weights(weights, s, members)
    gains = torch.zeros_like(top)
    gains[s, g] = top[s, g] - (lost / unit[s, 0]).round()
    return homes, targets, gains


def _added(weights, labels, levels, k):
    """What each row would add to each tree, (s, n, k).

    From the leaves of the rounds up, each component compares its heaviest connection to
    the row with its heaviest edge: the lighter of the two is passed on to the component
    that it becomes a part of, the heavier one stays.
    """
    ways = weights
    added = torch.zeros_like(weights)
    for component, top in levels:
        into = component[:, None, :].expand(weights.shape)
        top = top[:, None, :]
        added = added + (ways - top).clamp(min=0.0)
        ways = torch.minimum(ways, top)
        ways = torch.full_like(ways, -torch.inf).scatter_reduce_(2, into, ways, "amax")
        added = torch.zeros_like(added).scatter_add_(2, into, added)
    roots = labels.new_zeros(len(labels), k).scatter_(1, labels, component)
    roots = roots[:, None, :].expand(-1, weights.shape[1], -1)
    return (ways + added).gather(2, roots)


def _tree_weights(weights, samples, members):
    """Weights (m,) of the trees of members (m, n), bool, in the samples (m,)."""
    found = [weights.new_empty(0)]
    size = int(members.sum(dim=1).max()) if len(members) else 0
    step = max(1, _ENTRIES_AT_ONCE // max(size, 1) ** 2)
    for first in range(0, len(members), step):
        part = samples[first : first + step]
        inside = members[first : first + step]
        order = inside.int().argsort(dim=1, descending=True, stable=True)[:, :size]
        padded = ~inside.gather(1, order)
        own = weights[part[:, None, None], order[:, :, None], order[:, None, :]]
        own.masked_fill_(padded[:, :, None] | padded[:, None, :], -torch.inf)
        edges = batched_boruvka(own.clone(), _rows(order))
        values = own.flatten(1).gather(1, edges.clamp(min=0))
        found.append(values.masked_fill(edges < 0, 0.0).sum(dim=1))
    return torch.cat(found)


def _carry_out(homes, targets, gains, k):
    """Mark the proposals (s, n_groups) that are carried out, the largest gain first."""
    is_moved = torch.zeros_like(gains, dtype=torch.bool)
    is_free = is_moved.new_ones(len(gains), k)
    for _ in range(k // 2):
        is_open = is_free.gather(1, homes) & is_free.gather(1, targets)
        gain, group = (gains * is_open).max(dim=1, keepdim=True)
        moves = gain > 0
        is_moved.scatter_(1, group, is_moved.gather(1, group) | moves)
        for ends in (homes, targets):
            end = ends.gather(1, group)
            is_free.scatter_(1, end, is_free.gather(1, end) & ~moves)
    return is_moved


def _inside(weights, labels):
    """Return the weights inside components, -inf between them."""
    return weights.masked_fill(labels[:, :, None] != labels[:, None, :], -torch.inf)


def _rows(like):
    """Return the numbers of rows as components (s, n) of one row each."""
    return torch.arange(like.shape[1], device=like.device).expand(like.shape)


def _each(like):
    """Return the numbers of samples (s,)."""
    return torch.arange(len(like), device=like.device)


def _by_first_row(component):
    """Number components (s, n) from 0 in the order of their first rows."""
    rows = _rows(component)
    first = torch.full_like(component, component.shape[1])
    first.scatter_reduce_(1, component, rows, "amin")
    first = first.gather(1, component)
    return ((first == rows).cumsum(dim=1) - 1).gather(1, first)


def _first_rows(ids):
    """Return for every row the first row with the same id, (n,) int64."""
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    return first[inverse]
