"""Borůvka's algorithm on many dense matrices at once, in torch."""

from typing import NamedTuple

import numpy as np
import torch


class BoruvkaRound(NamedTuple):
    """A round of `batched_boruvka`.

    Attributes
    ----------
    component : tensor of shape (s, n), int64
        Root of each row after the round.
    top : tensor of shape (s, n), float64
        At every root before it, the weight of its heaviest edge, infinite if it has
        none.
    """

    component: torch.Tensor
    top: torch.Tensor


def _jump(parents, n_times):
    """Follow parents (s, n) to their roots by doubling."""
    for _ in range(n_times):
        parents = parents.gather(1, parents)
    return parents


def _hook(component, found, other, index, n_times):
    """Hook components (s, n) that found an edge onto the component at its other end.

    Of two that chose the same edge the smaller one stays a root. `found` and `other`
    are per root. Returns the new components and which roots were hooked.
    """
    target = torch.where(found, other, index)
    mutual = (target.gather(1, target) == index) & (index < target)
    hooked = found & ~mutual & (target != index)
    parents = torch.where(hooked, target, index)
    return _jump(parents, n_times).gather(1, component), hooked


def batched_boruvka(weights, component, levels=None):
    """Grow maximum spanning forests of dense matrices, all samples at once.

    Parameters
    ----------
    weights : tensor of shape (s, n, n), float64
        Symmetric, -inf where there is no edge. Written to.
    component : tensor of shape (s, n), int64
        First row of the block that each row is in; blocks are contracted.
    levels : list, default=None
        Takes a `BoruvkaRound` for each round.

    Returns
    -------
    edges : tensor of shape (s, n), int64
        i * n + j with i < j, of the edge by which a row's block was joined; -1 where
        none was. In the total order of edges the forest is unique.
    """
    n_samples, n = component.shape
    n_rounds = max(int(np.ceil(np.log2(max(n, 2)))), 1)
    index = torch.arange(n, device=weights.device).expand(n_samples, n)
    edges = torch.full_like(component, -1)
    last = n * n
    for _ in range(n_rounds):
        weights.masked_fill_(component[:, :, None] == component[:, None, :], -torch.inf)
        top = weights.max(dim=2).values
        nearest = weights.argmax(dim=2)
        rank = torch.minimum(index, nearest) * n + torch.maximum(index, nearest)
        best = torch.full_like(top, -torch.inf)
        best.scatter_reduce_(1, component, top, "amax")
        wins = (top == best.gather(1, component)) & (top > -torch.inf)
        ranks = torch.full_like(component, last)
        ranks.scatter_reduce_(
            1, component, rank.where(wins, rank.new_tensor(last)), "amin"
        )
        found = ranks < last
        i = ranks.clamp(max=last - 1) // n
        j = ranks.clamp(max=last - 1) % n
        ends = component.gather(1, i), component.gather(1, j)
        other = torch.where(ends[0] == index, ends[1], ends[0])
        component, hooked = _hook(component, found, other, index, n_rounds)
        edges = torch.where(hooked, ranks, edges)
        if levels is not None:
            levels.append(BoruvkaRound(component, torch.where(found, best, torch.inf)))
    return edges


def heaviest_edges(weights, edges, n_edges):
    """Return the heaviest n_edges (s, n_edges) of edges (s, n) and their weights."""
    last = weights.shape[1] ** 2
    edges = torch.where(edges < 0, last, edges).sort(dim=1).values
    values = weights.flatten(1).gather(1, edges.clamp(max=last - 1))
    values = torch.where(edges < last, values, -torch.inf)
    values, order = values.sort(dim=1, descending=True, stable=True)
    return edges.gather(1, order)[:, :n_edges], values[:, :n_edges]


def components_of(edges, component):
    """Return the components (s, n) that edges (s, m) make of blocks (s, n)."""
    n_samples, n = component.shape
    m = edges.shape[1]
    n_rounds = max(int(np.ceil(np.log2(max(n, 2)))), 1)
    index = torch.arange(n, device=edges.device).expand(n_samples, n)
    positions = torch.arange(m, device=edges.device).expand(n_samples, m)
    if not m:
        return component
    for _ in range(n_rounds):
        ends = component.gather(1, edges // n), component.gather(1, edges % n)
        open_edges = torch.where(ends[0] == ends[1], m, positions)
        first = torch.full_like(index, m)
        for end in ends:
            first.scatter_reduce_(1, end, open_edges, "amin")
        chosen = first.clamp(max=m - 1)
        one, two = (end.gather(1, chosen) for end in ends)
        other = torch.where(one == index, two, one)
        component, _ = _hook(component, first < m, other, index, n_rounds)
    return component
