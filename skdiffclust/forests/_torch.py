"""The minimum spanning tree of points in torch, differentiable in its lengths."""

from math import prod

import numpy as np
import torch
from scipy.sparse import csc_array

from skdiffclust._torch import (
    differentiated_once,
    outside_compiler,
    refuse_transforms,
    to_numpy,
    trained_tensor,
)
from skdiffclust.forests._minimum_spanning_tree import tree_of


class _Tree(torch.autograd.Function):
    """Edges (..., n - 1, 2) and lengths (..., n - 1) of the trees of X (..., n, d)."""

    @staticmethod
    def forward(ctx, X):
        points = to_numpy(X)
        *batch, n_samples, n_features = ctx.shape = points.shape
        if 0 in points.shape[-2:] or not np.isfinite(points).all():
            raise ValueError(
                "The 'X' argument of spanning_tree must be finite and not empty. Got "
                f"shape {points.shape} with {np.sum(~np.isfinite(points))} values that "
                "are NaN or infinite instead."
            )
        items = points.reshape(prod(batch), n_samples, n_features)
        edges = np.empty((len(items), n_samples - 1, 2), dtype=np.int64)
        lengths = np.empty(edges.shape[:2])
        for item, rows in enumerate(items):
            tree = tree_of(rows, "euclidean")
            edges[item] = tree.edges[::-1]
            lengths[item] = tree.lengths[::-1]
        # The rows of all items, one below the other.
        first = n_samples * np.arange(len(items))[:, None, None]
        ctx.ends = (edges + first).reshape(-1, 2)
        rows = items.reshape(-1, n_features).astype(np.float64, copy=False)
        directions = rows.take(ctx.ends[:, 0], axis=0)
        directions -= rows.take(ctx.ends[:, 1], axis=0)
        # Between equal samples the length has no gradient, and 0 is taken for it.
        directions /= np.where(lengths > 0, lengths, 1.0).reshape(-1, 1)
        ctx.directions = directions
        edges = torch.from_numpy(edges.reshape(*batch, n_samples - 1, 2)).to(X.device)
        ctx.mark_non_differentiable(edges)
        return edges, torch.from_numpy(lengths.reshape(edges.shape[:-1])).to(X)

    @staticmethod
    @differentiated_once
    def backward(ctx, _, to_lengths):
        slopes = to_numpy(to_lengths.double()).repeat(2)
        slopes[1::2] *= -1.0
        # One row for each sample and one column for each edge.
        incidence = csc_array(
            (
                slopes,
                ctx.ends.ravel(),
                np.arange(0, len(slopes) + 1, 2),
            ),
            shape=(prod(ctx.shape[:-1]), len(slopes) // 2),
        )
        gradient = incidence @ ctx.directions
        return torch.from_numpy(gradient.reshape(ctx.shape)).to(to_lengths)


@outside_compiler
def spanning_tree(X) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute minimum spanning trees whose lengths are differentiable in the samples.

    The lengths in ascending order are the merge heights of single linkage: the
    distances at which clusters join, and the finite deaths of persistent homology in
    dimension 0. The gradient of a length is the unit vector between its two ends.

    Parameters
    ----------
    X : tensor of shape (..., n, d)
        Samples, such as the embedding of a batch. n is at least 1.

    Returns
    -------
    edges : tensor of shape (..., n - 1, 2), int64
        Edges (i, j) with i < j, in the order of their lengths.
    lengths : tensor of shape (..., n - 1)
        Euclidean lengths of the edges in ascending order, float32 for X of half
        precision and of the dtype of X otherwise.

    Raises
    ------
    TypeError
        If X is not a tensor of real numbers.
    ValueError
        If X has less than two dimensions, is empty or not finite, or if the gradient is
        to be differentiated again.

    See Also
    --------
    skdiffclust.forests.minimum_spanning_tree : The same tree in NumPy, for any metric.

    Notes
    -----
    The tree is found outside autograd, exactly, from a copy of CUDA tensors on the CPU,
    one batch item after the other; O(n d) memory. The gradient is stored with the tree
    and costs O(n d). Between equal samples, where the length is 0, it is taken to be 0.
    With ties, it is that of the tree in the order of (length, i, j).

    Examples
    --------
    >>> import torch
    >>> from skdiffclust.nn import spanning_tree
    >>> X = torch.tensor([[0.0], [5.0], [1.0]], requires_grad=True)
    >>> edges, lengths = spanning_tree(X)
    >>> lengths.tolist()
    [1.0, 4.0]
    >>> lengths[-1].backward()  # how separate two clusters are
    >>> X.grad.T
    tensor([[ 0.,  1., -1.]])
    """
    X = trained_tensor(X, "X", "spanning_tree", "(..., n, d)")
    refuse_transforms(X, "spanning_tree")
    return _Tree.apply(X)
