"""Maximum spanning forests of many dense matrices at once, in torch.

Pairs are ranked by weight once, so that no two are equal and one maximum gives the edge
of a component and the component at its other end. The matrix is contracted after each
round of Borůvka's algorithm; what is left of it is solved by its bottlenecks. A device
is asked for few calls, and for less memory traffic in each.
"""

from functools import cached_property
from typing import NamedTuple

import torch

# Ranks of no pair, and of a sample with itself; those of pairs follow.
NONE = 0
SELF = 1
# The components of a matrix below which its bottlenecks are computed: c³ numbers each.
_FEW = 32
# What is added to a tree by a way that there is not; -inf less itself would be NaN.
NO_WAY = -1e300


class Triangle:
    """The pairs i < j of n samples, row by row, and where a matrix has them.

    Parameters
    ----------
    n : int
    device : torch.device

    Attributes
    ----------
    heads, tails : tensor of shape (m,), int64
        The samples i and j of each pair.
    pairs : tensor of shape (m,), int64
        i * n + j.
    positions : tensor of shape (n * n,), int64
        Pair of each entry of a matrix; m on the diagonal.
    """

    def __init__(self, n, device):
        self.n = n
        self.n_pairs = n * (n - 1) // 2
        self.heads, self.tails = torch.triu_indices(n, n, 1, device=device)
        self.pairs = torch.add(self.tails, self.heads, alpha=n)
        positions = torch.zeros(n * n, dtype=torch.int64, device=device)
        positions[self.pairs] = torch.arange(self.n_pairs, device=device)
        positions = positions.view(n, n)
        positions = (positions + positions.T).fill_diagonal_(self.n_pairs).view(-1)
        self.positions = positions

    def spread(self, weights):
        """Return the matrices (s, n, n) of weights (s, m + 1), the last the diagonal's.

        Symmetric.
        """
        return weights.index_select(1, self.positions).unflatten(1, (self.n, self.n))


class RankedMatrices:
    """Symmetric matrices, whose pairs are ranked by weight.

    Parameters
    ----------
    weights : tensor of shape (s, m + 1), float64
        Of the pairs of a Triangle; the last column is 0.
    triangle : Triangle

    Attributes
    ----------
    ranks : tensor of shape (s, n, n), int16 or int32
        Rank of each pair, from the lightest up; of equal weights the pair that comes
        first is the heavier one. `SELF` on the diagonal.
    order : tensor of shape (s, m), int64
        Pairs, the heaviest first.
    values : tensor of shape (s, m), float64
        Their weights.
    """

    def __init__(self, weights, triangle):
        self.weights = weights
        self.triangle = triangle
        m = triangle.n_pairs
        self.values, self.order = weights[:, :m].sort(
            dim=1, descending=True, stable=True
        )
        # 16 bits are enough for 256 samples, and half of the memory traffic.
        top = m + SELF
        dtype = torch.int16 if top < torch.iinfo(torch.int16).max else torch.int32
        places = torch.arange(top, SELF, -1, device=weights.device, dtype=dtype)
        ranks = torch.full(weights.shape, SELF, dtype=dtype, device=weights.device)
        ranks[:, :m].scatter_(1, self.order, places.expand(len(weights), m))
        self.ranks = triangle.spread(ranks)

    def __len__(self):
        return len(self.weights)

    @cached_property
    def matrices(self):
        """The matrices (s, n, n), with a zero diagonal."""
        return self.triangle.spread(self.weights)

    def places(self, ranks):
        """Return the columns of `order` and `values` that have ranks (s, ...)."""
        return self.triangle.n_pairs + SELF - ranks.long()

    def edges(self, ranks):
        """Return the edges (s, e), i * n + j, and the weights (s, e), of ranks (s, e).

        All are ranks of pairs.
        """
        places = self.places(ranks)
        return (
            self.triangle.pairs[self.order.gather(1, places)],
            self.values.gather(1, places),
        )


class Level(NamedTuple):
    """A round of Borůvka's algorithm on c components.

    Attributes
    ----------
    top : tensor of shape (s, c), of ranks
        Rank of the heaviest edge of each component, at most `SELF` without any.
    into : tensor of shape (s, c), int64
        Component that it is a part of after the round.
    """

    top: torch.Tensor
    into: torch.Tensor


class RankedForest(NamedTuple):
    """Maximum spanning forests of ranked matrices, and how they were found.

    Attributes
    ----------
    edges : tensor of shape (s, e), of ranks
        Ranks of the edges, the heaviest first, then `NONE`.
    levels : list of Level
    nodes : tensor of shape (s, n), int64
        Component, after the last level, that each sample is in.
    inner : tensor of shape (s, c, c), of ranks
        Ranks of the edges between such components, `NONE` elsewhere.
    bottlenecks : tensor of shape (s, c, c), of ranks, or None
        The largest rank so that edges of at least this rank join two components,
        `NONE` if none do; on the diagonal more than every rank. None if every tree is
        one component.
    """

    edges: torch.Tensor
    levels: list
    nodes: torch.Tensor
    inner: torch.Tensor
    bottlenecks: torch.Tensor


def contracted(ranks, into, size):
    """Contract nodes of ranks (s, c, c) into `size` nodes, whose numbers are (s, c)."""
    (n_samples, c) = into.shape
    like = {"dtype": ranks.dtype, "device": ranks.device}
    rows = torch.zeros(n_samples, size, c, **like).scatter_reduce_(
        1, into[:, :, None].expand(-1, -1, c), ranks, "amax"
    )
    return torch.zeros(n_samples, size, size, **like).scatter_reduce_(
        2, into[:, None, :].expand(-1, size, -1), rows, "amax"
    )


def bottlenecks_of(ranks, n_trees=1):
    """Return the bottlenecks (s, c, c) of ranks (s, c, c), the diagonal not read.

    There are at least `n_trees` trees.
    """
    ranks = ranks.clone()
    ranks.diagonal(dim1=1, dim2=2).fill_(torch.iinfo(ranks.dtype).max)
    # No path has more edges than the largest tree that there may be.
    n_edges = ranks.shape[1] - n_trees
    for _ in range(max(n_edges - 1, 0).bit_length()):
        ranks = torch.minimum(ranks[:, :, None], ranks[:, None]).amax(dim=3)
    return ranks


def spanning_forest(ranks, n_trees=1, n_hubs=0, few=_FEW, at_least=1):
    """Return the maximum spanning forests of ranked graphs, as a RankedForest.

    Parameters
    ----------
    ranks : tensor of shape (s, c, c), int16 or int32
        Symmetric. No two pairs are equal but those of rank `NONE`, which are no edges;
        `SELF` on the diagonal.
    n_trees : int, default=1
        Upper bound of the number of trees without a hub. All other nodes, past those
        bounded, come last and have no edges.
    n_hubs : int, default=0
        The first nodes, which count as one and have no edges between them.
    few : int, default=32
        Stop to contract at so many components.
    at_least : int, default=1
        Lower bound of the number of trees.
    """
    n_rounds = ranks.shape[1].bit_length()
    levels = []
    found = []
    numbers = torch.arange(ranks.shape[1], device=ranks.device)
    nodes = numbers.expand(ranks.shape[:2])
    while ranks.shape[1] > few and len(levels) < n_rounds:
        c = ranks.shape[1]
        index = numbers[:c]
        top, other = ranks.max(dim=2)
        if n_hubs:
            other[:, :n_hubs] = index[:n_hubs]
        # Of two that chose the same edge the first stays a root.
        is_mutual = other.gather(1, other) == index
        parents = torch.where(is_mutual, torch.minimum(other, index), other)
        is_root = parents == index
        found.append(top.masked_fill(is_root, NONE))
        for _ in range((c - at_least).bit_length()):
            parents = parents.gather(1, parents)
        size = n_hubs + (c - n_hubs + n_trees) // 2
        # Nodes without edges past those that n_trees counts share the last number.
        places = (is_root.cumsum(dim=1) - 1).clamp_(max=size - 1)
        into = places.gather(1, parents)
        ranks = contracted(ranks, into, size)
        if n_hubs:
            ranks[:, :n_hubs, :n_hubs] = NONE
        ranks.diagonal(dim1=1, dim2=2).fill_(SELF)
        levels.append(Level(top, into))
        nodes = into.gather(1, nodes) if len(levels) > 1 else into
    bottlenecks = None
    inner = ranks
    if ranks.shape[1] <= few:
        through = ranks.clone() if n_hubs else ranks
        if n_hubs:
            through[:, :n_hubs, :n_hubs] = torch.iinfo(ranks.dtype).max
        bottlenecks = bottlenecks_of(through, at_least)
        inner = ranks.masked_fill(ranks != bottlenecks, NONE)
        # Every edge is there twice.
        last = 2 * (ranks.shape[1] - 1)
        inside = inner.flatten(1).sort(dim=1, descending=True).values
        found.append(inside[:, :last:2])
    edges = found[0]
    if len(found) > 1:
        edges = torch.cat(found, dim=1).sort(dim=1, descending=True).values
    elif levels:
        edges = edges.sort(dim=1, descending=True).values
    return RankedForest(edges, levels, nodes, inner, bottlenecks)


def trees_of(forest):
    """Return a number (s, n) for the tree that each sample is in, hubs apart."""
    if forest.bottlenecks is None:
        return forest.nodes
    linked = bottlenecks_of(forest.inner) > NONE
    index = torch.arange(linked.shape[1], device=linked.device)
    first = torch.where(linked, index, len(index)).amin(dim=2)
    return first.gather(1, forest.nodes)
