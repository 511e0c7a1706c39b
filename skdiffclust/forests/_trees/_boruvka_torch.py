"""Maximum spanning forests of many dense matrices at once, in torch.

Pairs are ranked by weight once, so that no two are equal and one maximum gives the edge
of a component and the component at its other end. The matrix is contracted after each
round of Borůvka's algorithm; what is left of it is solved by its bottlenecks. A device
is asked for few calls, and for less memory traffic in each.
"""

import torch

# Ranks of no pair, and of a sample with itself; those of pairs follow.
NONE = 0
SELF = 1
# The components of a matrix below which its bottlenecks are computed: c³ numbers each.
_FEW = 32


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

    def edges(self, ranks):
        """Return the edges (s, e), i * n + j, and the weights (s, e), of ranks (s, e).

        All are ranks of pairs.
        """
        places = self.triangle.n_pairs + SELF - ranks.long()
        return (
            self.triangle.pairs[self.order.gather(1, places)],
            self.values.gather(1, places),
        )


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


def bottlenecks_of(ranks):
    """Return the bottlenecks (s, c, c) of ranks (s, c, c), the diagonal not read.

    The largest rank so that edges of at least this rank join two components, `NONE` if
    none do; on the diagonal more than every rank.
    """
    ranks = ranks.clone()
    ranks.diagonal(dim1=1, dim2=2).fill_(torch.iinfo(ranks.dtype).max)
    # No path has more edges than a tree of all.
    for _ in range(max(ranks.shape[1] - 2, 0).bit_length()):
        ranks = torch.minimum(ranks[:, :, None], ranks[:, None]).amax(dim=3)
    return ranks


def spanning_forest(ranks):
    """Return the ranks of the edges of maximum spanning trees, the heaviest first.

    (s, e), of which the first n - 1 are edges.

    Parameters
    ----------
    ranks : tensor of shape (s, n, n), int16 or int32
        Symmetric. No two pairs are equal; `SELF` on the diagonal.
    """
    n = ranks.shape[1]
    numbers = torch.arange(n, device=ranks.device)
    rounds = []
    while ranks.shape[1] > _FEW:
        c = ranks.shape[1]
        index = numbers[:c]
        top, other = ranks.max(dim=2)
        # Of two that chose the same edge the first stays a root.
        is_mutual = other.gather(1, other) == index
        parents = torch.where(is_mutual, torch.minimum(other, index), other)
        is_root = parents == index
        rounds.append(top.masked_fill(is_root, NONE))
        for _ in range((c - 1).bit_length()):
            parents = parents.gather(1, parents)
        size = (c + 1) // 2
        places = (is_root.cumsum(dim=1) - 1).clamp_(max=size - 1)
        into = places.gather(1, parents)
        ranks = contracted(ranks, into, size)
        ranks.diagonal(dim1=1, dim2=2).fill_(SELF)
    inner = ranks.masked_fill(ranks != bottlenecks_of(ranks), NONE)
    # Every edge is there twice.
    last = 2 * (ranks.shape[1] - 1)
    rounds.append(inner.flatten(1).sort(dim=1, descending=True).values[:, :last:2])
    edges = torch.cat(rounds, dim=1)
    if n > _FEW:
        edges = edges.sort(dim=1, descending=True).values
    return edges
