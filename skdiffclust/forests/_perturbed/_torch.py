"""Perturbed forests and their losses as torch modules, for a training loop."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from math import prod
from numbers import Integral, Real
from typing import Literal

import numpy as np
import torch
from scipy.sparse import issparse
from torch import nn

from skdiffclust._compat import Interval, StrOptions, validate_params
from skdiffclust._constraints import constraints_from_matrix
from skdiffclust._torch import (
    differentiated_once,
    in_full_precision,
    outside_compiler,
    parameters_text,
    refuse_transforms,
    to_numpy,
    to_tensor,
    trained_tensor,
)
from skdiffclust._warnings import warn
from skdiffclust.forests._perturbed import _fenchel_young, _hash
from skdiffclust.forests._perturbed._perturbation import (
    NOISE_RULES,
    connectivity_of,
    sum_samples,
    vjp,
)
from skdiffclust.forests._perturbed._relation import relation_of
from skdiffclust.forests._perturbed._samplers import MOST, Noise, make_sampler
from skdiffclust.forests._perturbed._sampling_torch import BatchSampler

_POSITIVE = Interval(Integral, 1, None, closed="left")
_RULES = {
    "n_clusters": [_POSITIVE, None],
    "noise_scale": [Interval(Real, 0, MOST, closed="right")],
    "n_perturbations": [_POSITIVE],
    "noise": NOISE_RULES["noise"],
    "reduction": [StrOptions({"mean", "sum", "none"})],
}


@dataclass(frozen=True)
class _Request:
    """What a call asks for, besides the similarity."""

    n_clusters: int
    noise: Noise
    constraints: object


def _as_float64(tensor):
    """Return a detached, symmetrised float64 copy (..., n, n) of a tensor.

    Its diagonal, which is ignored, is zero.
    """
    matrix = tensor.detach().to(torch.float64)
    matrix = 0.5 * (matrix + matrix.mT)
    matrix.diagonal(dim1=-2, dim2=-1).zero_()
    return matrix


def _is_usable(matrix):
    """Whether noisy copies of a matrix (n, n) are finite; warns of -inf."""
    if (np.abs(matrix) <= MOST).all():
        return True
    if np.isneginf(matrix).any():
        warn(
            "A similarity is -inf, for which the result is NaN: -inf is no mask. Pass "
            "cannot-links as constraints for pairs that must not share a cluster, or "
            "give them a similarity far below all others, for example the least one "
            "minus a hundred times noise_scale.",
        )
    return False


def _runs_in_torch(matrix):
    """Whether free forests are found by Borůvka's algorithm in torch: off the CPU."""
    return matrix.device.type != "cpu"


class _Kernels:
    """Means of a batch of similarities, one after another by the compiled kernels.

    From a copy on the CPU, whatever their device.
    """

    def __init__(self, matrices, requests):
        self.device = matrices.device
        self.matrices = to_numpy(matrices)
        self.requests = requests

    def items(self):
        """Yield the number, Relation, sampler and Noise of each item that is finite."""
        items = zip(self.matrices, self.requests, strict=True)
        for item, (matrix, request) in enumerate(items):
            if not _is_usable(matrix):
                continue
            relation = relation_of(matrix)
            sampler = make_sampler(
                relation, request.constraints, request.n_clusters, request.noise
            )
            yield item, relation, sampler, request.noise

    def means(self, *, connectivity):
        """Return A_ε (b, n, n), F_ε (b,) and M_ε (b, n, n), or None."""
        forests = np.full_like(self.matrices, np.nan)
        weights = np.full(len(self.matrices), np.nan)
        linked = np.full_like(self.matrices, np.nan) if connectivity else None
        for item, relation, sampler, noise in self.items():
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
        cotangents = {name: to_numpy(part) for name, part in cotangents.items()}
        for item, relation, sampler, noise in self.items():
            gradients[item] = 0.0
            for name, cotangent in cotangents.items():
                gradient = vjp(relation, sampler, noise, **{name: cotangent[item]})
                gradients[item] += relation.spread(gradient)
        return to_tensor(gradients, self.device)


class _Boruvka:
    """Means of a batch of free forests of as many trees, which are solved together."""

    def __init__(self, matrices, requests):
        usable = (matrices.abs() <= MOST).flatten(1).all(dim=1)
        # NaN where noisy copies are not finite.
        self.mark = torch.where(usable, 0.0, torch.nan)
        seeds = [request.noise.seed for request in requests]
        self.sampler = BatchSampler(
            matrices.masked_fill(~usable[:, None, None], 0.0),
            requests[0].n_clusters,
            requests[0].noise,
            seeds,
        )

    def means(self, *, connectivity):
        """Return A_ε (b, n, n), F_ε (b,) and None."""
        forests = self.sampler.forest() + self.mark[:, None, None]
        return forests, 2.0 * self.sampler.totals.mean(dim=1) + self.mark, None

    def vjp(self, cotangents):
        """Return the gradients (b, n, n) of cotangents (b, n, n) of A_ε."""
        # That of the same forests.
        return self.sampler.vjp(cotangents["forest"]) + self.mark[:, None, None]


class _Operator(torch.autograd.Function):
    """A_ε, F_ε and M_ε of similarities (b, n, n); M_ε is empty if not requested.

    NaN for those that are not finite.
    """

    @staticmethod
    def forward(ctx, similarity, requests, connectivity):
        matrices = _as_float64(similarity)
        is_free = all(request.constraints is None for request in requests)
        in_torch = _runs_in_torch(matrices) and is_free and len(requests) > 0
        # M_ε is counted on the CPU, pair by pair.
        solver = _Boruvka if in_torch and not connectivity else _Kernels
        ctx.solver = solver(matrices, requests)
        forests, weights, linked = ctx.solver.means(connectivity=connectivity)
        ctx.save_for_backward(forests)
        ctx.dtype = similarity.dtype
        # The cotangent of an output that is not used is None, and costs nothing.
        ctx.set_materialize_grads(False)
        linked = matrices.new_empty(0) if linked is None else linked
        return tuple(t.to(similarity.dtype) for t in (forests, weights, linked))

    @staticmethod
    @differentiated_once
    def backward(ctx, to_forest, to_weight, to_connectivity):
        (forests,) = ctx.saved_tensors
        gradient = torch.zeros_like(forests)
        if to_weight is not None:
            gradient += to_weight.to(torch.float64)[:, None, None] * forests
        cotangents = {"forest": to_forest, "connectivity": to_connectivity}
        cotangents = {
            name: _as_float64(cotangent)
            for name, cotangent in cotangents.items()
            if cotangent is not None and cotangent.ndim == 3
        }
        if cotangents:
            gradient += ctx.solver.vjp(cotangents)
        return gradient.to(ctx.dtype), None, None


class _PartialLoss(torch.autograd.Function):
    """Partial losses (b,) of similarities (b, n, n), and their gradients (b, n, n).

    From a copy on the CPU; NaN for what is not finite.
    """

    @staticmethod
    def forward(ctx, similarity, requests):
        matrices = to_numpy(_as_float64(similarity))
        losses = np.full(len(matrices), np.nan)
        gradients = np.full_like(matrices, np.nan)
        for item, request in enumerate(requests):
            if not _is_usable(matrices[item]):
                continue
            relation = relation_of(matrices[item])
            losses[item], gradient = _fenchel_young.partial_loss_with_gradient(
                relation, request.constraints, request.n_clusters, request.noise
            )
            gradients[item] = relation.spread(gradient)
        gradients = torch.from_numpy(gradients).to(similarity)
        ctx.save_for_backward(gradients)
        ctx.mark_non_differentiable(gradients)
        return torch.from_numpy(losses).to(similarity), gradients

    @staticmethod
    @differentiated_once
    def backward(ctx, cotangent, _):
        (gradients,) = ctx.saved_tensors
        return cotangent[:, None, None] * gradients, None


class _Perturbed(nn.Module):
    """Parameters and noise that the modules of this room share."""

    def __init__(self, n_clusters, noise_scale, n_perturbations, seed, generator):
        super().__init__()
        self.n_clusters = n_clusters
        self.noise_scale = noise_scale
        self.n_perturbations = n_perturbations
        self.seed = seed
        self.generator = generator
        self._has_warned = False

    def _warn_of_idle_noise(self, means):
        """Warn once if no draw changed a forest: means (b, n, n) on the CPU, or less.

        Both draws of an antithetic pair then give the forest of the similarity, as
        theirs is also the heaviest of their mean. If there is no other forest, or the
        gradient is zero, nothing is missing.
        """
        if self._has_warned or means.device.type != "cpu":
            return
        n_edges = float(means.detach().abs().sum())
        n_pairs = means.numel() - means.shape[0] * means.shape[-1]
        if 0 < n_edges < n_pairs and bool((means == means.round()).all()):
            self._has_warned = True
            warn(
                f"The noise of {type(self).__name__} has no effect: each of the "
                f"{self.n_perturbations} perturbations gives the forest of the "
                "similarity without noise, and gradients carry no information on "
                "other forests. Pass standardized_similarity(embedding), or increase "
                f"noise_scale. It is {self.noise_scale:g}."
            )

    def extra_repr(self) -> str:
        """Name the parameters in the module's text.

        Returns
        -------
        str
            As in ``repr`` of a module.
        """
        # A generator has no text.
        names = [name for name in signature(type(self)).parameters][:-1]
        return parameters_text(**{name: getattr(self, name) for name in names})

    def _seeds(self, n_items):
        """One 64-bit seed for each item, the same at every call if `seed` is given."""
        if self.seed is not None:
            first = int(self.seed)
        else:
            first = int(
                torch.randint(2**62, (), generator=self.generator, device="cpu")
            )
        step = int(_hash.ROW)
        return [np.uint64((first + i * step) % 2**64) for i in range(n_items)]

    def _requests(self, similarity, constraints, n_clusters):
        """Return the shape of a batch, its items (b, n, n) and a _Request of each."""
        similarity = trained_tensor(
            similarity, "similarity", type(self).__name__, "(..., n, n)", constraints
        )
        refuse_transforms(similarity, type(self).__name__)
        n = similarity.shape[-1]
        if similarity.shape[-2] != n:
            raise ValueError(
                "The 'similarity' argument must have shape (..., n, n). Got "
                f"{tuple(similarity.shape)} instead."
            )
        batch = similarity.shape[:-2]
        sizes = _sizes_of_items(n_clusters, batch, n)
        items = similarity.reshape(-1, n, n)
        known = _constraints_of_items(constraints, batch, n)
        seeds = self._seeds(len(items))
        kind = getattr(self, "noise", "normal")
        noise = Noise(float(self.noise_scale), int(self.n_perturbations), kind, 0)
        requests = [
            _Request(size, replace(noise, seed=seed), constraint)
            for size, seed, constraint in zip(sizes, seeds, known, strict=True)
        ]
        return batch, items, requests


def _feasible(request):
    """Return a request of no more clusters than its constraints leave groups."""
    if request.constraints is None:
        return request
    n_groups = request.constraints.n_groups
    return replace(request, n_clusters=min(request.n_clusters, n_groups))


def _off_the_device(values):
    """Return a tensor as an array, and anything else as it is."""
    return values.detach().cpu().numpy() if torch.is_tensor(values) else values


def _sizes_of_items(n_clusters, batch, n):
    """Return the number of clusters of every item of a batch of a shape, ints."""
    n_clusters = _off_the_device(n_clusters)
    if np.ndim(n_clusters) and np.shape(n_clusters) != tuple(batch):
        raise ValueError(
            "The 'n_clusters' argument must be an integer, or one for each similarity, "
            f"of shape {tuple(batch)}. Got the shape {np.shape(n_clusters)} instead."
        )
    sizes = np.broadcast_to(np.asarray(n_clusters, dtype=object), batch).ravel()
    for size in set(sizes):
        if not _POSITIVE.is_satisfied_by(size) or size > n:
            raise ValueError(
                "The 'n_clusters' parameter must be an integer of at least 1, and at "
                f"most the number of samples, {n}. Got {size} instead. Pass it to the "
                "module or to the call."
            )
    return [int(size) for size in sizes]


def _reduced(losses, reduction):
    """Return losses (...,) as they are, or their mean or sum ()."""
    return losses if reduction == "none" else getattr(losses, reduction)()


def _constraints_of_items(constraints, batch, n):
    """Return the Constraints of every item of a batch of a shape, or Nones.

    Those that all items share are one object.
    """
    n_items = prod(batch)
    if constraints is None:
        return [None] * n_items
    constraints = _off_the_device(constraints)
    if not issparse(constraints):
        constraints = np.asarray(constraints)
        if constraints.shape in ((n,), (*batch, n)):
            # The label that the losses of torch ignore.
            constraints = np.where(constraints == -100, -1, constraints)
    if batch and constraints.shape in ((*batch, n), (*batch, n, n)):
        rows = constraints.reshape(n_items, *constraints.shape[len(batch) :])
        return [constraints_from_matrix(row, n) for row in rows]
    return [constraints_from_matrix(constraints, n)] * n_items


class PerturbedForest(_Perturbed):
    """Perturbed maximum spanning forest of a similarity, as a differentiable layer.

    Parameters
    ----------
    n_clusters : int
        Number of components k.
    noise_scale : float, default=0.1
        Scale ε > 0 of the noise, in the units of the similarity.
    n_perturbations : int, default=100
        Number of noise samples B, drawn in antithetic pairs.
    noise : {"normal", "gumbel"}, default="normal"
        Distribution of the noise.
    seed : int or None, default=None
        Seed of the noise. With an int, every call uses the same noise.
    generator : torch.Generator or None, default=None
        CPU generator from which seeds are drawn. None uses torch's global generator.

    Notes
    -----
    F_ε is the mean of ⟨A, Σ + εZ⟩, and its gradient A_ε is exact for the noise drawn.
    The gradients of A_ε and M_ε are estimated with the score function; they are noisy
    and require many noise samples. Tensors on the CPU are processed by compiled
    kernels, and CUDA tensors by a batched version of Borůvka's algorithm on the GPU,
    all similarities (..., n, n) together. Both use the same noise for the same seed.
    With constraints, or if M_ε is requested, the forests of CUDA tensors are found on
    the CPU, from a copy.
    """

    @validate_params(_RULES, prefer_skip_nested_validation=True)
    def __init__(
        self,
        n_clusters: int,
        *,
        noise_scale: float = 0.1,
        n_perturbations: int = 100,
        noise: Literal["normal", "gumbel"] = "normal",
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(n_clusters, noise_scale, n_perturbations, seed, generator)
        self.noise = noise

    @outside_compiler
    @in_full_precision
    def forward(
        self, similarity, constraints=None, return_connectivity=False
    ) -> tuple[torch.Tensor, ...]:
        """Compute the perturbed forests of similarities.

        Parameters
        ----------
        similarity : tensor of shape (..., n, n)
            Similarity. It is symmetrised, and its diagonal is ignored.
        constraints : tensor or array, default=None
            Partial labels of shape (n,) or (..., n), with -1 for unknown, or matrices
            of shape (n, n) or (..., n, n) with +1 for must-links, -1 for cannot-links
            and 0 for unknown. For n similarities, (n, n) are labels of each.
        return_connectivity : bool, default=False
            Whether to return the perturbed connectivity M_ε as well.

        Returns
        -------
        forest : tensor of shape (..., n, n)
            Perturbed forest A_ε.
        weight : tensor of shape (...,)
            Perturbed weight F_ε.
        connectivity : tensor of shape (..., n, n)
            Perturbed connectivity M_ε. Only returned if `return_connectivity` is True.

        Notes
        -----
        All of them are NaN where the similarity is not finite.
        """
        batch, items, requests = self._requests(
            similarity, constraints, self.n_clusters
        )
        results = _Operator.apply(items, requests, return_connectivity)
        self._warn_of_idle_noise(results[0])
        if not return_connectivity:
            results = results[:2]
        return tuple(part.reshape(batch + part.shape[1:]) for part in results)


class PartialFenchelYoungLoss(_Perturbed):
    """Partial Fenchel-Young loss between a similarity and known labels or links.

    Parameters
    ----------
    n_clusters : int or None
        Number of components k. With None, it must be passed in each call.
    noise_scale : float, default=0.1
        Scale ε > 0 of the noise, in the units of the similarity. Use
        :func:`~skdiffclust.nn.standardized_similarity` to obtain similarities with a
        standard deviation of 1.
    n_perturbations : int, default=100
        Number of noise samples B, drawn in antithetic pairs.
    noise : {"normal", "gumbel"}, default="normal"
        Distribution of the noise.
    reduction : {"mean", "sum", "none"}, default="none"
        What is returned for a batch of similarities: all losses, or their mean or sum.
    seed : int or None, default=None
        Seed of the noise. With an int, every call uses the same noise.
    generator : torch.Generator or None, default=None
        CPU generator from which seeds are drawn. None uses torch's global generator.

    See Also
    --------
    skdiffclust.forests.partial_fenchel_young_loss : Definition, and implementation in
        NumPy.

    Notes
    -----
    The forests are found on the CPU for all devices, from a copy of the similarities
    (..., n, n); the loss and its gradient are returned on the device.

    Examples
    --------
    >>> import torch
    >>> from skdiffclust.nn import PartialFenchelYoungLoss, standardized_similarity
    >>> embedding = torch.tensor([[0.0], [1.0], [5.0], [6.0]], requires_grad=True)
    >>> loss = PartialFenchelYoungLoss(2)(
    ...     standardized_similarity(embedding), torch.tensor([0, -1, -1, 0]))
    >>> loss.backward()
    >>> embedding.grad.shape
    torch.Size([4, 1])
    """

    @validate_params(_RULES, prefer_skip_nested_validation=True)
    def __init__(
        self,
        n_clusters: int | None,
        *,
        noise_scale: float = 0.1,
        n_perturbations: int = 100,
        noise: Literal["normal", "gumbel"] = "normal",
        reduction: Literal["mean", "sum", "none"] = "none",
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(n_clusters, noise_scale, n_perturbations, seed, generator)
        self.noise = noise
        self.reduction = reduction

    @outside_compiler
    @in_full_precision
    def forward(self, similarity, constraints, n_clusters=None) -> torch.Tensor:
        """Compare similarities with what is known.

        Parameters
        ----------
        similarity : tensor of shape (..., n, n)
            Similarity. It is symmetrised, and its diagonal is ignored.
        constraints : tensor, array or None
            Partial labels of shape (n,) or (..., n), with -1 for unknown, or -100, that
            the losses of torch ignore, or matrices of shape (n, n) or (..., n, n) with
            +1 for must-links, -1 for cannot-links and 0 for unknown. For n
            similarities, (n, n) are labels of each.
        n_clusters : int, tensor or array of shape (...,), or None, default=None
            Number of components of this call, or of each similarity; None is that of
            the module. Fewer are taken where the constraints leave fewer groups.

        Returns
        -------
        tensor of shape (...,), or () with a reduction
            NaN where the similarity is not finite.
        """
        n_clusters = self.n_clusters if n_clusters is None else n_clusters
        batch, items, requests = self._requests(similarity, constraints, n_clusters)
        requests = [_feasible(request) for request in requests]
        losses, gradients = _PartialLoss.apply(items, requests)
        self._warn_of_idle_noise(gradients)
        return _reduced(losses.reshape(batch), self.reduction)


def partial_loss(similarity, constraints, n_clusters, noise):
    """Return the partial loss () of a tensor (n, n), for Constraints and a Noise."""
    request = _Request(n_clusters, noise, constraints)
    return _PartialLoss.apply(similarity[None], [request])[0][0]


class FenchelYoungLoss(_Perturbed):
    """Fenchel-Young loss between a similarity and a known forest.

    Parameters
    ----------
    noise_scale : float, default=0.1
        Scale ε > 0 of the noise, in the units of the similarity.
    n_perturbations : int, default=100
        Number of noise samples B, drawn in antithetic pairs.
    reduction : {"mean", "sum", "none"}, default="none"
        What is returned for a batch of similarities: all losses, or their mean or sum.
    seed : int or None, default=None
        Seed of the noise. With an int, every call uses the same noise.
    generator : torch.Generator or None, default=None
        CPU generator from which seeds are drawn. None uses torch's global generator.

    See Also
    --------
    skdiffclust.forests.fenchel_young_loss : Definition, and implementation in NumPy.

    Notes
    -----
    The number of clusters is n - m for a forest of m edges. `n_perturbations` must be
    even, so that the antithetic noise cancels in ⟨A°, Σ + εZ⟩.
    """

    @validate_params(_RULES, prefer_skip_nested_validation=True)
    def __init__(
        self,
        *,
        noise_scale: float = 0.1,
        n_perturbations: int = 100,
        reduction: Literal["mean", "sum", "none"] = "none",
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(None, noise_scale, n_perturbations, seed, generator)
        self.reduction = reduction
        if n_perturbations % 2:
            raise ValueError(
                "The 'n_perturbations' parameter of FenchelYoungLoss must be even. Got "
                f"{n_perturbations} instead."
            )

    @outside_compiler
    @in_full_precision
    def forward(self, similarity, forest) -> torch.Tensor:
        """Compute the loss between a similarity and a target forest.

        Parameters
        ----------
        similarity : tensor of shape (..., n, n)
            Similarity. It is symmetrised, and its diagonal is ignored.
        forest : tensor or array of shape (m, 2)
            Edges of the target forest, which must not contain a cycle. It is the same
            for all similarities.

        Returns
        -------
        tensor of shape (...,), or () with a reduction
            Loss, which is non-negative up to rounding. NaN where the similarity is not
            finite.
        """
        owner = type(self).__name__
        similarity = trained_tensor(
            similarity, "similarity", owner, "(..., n, n)", forest
        )
        n = similarity.shape[-1]
        edges = _fenchel_young.check_forest(_off_the_device(forest), n)
        edges = to_tensor(edges, similarity.device)
        i, j = edges.T
        batch, items, requests = self._requests(similarity, None, n - len(edges))
        forests, weights, _ = _Operator.apply(items, requests, False)
        self._warn_of_idle_noise(forests)
        weights = weights.reshape(batch)
        reached = similarity[..., i, j].sum(dim=-1) + similarity[..., j, i].sum(dim=-1)
        return _reduced(weights - reached, self.reduction)


@in_full_precision
def standardized_similarity(
    embedding,
    kind: Literal["sqeuclidean", "rbf", "cosine"]
    | Callable[[torch.Tensor], torch.Tensor] = "sqeuclidean",
) -> torch.Tensor:
    """Compute similarities between samples with mean 0 and standard deviation 1.

    The result is (Σ - mean) / std, where mean and standard deviation are taken over all
    n² entries, including the diagonal, and are differentiated as well. The scale of the
    noise then has the same meaning at every training step. The paper does not mention
    this standardisation; without it, training is unstable.

    Parameters
    ----------
    embedding : tensor of shape (..., n, d)
        Samples.
    kind : {"sqeuclidean", "rbf", "cosine"} or callable, default="sqeuclidean"
        Similarity: minus the squared distance d², exp(-d² / mean d²), the cosine, or a
        function of the embedding that returns a tensor of shape (..., n, n).

    Returns
    -------
    tensor of shape (..., n, n)
        Standardised similarities. If all entries are equal, they are zero, with a
        finite gradient. They are computed and returned in float32 for embeddings of
        half precision and under autocast.
    """
    embedding = trained_tensor(
        embedding, "embedding", "standardized_similarity", "(..., n, d)"
    )
    if callable(kind):
        similarity = kind(embedding)
    elif kind == "cosine":
        rows = nn.functional.normalize(embedding, dim=-1)
        similarity = rows @ rows.mT
    elif kind in ("sqeuclidean", "rbf"):
        rows = embedding - embedding.mean(dim=-2, keepdim=True)
        squares = (rows**2).sum(dim=-1)
        distances = squares[..., :, None] + squares[..., None, :] - 2 * rows @ rows.mT
        eye = torch.eye(rows.shape[-2], dtype=torch.bool, device=rows.device)
        distances = distances.clamp(min=0).masked_fill(eye, 0)
        similarity = -distances
        if kind == "rbf":
            mean = distances.mean(dim=(-2, -1), keepdim=True)
            similarity = torch.exp(similarity / mean.clamp(min=_tiny(mean)))
    else:
        raise ValueError(
            "The 'kind' argument must be 'sqeuclidean', 'rbf', 'cosine' or a function. "
            f"Got {kind!r} instead."
        )
    if similarity.numel():
        # By a power of two, which changes no other bit, so that no square underflows.
        largest = similarity.detach().abs().amax(dim=(-2, -1), keepdim=True)
        exponent = torch.frexp(largest).exponent - 1
        similarity = similarity / torch.ldexp(torch.ones_like(largest), exponent)
    centred = similarity - similarity.mean(dim=(-2, -1), keepdim=True)
    variance = (centred**2).mean(dim=(-2, -1), keepdim=True)
    return centred / variance.clamp(min=_tiny(variance)).sqrt()


def _tiny(tensor):
    """Return the smallest number whose square root can safely be divided by."""
    return torch.finfo(tensor.dtype).tiny ** 0.5
