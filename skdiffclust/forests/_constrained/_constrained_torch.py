"""Forests under constraints of many matrices at once: the torch twin.

It finds the forests that `_constrained_tree` defines. All moves of a round are
evaluated together. What a tree gains with a sample follows from the rounds of Borůvka's
algorithm, which are a tree of depth log n with the bottlenecks of the forest
(King 1997). It is computed for samples that an upper bound allows to move; what their
own tree loses, for those whose move may be an improvement, each by a tree of its own.
"""

from typing import NamedTuple

import numpy as np
import torch

from skdiffclust._torch import to_numpy, to_tensor
from skdiffclust.forests._constrained._constrained_tree import MAX_ROUNDS, UNIT
from skdiffclust.forests._trees._boruvka_torch import (
    NO_WAY,
    NONE,
    SELF,
    RankedMatrices,
    contracted,
    spanning_forest,
    trees_of,
)

# Entries of the matrices whose trees are grown together, of 4 bytes, a few times.
_ENTRIES_AT_ONCE = 2**25
# Components at which their bottlenecks are computed: there are more of these matrices
# than samples.
_FEW_OF_MANY = 16


class ProblemArrays(NamedTuple):
    """Arrays of ConstrainedProblems, one problem after another, padded to one size.

    Attributes
    ----------
    groups, nodes : tensor of shape (p, n), int64
        Group of each sample, and its node of the contracted graph: the colours, then
        all other groups.
    firsts : tensor of shape (p, g), int64
        First sample of each group.
    singles, several : tensor of shape (p, u) or (p, v), int64
        Groups of one sample, and those of several that can move.
    is_single, is_several : tensor of shape (p, u) or (p, v), bool
        False for padding.
    sizes, loads : tensor of shape (p, g), int64 and float64
        Samples of each group, and their weights; 0 for padding.
    weights : tensor of shape (p, n), float64
        Weights of samples.
    n_edges : tensor of shape (p, 1), int64
        Edges of the forest of the contracted graph.
    n_groups : tensor of shape (p, 1), int64
        Number of groups.
    is_greedy : tensor of shape (p, 1), bool
        Whether Kruskal is tried before the colours.
    """

    groups: torch.Tensor
    nodes: torch.Tensor
    firsts: torch.Tensor
    singles: torch.Tensor
    several: torch.Tensor
    is_single: torch.Tensor
    is_several: torch.Tensor
    sizes: torch.Tensor
    loads: torch.Tensor
    weights: torch.Tensor
    n_edges: torch.Tensor
    n_groups: torch.Tensor
    is_greedy: torch.Tensor


class TorchProblem:
    """ConstrainedProblems as tensors on a device.

    The first of the matrices that they are solved for have the first problem, as many
    the second, and so on.

    Parameters
    ----------
    problems : list of ConstrainedProblem
        Of the same numbers of samples and clusters.
    device : torch.device
    """

    def __init__(self, problems, device):
        one = problems[0]
        self.n_clusters = one.n_clusters
        self.greedy = any(problem.greedy for problem in problems)
        self.min_size = float(one.min_size)
        n_colours = [int(problem.colours.max(initial=-1)) + 1 for problem in problems]
        self.n_colours = max(n_colours)
        self.least_colours = min(n_colours)
        parts = [_arrays_of(problem, self.n_colours) for problem in problems]
        nodes = [part["nodes"] for part in parts]
        self.n_nodes = max(int(part.max()) + 1 for part in nodes)
        self.least_groups = min(len(part["sizes"]) for part in parts)
        self.is_contracted = any((part != np.arange(len(part))).any() for part in nodes)
        self.has_conflicts = any(
            problem.conflicts[part["singles"]].any()
            for problem, part in zip(problems, parts, strict=True)
        )
        self.edge_counts = {int(part["n_edges"][0]) for part in parts}
        self.conflicts = _padded([problem.conflicts for problem in problems], device)
        self.arrays = ProblemArrays(
            *(
                _padded([part[name] for part in parts], device)
                for name in ProblemArrays._fields
            )
        )

    def problem_of(self, samples, n_samples):
        """Return the problem (a,) that samples (a,) of `n_samples` have, or None.

        None if there is one problem.
        """
        n_problems = len(self.conflicts)
        return None if n_problems == 1 else samples // (n_samples // n_problems)

    def conflicts_of(self, samples, n_samples):
        """Return the conflicts (a, g, g) of samples (a,) of `n_samples`."""
        index = self.problem_of(samples, n_samples)
        if index is None:
            return self.conflicts.expand(len(samples), -1, -1)
        return self.conflicts[index]

    def arrays_of(self, samples, n_samples):
        """Return the ProblemArrays (a, ...) of samples (a,) of `n_samples`."""
        index = self.problem_of(samples, n_samples)
        if index is None:
            return ProblemArrays(
                *(array.expand(len(samples), -1) for array in self.arrays)
            )
        return ProblemArrays(*(array[index] for array in self.arrays))


def _arrays_of(problem, n_colours):
    """Return the arrays of a ConstrainedProblem, as ProblemArrays names them.

    The nodes without a colour begin at `n_colours`.
    """
    groups = problem.groups
    colours = problem.colours[groups]
    own_colours = int(colours.max(initial=-1)) + 1
    nodes = np.unique(
        np.where(colours >= 0, colours, len(groups) + groups), return_inverse=True
    )[1]
    n_edges = int(nodes.max()) + 1 - problem.n_clusters
    nodes = np.where(nodes >= own_colours, nodes + n_colours - own_colours, nodes)
    sizes = np.bincount(groups)
    singles = np.flatnonzero(sizes == 1)
    several = np.flatnonzero(sizes > 1)
    if not problem.greedy:
        # With as many classes as clusters, no group with a class can move.
        n_conflicts = problem.conflicts.sum(axis=1)
        several = several[n_conflicts[several] < problem.n_clusters - 1]
    return {
        "groups": groups,
        "nodes": nodes,
        "firsts": np.unique(groups, return_index=True)[1],
        "singles": singles,
        "several": several,
        "is_single": np.ones(len(singles), dtype=bool),
        "is_several": np.ones(len(several), dtype=bool),
        "sizes": sizes,
        "loads": np.bincount(groups, problem.weights),
        "weights": problem.weights,
        "n_edges": np.array([n_edges]),
        "n_groups": np.array([len(sizes)]),
        "is_greedy": np.array([problem.greedy]),
    }


def _padded(arrays, device):
    """Return arrays (m, ...) of different sizes as a tensor (p, m, ...), with zeros."""
    shape = np.max([array.shape for array in arrays], axis=0)
    stacked = np.zeros((len(arrays), *shape), dtype=arrays[0].dtype)
    for whole, array in zip(stacked, arrays, strict=True):
        whole[tuple(slice(size) for size in array.shape)] = array
    return to_tensor(stacked, device)


def constrained_trees(matrices, problem):
    """Return the constrained forests of dense matrices.

    Parameters
    ----------
    matrices : RankedMatrices
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
    labels = contract(matrices, problem)
    if problem.greedy:
        merged, is_done = merge_greedily(matrices.matrices, problem)
        labels = torch.where(is_done[:, None], merged, labels)
    return improve_forests(matrices, labels, problem)


def contract(matrices, problem):
    """Partitions (s, n) of the best forests in which every colour is one component."""
    ranks = matrices.ranks
    arrays = problem.arrays_of(_each(ranks), len(ranks))
    nodes = arrays.nodes
    n_hubs = problem.n_colours
    # Of the trees without a hub, in any problem.
    n_trees = 0 if problem.least_colours else 1
    if problem.is_contracted:
        ranks = contracted(ranks, nodes, problem.n_nodes)
        ranks[:, :n_hubs, :n_hubs] = NONE
        ranks.diagonal(dim1=1, dim2=2).fill_(SELF)
    forest = spanning_forest(ranks, n_trees=n_trees, n_hubs=n_hubs)
    if problem.n_clusters > max(problem.least_colours, 1):
        # The trees of the edges that are left are those of all pairs no lighter.
        if problem.edge_counts == {0}:
            light = torch.ones_like(ranks, dtype=torch.bool)
        else:
            lightest = forest.edges.gather(1, (arrays.n_edges - 1).clamp(min=0))
            light = ranks < lightest[:, :, None]
            if 0 in problem.edge_counts:
                light |= arrays.n_edges[:, :, None] == 0
        ranks = ranks.masked_fill(light, NONE)
        ranks.diagonal(dim1=1, dim2=2).fill_(SELF)
        forest = spanning_forest(
            ranks, n_trees=problem.n_clusters - problem.least_colours, n_hubs=n_hubs
        )
    # Where not every problem has colours, there may be more nodes than samples.
    return _by_first_row(trees_of(forest).gather(1, nodes), problem.n_nodes)


def merge_greedily(weights, problem):
    """Partitions (s, n) by Kruskal between groups that skips what conflicts forbid.

    Also returns in which samples (s,) it was to be tried, and reached n_clusters
    components.
    """
    (n_samples, n) = weights.shape[:2]
    arrays = problem.arrays_of(_each(weights), n_samples)
    n_groups = arrays.sizes.shape[1]
    groups = arrays.groups
    best = weights.new_full((n_samples, n, n_groups), -torch.inf)
    best.scatter_reduce_(2, groups[:, None].expand(weights.shape), weights, "amax")
    if problem.least_groups < n:
        by_row = best
        best = best.new_full((n_samples, n_groups, n_groups), -torch.inf)
        best.scatter_reduce_(1, groups[:, :, None].expand(by_row.shape), by_row, "amax")
    index = torch.arange(n_groups, device=weights.device)
    best.masked_fill_(index[:, None] >= index, -torch.inf)
    part = index.expand(n_samples, n_groups)
    clashes = problem.conflicts_of(_each(weights), n_samples)
    n_parts = arrays.n_groups[:, 0]
    for _ in range(n_groups - problem.n_clusters):
        same = part[:, :, None] == part[:, None, :]
        open_pairs = best.masked_fill(clashes | same, -torch.inf)
        top, at = open_pairs.flatten(1).max(dim=1)
        # Where there are fewer groups than elsewhere, fewer are merged.
        is_open = (top > -torch.inf) & (n_parts > problem.n_clusters)
        one = at // n_groups
        other = at % n_groups
        both = (clashes[_each(one), one] | clashes[_each(one), other])[:, None, :]
        one, other = part.gather(1, torch.stack([one, other], dim=1)).T[:, :, None]
        joined = ((part == one) | (part == other)) & is_open[:, None]
        part = torch.where(joined, one, part)
        clashes = clashes | (joined[:, :, None] & both)
        clashes = clashes | clashes.mT
        n_parts = n_parts - is_open.long()
    is_done = arrays.is_greedy[:, 0] & (n_parts == problem.n_clusters)
    return _by_first_row(part.gather(1, groups), n_groups), is_done


def improve_forests(matrices, labels, problem):
    """Move groups to other components while their trees get heavier.

    As `improve_forest` defines it for each sample; returns what `constrained_trees`
    does. Samples without another move leave the batch.
    """
    k = problem.n_clusters
    labels = labels.clone()
    (n_samples, n) = labels.shape
    device = labels.device
    pairs = torch.empty((n_samples, n - k), dtype=torch.int64, device=device)
    values = torch.empty((n_samples, n - k), **_like(matrices.values))
    active = torch.arange(n_samples, device=device)
    n_movable = problem.arrays.singles.shape[1] + problem.arrays.several.shape[1]
    n_rounds = MAX_ROUNDS if k > 1 and n_movable else 0
    unit = _gain_unit(matrices) if n_rounds else None
    stale = None
    for left in range(n_rounds, -1, -1):
        part = labels if len(active) == n_samples else labels[active]
        forest = _own_trees(matrices, active, part, k)
        places = matrices.places(forest.edges[:, : n - k])
        lookup = _Lookup(matrices, places, matrices.values[active[:, None], places])
        own = matrices.order[active[:, None], places]
        values[active] = lookup.lengths
        pairs[active] = own
        if not left:
            break
        arrays = problem.arrays_of(active, n_samples)
        moves = _proposals(
            active, part, problem, arrays, unit, forest, lookup, own, stale
        )
        # The host waits for the device here, once a round: it carries out the moves,
        # of which there are few, and learns which samples are left.
        done = _carry_out(*moves)
        if not len(done):
            break
        samples, groups, origins, targets, _ = (array[done] for array in moves)
        index = [to_tensor(a, device) for a in (samples, groups, targets)]
        homes = part.gather(1, arrays.firsts)
        homes[index[0], index[1]] = index[2]
        labels[active] = homes.gather(1, arrays.groups)
        remaining, number = np.unique(samples, return_inverse=True)
        active = active[to_tensor(remaining, device)]
        changed = np.zeros((len(remaining), k), dtype=bool)
        changed[number, origins] = True
        changed[number, targets] = True
        proposed = np.zeros((len(remaining), arrays.firsts.shape[1]), dtype=bool)
        wanted = moves[-1] > 0
        number = np.searchsorted(remaining, moves[0][wanted])
        proposed[number, moves[1][wanted]] = True
        stale = [~to_tensor(mask, device) for mask in (changed, proposed)]
    return labels, matrices.triangle.pairs[pairs], values


def _own_trees(matrices, active, labels, k):
    """Trees of the components (a, n) of some samples (a,), a RankedForest."""
    ranks = matrices.ranks if len(active) == len(matrices) else matrices.ranks[active]
    labels = labels.to(torch.int16 if k < 2**15 else torch.int32)
    apart = labels[:, :, None] != labels[:, None, :]
    ranks = ranks.masked_fill(apart, NONE)
    return spanning_forest(ranks, n_trees=k, at_least=k)


def _gain_unit(matrices):
    """Unit (s,) in which gains are compared."""
    # The heaviest pair and the lightest.
    last = matrices.triangle.n_pairs - 1
    top = matrices.values[:, :: max(last, 1)].abs().amax(dim=1)
    return torch.where(top > 0, UNIT * top, 1.0)


def _proposals(active, labels, problem, arrays, unit, forest, lookup, pairs, stale):
    """Return the moves that groups propose: one array (p,) on the host for each part.

    These are the number of the sample in `active`, the group, its origin, its target
    and the gain, in units, which is positive. The edges of the forests are `pairs`
    (a, n - k) of the triangle.

    `stale` are the components (a, k) that no move of the round before has changed, and
    the groups (a, g) that proposed none, or None in the first round: such a group finds
    no gain between such components, as before.
    """
    k = problem.n_clusters
    matrices = lookup.matrices
    lengths = lookup.lengths
    n_samples = len(labels)
    tree = labels.gather(1, matrices.triangle.heads[pairs])
    totals = lengths.new_zeros(n_samples, k).scatter_add_(1, tree, lengths)
    least = lengths.new_full((n_samples, k), torch.inf)
    least.scatter_reduce_(1, tree, lengths, "amin")

    homes = labels.gather(1, arrays.firsts)
    barred = homes[:, :, None] == torch.arange(k, device=homes.device)
    sizes = torch.zeros_like(totals).scatter_add_(
        1, homes, arrays.sizes.to(totals.dtype)
    )
    stays = sizes.gather(1, homes) - arrays.sizes < 1
    if problem.min_size > 0:
        masses = torch.zeros_like(totals).scatter_add_(1, labels, arrays.weights)
        stays |= masses.gather(1, homes) - arrays.loads < problem.min_size
    if problem.has_conflicts or arrays.several.shape[1]:
        inside = barred.to(lengths.dtype)
        conflicts = problem.conflicts.to(lengths.dtype)
        index = problem.problem_of(active, len(matrices))
        conflicts = conflicts if index is None else conflicts[index]
        barred = barred | ((conflicts @ inside) > 0)
    barred = barred | stays[:, :, None]
    if stale is not None:
        unchanged, idle = stale
        idle = idle & unchanged.gather(1, homes)
        barred |= unchanged[:, None, :] & idle[:, :, None]
    state = (matrices, active, labels, arrays, unit[active], totals)
    moves = []
    if arrays.singles.shape[1]:
        moves.append(_moves_of_singles(state, barred, least, forest, lookup))
    if arrays.several.shape[1]:
        moves.append(_moves_of_several(state, homes, barred))
    found = [torch.cat(parts) for parts in zip(*moves, strict=True)]
    return [to_numpy(part) for part in found]


class _Lookup(NamedTuple):
    """Lengths of the edges of some samples (a,), by their ranks.

    Attributes
    ----------
    matrices : RankedMatrices
    places : tensor of shape (a, e), int64
        Of the edges of each sample, the heaviest first.
    lengths : tensor of shape (a, e), float64
    """

    matrices: RankedMatrices
    places: torch.Tensor
    lengths: torch.Tensor

    def columns(self, ranks):
        """Return the columns of `lengths` that have ranks (a, ...), int32.

        `e` for `NONE` and `SELF`.
        """
        places = self.matrices.places(ranks.flatten(1))
        columns = torch.searchsorted(self.places, places, out_int32=True)
        return columns.view(ranks.shape)

    def padded(self, value):
        """Return the lengths (a, e + 1) with another one."""
        last = torch.full((len(self.lengths), 1), value, **_like(self.lengths))
        return torch.cat([self.lengths, last], dim=1)


def _moves_of_singles(state, barred, least, forest, lookup):
    """Return the moves of groups of one row, as `_proposals` does, on the device."""
    matrices, active, labels, arrays, unit, totals = state
    n = labels.shape[1]
    rows = arrays.firsts.gather(1, arrays.singles)
    each = _each(rows)[:, None]
    # Samples of one problem have the same rows.
    shared = rows[:1] if arrays.firsts.stride(0) == 0 else rows
    weights = matrices.weights[
        active[:, None, None], matrices.triangle.positions.view(n, n)[shared]
    ]
    # Of the heaviest edge of every component that there was, `inf` without any.
    tops = [level.top for level in forest.levels] or [forest.inner.amax(dim=2)]
    tops = torch.cat(tops, dim=1) if len(tops) > 1 else tops[0]
    tops = lookup.padded(torch.inf).gather(1, lookup.columns(tops).long())
    # A row takes its heaviest edge along, so the rows left behind lose at least that.
    reach = tops.gather(1, rows)
    low = (reach / unit[:, None]).round()
    bounds = _bounds(weights, labels, least, matrices.values[active, :1])
    hopeful = bounds > (reach - unit[:, None])[:, :, None]
    hopeful &= ~barred[each, arrays.singles]
    hopeful &= arrays.is_single[:, :, None]
    s, g = hopeful.any(dim=2).nonzero(as_tuple=True)
    added = _added(weights[s, g], s, labels, forest, tops, lookup, least.shape[1])
    added = (added / unit[s, None]).round().masked_fill_(~hopeful[s, g], -torch.inf)
    top, targets = added.max(dim=1)
    (better,) = (top > low[s, g]).nonzero(as_tuple=True)
    s, g, top, targets = (part[better] for part in (s, g, top, targets))
    row = rows[s, g]
    home = labels[s, row]
    members = (labels[s] == home[:, None]) & (
        torch.arange(n, device=row.device) != row[:, None]
    )
    lost = totals[s, home] - _tree_weights(matrices, active[s], members)
    gains = top - (lost / unit[s]).round()
    return s, arrays.singles[s, g], home, targets, gains


def _moves_of_several(state, homes, barred):
    """Return the moves of groups of several rows, as `_moves_of_singles` does."""
    matrices, active, labels, arrays, unit, totals = state
    several = arrays.several
    may_move = ~barred[_each(several)[:, None], several] & arrays.is_several[:, :, None]
    s, a, c = may_move.nonzero(as_tuple=True)
    g = several[s, a]
    members = (labels[s] == c[:, None]) | (arrays.groups[s] == g[:, None])
    gained = _tree_weights(matrices, active[s], members) - totals[s, c]
    added = unit.new_full(may_move.shape, -torch.inf)
    added[s, a, c] = (gained / unit[s]).round()
    top, targets = added.max(dim=2)
    s, a = (top > -torch.inf).nonzero(as_tuple=True)
    g = several[s, a]
    home = homes[s, g]
    members = (labels[s] == home[:, None]) & (arrays.groups[s] != g[:, None])
    lost = totals[s, home] - _tree_weights(matrices, active[s], members)
    gains = top[s, a] - (lost / unit[s]).round()
    return s, g, home, targets[s, a], gains


def _bounds(weights, labels, least, heaviest):
    """Bound from above what rows of weights (s, u, n) add to each tree, (s, u, k).

    The sum of the heaviest edge and, for every further edge, what it exceeds the
    lightest edge of the tree (s, k) by, since each of these replaces an edge. No pair
    is heavier than `heaviest` (s, 1).
    """
    # Those of trees without an edge are infinite.
    floor = torch.minimum(least, heaviest)
    members = torch.zeros(*labels.shape, least.shape[1], **_like(least))
    members.scatter_(2, labels[:, :, None], 1.0)
    total = torch.maximum(weights, floor.gather(1, labels)[:, None]) @ members
    total -= (members.sum(dim=1) * floor)[:, None]
    top = torch.full(total.shape, NO_WAY, **_like(least))
    top.scatter_reduce_(2, labels[:, None].expand(weights.shape), weights, "amax")
    return total.add_(torch.minimum(top, least[:, None]))


def _added(weights, samples, labels, forest, tops, lookup, k):
    """What rows of weights (q, n) add to each tree of their samples, (q, k).

    From the samples up, each component compares its heaviest connection to the row with
    its heaviest edge: the lighter of the two is passed on to the component that it
    becomes a part of, the heavier one stays.
    """
    widths = [level.top.shape[1] for level in forest.levels]
    sizes = [*widths, forest.inner.shape[1]]
    # Of all levels and of what is left: the ways, then what of them stays.
    ways = torch.full((len(weights), sum(sizes)), NO_WAY, **_like(weights))
    ways[:, : weights.shape[1]] = weights
    ways_of = ways.split(sizes, 1)
    if widths:
        intos = torch.cat([level.into for level in forest.levels], dim=1)[samples]
        parts = (tops[samples].split(widths, 1), intos.split(widths, 1), ways_of[1:])
        for way, top, into, above in zip(ways_of[:-1], *parts, strict=True):
            onward = torch.minimum(way, top)
            above.scatter_reduce_(1, into, onward, "amax")
            way.sub_(onward)
    # The best ways to what is left, from the heaviest down: a further one replaces the
    # lightest edge between its end and those of the ways before it.
    if forest.bottlenecks is not None:
        last = ways_of[-1]
        e = lookup.lengths.shape[1]
        small = torch.int16 if e < 2**15 else torch.int32
        between = lookup.columns(forest.bottlenecks).to(small)
        place = last.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
        place = place.to(small)
        after = place[:, None, :] >= place[:, :, None]
        lightest = between[samples].masked_fill_(after, e).amin(dim=2)
        lengths = lookup.padded(-torch.inf)[samples[:, None], lightest.long()]
        replaced = torch.minimum(last, lengths)
        last.sub_(replaced.masked_fill_(lengths == -torch.inf, 0.0))
    trees = labels.new_full((len(labels), sizes[-1]), k)
    trees = [trees.scatter_(1, forest.nodes, labels)]
    for level in forest.levels[:0:-1]:
        trees.append(trees[-1].gather(1, level.into))
    trees = torch.cat([labels, *trees[::-1]] if widths else trees, dim=1)
    added = torch.zeros(len(weights), k + 1, **_like(weights))
    return added.scatter_add_(1, trees[samples], ways)[:, :k]


def _tree_weights(matrices, samples, members):
    """Weights (m,) of the trees of members (m, n), bool, in the samples (m,)."""
    found = [torch.empty(0, **_like(matrices.values))]
    size = int(members.sum(dim=1).max()) if len(members) else 0
    entries = size**2 + min(size, _FEW_OF_MANY) ** 3
    step = max(1, _ENTRIES_AT_ONCE // max(entries, 1))
    for first in range(0, len(members), step):
        part = samples[first : first + step]
        inside = members[first : first + step]
        order = inside.int().argsort(dim=1, descending=True, stable=True)[:, :size]
        padded = ~inside.gather(1, order)
        own = matrices.ranks[part[:, None, None], order[:, :, None], order[:, None, :]]
        own.masked_fill_(padded[:, :, None] | padded[:, None, :], NONE)
        own.diagonal(dim1=1, dim2=2).fill_(SELF)
        edges = spanning_forest(own, few=_FEW_OF_MANY).edges[:, : max(size - 1, 0)]
        places = matrices.places(edges.clamp(min=SELF + 1))
        values = matrices.values[part[:, None], places]
        found.append(values.masked_fill_(edges <= SELF, 0.0).sum(dim=1))
    return torch.cat(found)


def _carry_out(samples, groups, homes, targets, gains):
    """Return the numbers (m,) of the moves that are carried out, an array.

    The largest gain of a sample first, one after another, unless they touch a component
    that has changed.
    """
    order = np.lexsort((groups, -gains, samples))
    order = order[gains[order] > 0]
    done = []
    while len(order):
        first = order[np.unique(samples[order], return_index=True)[1]]
        done.append(first)
        # The move of the same sample that was just carried out, for each that is left.
        last = first[np.searchsorted(samples[first], samples[order])]
        apart = np.ones(len(order), dtype=bool)
        for end in (homes, targets):
            apart &= (end[order] != homes[last]) & (end[order] != targets[last])
        order = order[apart]
    return np.concatenate(done) if done else np.empty(0, dtype=np.intp)


def _like(tensor):
    """Return the type and the device of a tensor.

    Named apart, the tensor is not an operand of what is made like it.
    """
    return {"dtype": tensor.dtype, "device": tensor.device}


def _rows(like):
    """Return the numbers of rows as components (s, n) of one row each."""
    return torch.arange(like.shape[1], device=like.device).expand(like.shape)


def _each(like):
    """Return the numbers of samples (s,)."""
    return torch.arange(len(like), device=like.device)


def _by_first_row(component, size):
    """Number components (s, n), below size, from 0 in the order of their first rows."""
    rows = _rows(component)
    first = component.new_full((len(component), size), component.shape[1])
    first.scatter_reduce_(1, component, rows, "amin")
    first = first.gather(1, component)
    return ((first == rows).cumsum(dim=1) - 1).gather(1, first)
