"""Forests of a batch of affinities: on the CPU, or all together on a device."""

from dataclasses import dataclass

import numpy as np
import torch

from skdiffclust._torch import differentiated_once, to_numpy, to_tensor
from skdiffclust._warnings import warn
from skdiffclust.forests._perturbed._perturbation import (
    connectivity_of,
    partial_loss_with_gradient,
    sum_samples,
    vjp,
)
from skdiffclust.forests._perturbed._relation import relation_of
from skdiffclust.forests._perturbed._samplers import MOST, Noise, make_sampler


@dataclass(frozen=True)
class Request:
    """What a call asks for, besides the affinity."""

    n_clusters: int
    noise: Noise
    constraints: object


def _symmetrized(tensor, dtype):
    """Return a detached, symmetrised copy (..., n, n) of a tensor.

    Its diagonal, which is ignored, is set to zero.
    """
    matrix = tensor.detach().to(dtype)
    matrix = 0.5 * (matrix + matrix.mT)
    matrix.diagonal(dim1=-2, dim2=-1).zero_()
    return matrix


def _is_usable(matrix):
    """Whether noisy copies of a matrix (n, n) are finite; warns of -inf."""
    if (np.abs(matrix) <= MOST).all():
        return True
    if np.isneginf(matrix).any():
        warn(
            "An affinity is -inf, for which the result is NaN: -inf is no mask. Pass "
            "cannot-links as constraints for pairs that must not share a cluster, or "
            "give them an affinity far below all others, for example the least one "
            "minus a hundred times noise_scale.",
        )
    return False


class OnCpu:
    """Forests of a batch of affinities, one after another by the compiled kernels.

    They are found from a copy on the CPU. Items that are not finite give NaN.

    Parameters
    ----------
    affinity : tensor of shape (b, n, n)
    requests : list of b Request
    """

    def __init__(self, affinity, requests):
        self.device = affinity.device
        self.matrices = to_numpy(_symmetrized(affinity, torch.float64))
        self.requests = requests

    def relations(self):
        """Yield the number, Relation and Request of each item that is finite."""
        for item, request in enumerate(self.requests):
            if _is_usable(self.matrices[item]):
                yield item, relation_of(self.matrices[item]), request

    def means(self, connectivity):
        """Return A_ε (b, n, n), F_ε (b,) and M_ε (b, n, n), or None."""
        forests = np.full_like(self.matrices, np.nan)
        weights = np.full(len(self.matrices), np.nan)
        linked = np.full_like(self.matrices, np.nan) if connectivity else None
        for item, relation, request in self.relations():
            noise = request.noise
            sampler = _sampler(relation, request)
            sums = sum_samples(sampler, relation, noise, connectivity=connectivity)
            forests[item] = relation.spread(sums.edges / noise.n_samples)
            weights[item] = 2.0 * float(sums.totals.mean())
            if connectivity:
                linked[item] = connectivity_of(sums, noise)
        return tuple(
            None if part is None else to_tensor(part, self.device)
            for part in (forests, weights, linked)
        )

    def vjp(self, cotangents):
        """Return the gradients (b, n, n) of a dict of cotangents (b, n, n)."""
        gradients = np.full_like(self.matrices, np.nan)
        cotangents = {
            name: to_numpy(_symmetrized(part, torch.float64))
            for name, part in cotangents.items()
        }
        for item, relation, request in self.relations():
            sampler = _sampler(relation, request)
            gradients[item] = 0.0
            for name, cotangent in cotangents.items():
                gradient = vjp(
                    relation, sampler, request.noise, **{name: cotangent[item]}
                )
                gradients[item] += relation.spread(gradient)
        return to_tensor(gradients, self.device)

    def partial_losses(self):
        """Return the partial losses (b,), and their gradients (b, n, n)."""
        losses = np.full(len(self.matrices), np.nan)
        gradients = np.full_like(self.matrices, np.nan)
        for item, relation, request in self.relations():
            losses[item], gradient = partial_loss_with_gradient(
                relation, request.constraints, request.n_clusters, request.noise
            )
            gradients[item] = relation.spread(gradient)
        return to_tensor(losses, self.device), to_tensor(gradients, self.device)


def _sampler(relation, request):
    """Return the sampler of a relation for a Request."""
    return make_sampler(
        relation, request.constraints, request.n_clusters, request.noise
    )


class Fused:
    """Forests of a batch of affinities on a device, found together.

    Nothing is read by the host. Results are NaN where an affinity is not finite, or a
    number of clusters is less than that of classes.

    Parameters
    ----------
    affinity : tensor of shape (b, n, n)
    sizes : tensor of shape (b,), int32
        Numbers of clusters.
    labels : tensor of shape (b, n), int64, or None
        Negative without a label.
    seeds : tensor of shape (b,), int64
    noise : Noise
    """

    def __init__(self, affinity, sizes, labels, seeds, noise):
        self.matrices = _symmetrized(affinity, torch.float32).contiguous()
        self.noise = noise
        self.seeds = seeds
        n = affinity.shape[-1]
        least = torch.ones_like(sizes)
        n_groups = torch.full_like(sizes, n)
        self.classes = None
        if labels is not None:
            self.classes = classes_of(labels)
            n_classes = self.classes[1]
            least = n_classes.clamp(min=1)
            n_groups = n_classes + (labels < 0).sum(dim=1, dtype=torch.int32)
        # Noisy copies are finite in float32; no noise exceeds 23 times its scale.
        most = torch.finfo(torch.float32).max / 2 - 23.0 * noise.scale
        is_usable = (self.matrices.abs() <= most).flatten(1).all(dim=1)
        is_usable &= sizes >= least
        self.mark = torch.where(is_usable, 0.0, torch.nan)
        self.sizes = torch.minimum(torch.maximum(sizes, least), n_groups)

    def find(self, *, free):
        """Return what `find_forests` does, of the whole batch."""
        from skdiffclust.forests._perturbed._triton import find_forests

        return find_forests(
            self.matrices, self.sizes, self.seeds, self.noise, self.classes, free=free
        )

    def spread(self, counts):
        """Return the symmetric means (b, n, n) of counts (b, n, n) of pairs i < j."""
        upper = counts / self.noise.n_samples
        return upper + upper.mT + self.mark[:, None, None]

    def means(self, connectivity):
        """Return A_ε (b, n, n), F_ε (b,) and None."""
        counts, totals, self.edges = self.find(free=self.classes is None)
        return self.spread(counts), 2.0 * totals.mean(dim=1) + self.mark, None

    def vjp(self, cotangents):
        """Return the gradients (b, n, n) of cotangents (b, n, n) of A_ε.

        They are found from the edges of `means` and the score function, as in
        `_perturbation`.
        """
        from skdiffclust.forests._perturbed._triton import sum_of_scores

        (b, n) = self.matrices.shape[:2]
        cotangent = _symmetrized(cotangents["forest"], torch.float64)
        is_edge = self.edges >= 0
        places = torch.where(is_edge, (self.edges >> 12) * n + (self.edges & 4095), 0)
        along = cotangent.view(b, -1).gather(1, places.view(b, -1).long())
        products = 2.0 * (along.view(places.shape) * is_edge).sum(dim=2)
        coefficients = _score_coefficients(products, self.noise)
        gradient = sum_of_scores(coefficients, self.seeds, self.noise, n)
        return 0.5 * gradient + self.mark[:, None, None]

    def partial_losses(self):
        """Return the partial losses (b,), and their gradients (b, n, n)."""
        if self.classes is None:
            return self.mark, self.spread(torch.zeros_like(self.matrices))
        counts, totals, _ = self.find(free=True)
        # Two sums of the same edges may differ by rounding.
        losses = 2.0 * totals.clamp(min=0).mean(dim=1)
        return losses + self.mark, self.spread(counts)


def classes_of(labels):
    """Return the first sample of the class of each, and the number of classes.

    labels (b, n), negative without a label; (b, n), -1 without one, and (b,), int32.
    """
    ordered, order = labels.sort(dim=1, stable=True)
    first = order.gather(1, torch.searchsorted(ordered, labels.contiguous()))
    first = torch.where(labels < 0, -1, first).to(torch.int32)
    numbers = torch.arange(labels.shape[1], device=labels.device)
    return first.contiguous(), (first == numbers).sum(dim=1, dtype=torch.int32)


def _score_coefficients(products, noise):
    """Return `score_coefficients` of products (b, s), on their device."""
    n_draws = -(-noise.n_samples // 2)
    draws = torch.arange(noise.n_samples, device=products.device) // 2
    sizes = torch.full((n_draws,), 2.0, device=products.device)
    if noise.n_samples % 2:
        sizes[-1:].fill_(1.0)
    if n_draws > 1:
        means = products.new_zeros(len(products), n_draws)
        means = means.index_add(1, draws, products) / sizes
        others = (means.sum(dim=1, keepdim=True) - means) / (n_draws - 1)
        products = products - others[:, draws]
    return products / (n_draws * sizes[draws] * noise.scale)


class Operator(torch.autograd.Function):
    """A_ε, F_ε and M_ε of affinities (b, n, n); M_ε is empty if not requested."""

    @staticmethod
    def forward(ctx, affinity, solver, connectivity):
        ctx.solver = solver
        forests, weights, linked = solver.means(connectivity)
        ctx.save_for_backward(forests)
        ctx.dtype = affinity.dtype
        # The cotangent of an output that is not used is None, and costs nothing.
        ctx.set_materialize_grads(False)
        linked = forests.new_empty(0) if linked is None else linked
        return tuple(t.to(affinity.dtype) for t in (forests, weights, linked))

    @staticmethod
    @differentiated_once
    def backward(ctx, to_forest, to_weight, to_connectivity):
        (forests,) = ctx.saved_tensors
        gradient = torch.zeros_like(forests)
        if to_weight is not None:
            gradient += to_weight.to(forests.dtype)[:, None, None] * forests
        cotangents = {"forest": to_forest, "connectivity": to_connectivity}
        cotangents = {
            name: cotangent
            for name, cotangent in cotangents.items()
            if cotangent is not None and cotangent.ndim == 3
        }
        if cotangents:
            gradient += ctx.solver.vjp(cotangents)
        return gradient.to(ctx.dtype), None, None


class PartialLoss(torch.autograd.Function):
    """Partial losses (b,) of affinities (b, n, n), and their gradients (b, n, n)."""

    @staticmethod
    def forward(ctx, affinity, solver):
        losses, gradients = (part.to(affinity) for part in solver.partial_losses())
        ctx.save_for_backward(gradients)
        ctx.mark_non_differentiable(gradients)
        return losses, gradients

    @staticmethod
    @differentiated_once
    def backward(ctx, cotangent, _):
        (gradients,) = ctx.saved_tensors
        return cotangent[:, None, None] * gradients, None
