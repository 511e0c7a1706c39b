"""The spanning tree in torch: merge heights, and their gradient."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.cluster.hierarchy import linkage

from skdiffclust.forests import minimum_spanning_tree
from skdiffclust.nn import spanning_tree


def points_of(shape, seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n, d", [(2, 1), (40, 3), (1200, 2)])
def test_lengths_are_the_merge_heights_of_single_linkage(
    n, d, dtype, global_random_seed
):
    X = points_of((n, d), global_random_seed, dtype)
    edges, lengths = spanning_tree(X)
    assert edges.shape == (n - 1, 2) and edges.dtype == torch.int64
    assert lengths.dtype == dtype
    heights = linkage(X.numpy(), "single")[:, 2]
    assert_allclose(lengths, heights, rtol=1e-6 if dtype == torch.float32 else 1e-12)
    tree = minimum_spanning_tree(X.numpy())
    assert_array_equal(edges, tree.edges[::-1])


def test_the_gradient_of_a_length_is_the_direction_of_its_edge(global_random_seed):
    X = points_of((2, 3, 30, 4), global_random_seed).requires_grad_()
    weights = points_of((2, 3, 29), global_random_seed + 1)
    edges, lengths = spanning_tree(X)
    (found,) = torch.autograd.grad((weights * lengths).sum(), X)
    ends = [X.gather(-2, edges[..., end, None].expand(-1, -1, -1, 4)) for end in (0, 1)]
    indexed = (ends[0] - ends[1]).norm(dim=-1)
    torch.testing.assert_close(lengths, indexed)
    (expected,) = torch.autograd.grad((weights * indexed).sum(), X)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_batch_has_the_trees_of_its_items(global_random_seed):
    X = points_of((2, 2, 9, 3), global_random_seed).requires_grad_()
    edges, lengths = spanning_tree(X)
    (gradient,) = torch.autograd.grad(lengths[..., -2:].sum(), X)
    for i in range(2):
        for j in range(2):
            item = X[i, j].detach().requires_grad_()
            own_edges, own_lengths = spanning_tree(item)
            own_lengths[-2:].sum().backward()
            assert torch.equal(edges[i, j], own_edges)
            assert torch.equal(lengths[i, j], own_lengths)
            assert torch.equal(gradient[i, j], item.grad)


@pytest.mark.parametrize("shape", [(7, 2), (2, 5, 3)])
def test_lengths_pass_gradcheck(shape, global_random_seed):
    X = points_of(shape, global_random_seed).requires_grad_()
    assert torch.autograd.gradcheck(lambda X: spanning_tree(X)[1], X)


def test_equal_samples_get_no_gradient_from_the_edge_between_them():
    X = torch.tensor([[0.0, 1.0], [3.0, 5.0], [0.0, 1.0]], requires_grad=True)
    edges, lengths = spanning_tree(X)
    assert edges.tolist() == [[0, 2], [0, 1]] and lengths.tolist() == [0.0, 5.0]
    (first,) = torch.autograd.grad(lengths[0], X, retain_graph=True)
    assert not first.any()
    lengths.sum().backward()
    torch.testing.assert_close(
        X.grad, torch.tensor([[-0.6, -0.8], [0.6, 0.8], [0.0, 0.0]])
    )


def test_samples_far_from_the_origin_keep_their_gradient():
    X = points_of((20, 2), 0) + 1e8
    X.requires_grad_()
    lengths = spanning_tree(X)[1]
    lengths.sum().backward()
    near = (X.detach() - 1e8).requires_grad_()
    spanning_tree(near)[1].sum().backward()
    torch.testing.assert_close(X.grad, near.grad, rtol=1e-12, atol=1e-12)


def test_smallest_inputs_and_other_layouts(global_random_seed):
    edges, lengths = spanning_tree(torch.zeros(1, 2, requires_grad=True))
    assert edges.shape == (0, 2) and lengths.shape == (0,)
    lengths.sum().backward()
    edges, lengths = spanning_tree(torch.zeros(0, 4, 2))
    assert edges.shape == (0, 3, 2) and lengths.shape == (0, 3)
    X = points_of((3, 8), global_random_seed)
    before = X.clone()
    assert torch.equal(spanning_tree(X.mT)[1], spanning_tree(X.mT.contiguous())[1])
    assert torch.equal(X, before)
    half = X.mT.half()
    assert torch.equal(spanning_tree(half)[1], spanning_tree(half.float())[1])


@pytest.mark.parametrize(
    "X, error, match",
    [
        (np.zeros((3, 2)), TypeError, "tensor .* of shape .* Got float64 ndarray"),
        (torch.zeros(3), ValueError, r"tensor .* Got one of shape \(3,\)"),
        (torch.zeros(0, 2), ValueError, r"not empty. Got shape \(0, 2\)"),
        (torch.zeros(2, 3, 0), ValueError, r"not empty. Got shape \(2, 3, 0\)"),
        (torch.tensor([[0.0], [torch.nan]]), ValueError, "finite .* with 1 values"),
        (torch.tensor([[0.0], [1e300]], dtype=torch.float64), ValueError, "overflow"),
    ],
)
def test_what_has_no_tree_is_refused(X, error, match):
    with pytest.raises(error, match=match):
        spanning_tree(X)


def test_the_k_minus_1_longest_edges_part_k_blobs(global_random_seed):
    """As the guide says: their sum grows until the clusters are apart."""
    X = (
        points_of((3, 10, 2), global_random_seed)
        + torch.tensor([0.0, 9.0, 18.0])[:, None, None]
    )
    X = X.reshape(30, 2).requires_grad_()
    gap = spanning_tree(X)[1][-2:].sum()
    gap.backward()
    moved = X.detach() + 0.1 * X.grad
    assert spanning_tree(moved)[1][-2:].sum() > gap
