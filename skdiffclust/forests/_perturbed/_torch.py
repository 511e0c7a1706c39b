"""Perturbed forests and their losses as torch modules, for a training loop."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from inspect import signature
from math import prod
from numbers import Integral, Real
from typing import Literal

import numpy as np
import torch
from scipy.sparse import issparse
from torch import nn

from skdiffclust._compat import Interval, StrOptions, validate_params
from skdiffclust._constraints import check_feasible, constraints_from_matrix
from skdiffclust._torch import (
    in_full_precision,
    outside_compiler,
    parameters_text,
    refuse_transforms,
    to_tensor,
    trained_tensor,
)
from skdiffclust._warnings import warn
from skdiffclust.forests._perturbed import _fenchel_young, _hash
from skdiffclust.forests._perturbed._perturbation import NOISE_RULES
from skdiffclust.forests._perturbed._samplers import MOST, Noise
from skdiffclust.forests._perturbed._solvers import (
    Fused,
    OnCpu,
    Operator,
    PartialLoss,
    Request,
)

# 12 bits of a key for each end of an edge.
MOST_FUSED = 4096
_POSITIVE = Interval(Integral, 1, None, closed="left")
_RULES = {
    "n_clusters": [_POSITIVE, None],
    "noise_scale": [Interval(Real, 0, MOST, closed="right")],
    "n_perturbations": [_POSITIVE],
    "noise": NOISE_RULES["noise"],
    "reduction": [StrOptions({"mean", "sum", "none"})],
}


def _is_fused(items):
    """Whether the forests of affinities (b, n, n) are found on their device.

    This is for float32 only; float64 serves to check gradients.
    """
    b, n = items.shape[:2]
    is_small = b > 0 and 2 <= n <= MOST_FUSED
    if items.device.type != "cuda" or items.dtype != torch.float32 or not is_small:
        return False
    return _has_triton()


@cache
def _has_triton():
    """Whether Triton is installed; warns once if it is not."""
    if find_spec("triton") is not None:
        return True
    warn(
        "The forests of CUDA tensors are found on the CPU, from copies, because Triton "
        "is not installed. Install it, for example by pip install skdiffclust[triton]."
    )
    return False


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
        self._counters = {}  # tensors () of the devices

    def _warn_of_idle_noise(self, means):
        """Warn once if no draw changed a forest: means (b, n, n) on the CPU, or less.

        Both draws of an antithetic pair then give the forest of the affinity, as
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
                "affinity without noise, and gradients carry no information on "
                "other forests. Pass standardized_affinity(embedding), or increase "
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

    def _first_seed(self):
        """Return the seed of the first item: `seed`, or one that is drawn."""
        if self.seed is not None:
            return int(self.seed)
        return int(torch.randint(2**62, (), generator=self.generator, device="cpu"))

    def _seeds(self, n_items):
        """One 64-bit seed for each item, the same at every call if `seed` is given."""
        first = self._first_seed()
        step = int(_hash.ROW)
        return [np.uint64((first + i * step) % 2**64) for i in range(n_items)]

    def _seeds_on(self, device, n_items):
        """Return seeds (n_items,), int64, from a counter on a device.

        Each call adds to the counter, so that replays of a CUDA graph differ.
        """
        items = torch.arange(n_items, device=device) * _signed(_hash.ROW)
        if self.seed is not None:
            return items + _signed(self.seed)
        if device not in self._counters:
            first = torch.full((), self._first_seed(), device=device)
            self._counters[device] = first
        counter = self._counters[device]
        seeds = items + counter
        counter.add_(_signed(_hash.MIX_A))
        return seeds

    def _solver(
        self, affinity, constraints, n_clusters, *, connectivity=False, clip=False
    ):
        """Return the shape of a batch, its items (b, n, n), and their solver.

        With `clip`, an item has no more clusters than its constraints leave groups.
        """
        affinity = trained_tensor(
            affinity, "affinity", type(self).__name__, "(..., n, n)", constraints
        )
        refuse_transforms(affinity, type(self).__name__)
        n = affinity.shape[-1]
        if affinity.shape[-2] != n:
            raise ValueError(
                "The 'affinity' argument must have shape (..., n, n). Got "
                f"{tuple(affinity.shape)} instead."
            )
        batch = affinity.shape[:-2]
        items = affinity.reshape(-1, n, n)
        kind = getattr(self, "noise", "normal")
        noise = Noise(float(self.noise_scale), int(self.n_perturbations), kind, 0)
        is_fused = _is_fused(items) and not connectivity
        device = items.device
        if is_fused and _are_labels_on(device, constraints, batch, n):
            # They are not read, which would wait for the device.
            labels = constraints.expand(*batch, n).reshape(-1, n).to(torch.int64)
            sizes = _sizes_on(device, n_clusters, batch, n)
            seeds = self._seeds_on(device, len(items))
            return batch, items, Fused(items, sizes, labels, seeds, noise)
        sizes = _sizes_of_items(n_clusters, batch, n)
        known = _constraints_of_items(constraints, batch, n)
        if clip:
            groups = [n if rows is None else rows.n_groups for rows in known]
            sizes = list(map(min, sizes, groups))
        if is_fused and all(map(_is_of_labels, known)):
            sizes = _checked_sizes(sizes, known, device)
            seeds = self._seeds_on(device, len(items))
            labels = _labels_of(known, n, device)
            return batch, items, Fused(items, sizes, labels, seeds, noise)
        requests = [
            Request(size, replace(noise, seed=seed), rows)
            for size, seed, rows in zip(
                sizes, self._seeds(len(items)), known, strict=True
            )
        ]
        return batch, items, OnCpu(items, requests)


def _is_on(device, values):
    """Whether values are a tensor on a device that is not the CPU."""
    return device.type != "cpu" and torch.is_tensor(values) and values.device == device


def _are_labels_on(device, constraints, batch, n):
    """Whether constraints of a batch of a shape are labels on a device."""
    shapes = (n,), (*batch, n)
    return _is_on(device, constraints) and tuple(constraints.shape) in shapes


def _is_of_labels(constraints):
    """Whether Constraints, or None, are what some labels say, and no more."""
    if constraints is None:
        return True
    n_unknown = np.count_nonzero(constraints.classes < 0)
    is_labelled = constraints.n_groups == constraints.n_classes + n_unknown
    return is_labelled and not len(constraints.cannot)


def _labels_of(known, n, device):
    """Return the labels (b, n) of Constraints or Nones on a device, -1 without one.

    The result is None if there are no labels at all.
    """
    if all(constraints is None for constraints in known):
        return None
    unknown = np.full(n, -1)
    rows = [unknown if rows is None else rows.classes for rows in known]
    return to_tensor(np.stack(rows).astype(np.int64), device)


def _checked_sizes(sizes, known, device):
    """Return numbers of clusters, which constraints allow, on a device: (b,), int32."""
    for size, constraints in zip(sizes, known, strict=True):
        check_feasible(constraints, size)
    if len(set(sizes)) == 1:
        # No copy is made from the host, which no CUDA graph can capture.
        return torch.full((len(sizes),), sizes[0], dtype=torch.int32, device=device)
    return torch.tensor(sizes, dtype=torch.int32, device=device)


def _sizes_on(device, n_clusters, batch, n):
    """Return numbers of clusters (b,), int32, on a device; a tensor is not read."""
    if _is_on(device, n_clusters):
        _check_shape(n_clusters, batch)
        return n_clusters.expand(batch).reshape(-1).to(torch.int32)
    return _checked_sizes(
        _sizes_of_items(n_clusters, batch, n), [None] * prod(batch), device
    )


def _off_the_device(values):
    """Return a tensor as an array, and anything else as it is."""
    return values.detach().cpu().numpy() if torch.is_tensor(values) else values


def _check_shape(n_clusters, batch):
    """Refuse numbers of clusters that are not one for all or one for each."""
    shape = tuple(np.shape(n_clusters))
    if shape and shape != tuple(batch):
        raise ValueError(
            "The 'n_clusters' argument must be an integer, or one for each affinity, "
            f"of shape {tuple(batch)}. Got the shape {shape} instead."
        )


def _sizes_of_items(n_clusters, batch, n):
    """Return the number of clusters of every item of a batch of a shape, ints."""
    n_clusters = _off_the_device(n_clusters)
    _check_shape(n_clusters, batch)
    sizes = np.broadcast_to(np.asarray(n_clusters, dtype=object), batch).ravel()
    for size in set(sizes):
        if not _POSITIVE.is_satisfied_by(size) or size > n:
            raise ValueError(
                "The 'n_clusters' parameter must be an integer of at least 1, and at "
                f"most the number of samples, {n}. Got {size} instead. Pass it to the "
                "module or to the call."
            )
    return [int(size) for size in sizes]


def _signed(value):
    """Return the 64 bits of an integer as a signed one."""
    return (int(value) + 2**63) % 2**64 - 2**63


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
    """Perturbed maximum spanning forest of an affinity, as a differentiable layer.

    Parameters
    ----------
    n_clusters : int
        Number of components k.
    noise_scale : float, default=0.1
        Scale ε > 0 of the noise, in the units of the affinity.
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
    and require many noise samples. The forests of CUDA tensors are found on the GPU,
    all affinities (..., n, n) together, if Triton is installed, the dtype is float32,
    n is 2 to 4096, M_ε is not requested, and constraints are labels. All others are
    found by compiled kernels on the CPU, from a copy. Both use the same noise for the
    same seed. Labels on a GPU are not checked: where they allow fewer clusters, fewer
    are taken, and where they need more, the results are NaN.
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
        self, affinity, constraints=None, return_connectivity=False
    ) -> tuple[torch.Tensor, ...]:
        """Compute the perturbed forests of affinities.

        Parameters
        ----------
        affinity : tensor of shape (..., n, n)
            Affinity. It is symmetrised, and its diagonal is ignored.
        constraints : tensor or array, default=None
            Partial labels of shape (n,) or (..., n), with -1 for unknown, or matrices
            of shape (n, n) or (..., n, n) with +1 for must-links, -1 for cannot-links
            and 0 for unknown. For n affinities, (n, n) are labels of each.
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
        All of them are NaN where the affinity is not finite.
        """
        batch, items, solver = self._solver(
            affinity, constraints, self.n_clusters, connectivity=return_connectivity
        )
        results = Operator.apply(items, solver, return_connectivity)
        self._warn_of_idle_noise(results[0])
        if not return_connectivity:
            results = results[:2]
        return tuple(part.reshape(batch + part.shape[1:]) for part in results)


class PartialFenchelYoungLoss(_Perturbed):
    """Partial Fenchel-Young loss between an affinity and known labels or links.

    Parameters
    ----------
    n_clusters : int or None
        Number of components k. With None, it must be passed in each call.
    noise_scale : float, default=0.1
        Scale ε > 0 of the noise, in the units of the affinity. Use
        :func:`~skdiffclust.nn.standardized_affinity` to obtain affinities with a
        standard deviation of 1.
    n_perturbations : int, default=100
        Number of noise samples B, drawn in antithetic pairs.
    noise : {"normal", "gumbel"}, default="normal"
        Distribution of the noise.
    reduction : {"mean", "sum", "none"}, default="none"
        What is returned for a batch of affinities: all losses, or their mean or sum.
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
    The forests are found on the device or the CPU as those of `PerturbedForest`, and
    labels on a GPU are not checked either.

    Examples
    --------
    >>> import torch
    >>> from skdiffclust.nn import PartialFenchelYoungLoss, standardized_affinity
    >>> embedding = torch.tensor([[0.0], [1.0], [5.0], [6.0]], requires_grad=True)
    >>> loss = PartialFenchelYoungLoss(2)(
    ...     standardized_affinity(embedding), torch.tensor([0, -1, -1, 0]))
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
    def forward(self, affinity, constraints, n_clusters=None) -> torch.Tensor:
        """Compare affinities with what is known.

        Parameters
        ----------
        affinity : tensor of shape (..., n, n)
            Affinity. It is symmetrised, and its diagonal is ignored.
        constraints : tensor, array or None
            Partial labels of shape (n,) or (..., n), with -1 for unknown, or -100, that
            the losses of torch ignore, or matrices of shape (n, n) or (..., n, n) with
            +1 for must-links, -1 for cannot-links and 0 for unknown. For n
            affinities, (n, n) are labels of each.
        n_clusters : int, tensor or array of shape (...,), or None, default=None
            Number of components of this call, or of each affinity; None is that of
            the module. Fewer are taken where the constraints leave fewer groups.

        Returns
        -------
        tensor of shape (...,), or () with a reduction
            NaN where the affinity is not finite.
        """
        n_clusters = self.n_clusters if n_clusters is None else n_clusters
        batch, items, solver = self._solver(
            affinity, constraints, n_clusters, clip=True
        )
        losses, gradients = PartialLoss.apply(items, solver)
        self._warn_of_idle_noise(gradients)
        return _reduced(losses.reshape(batch), self.reduction)


def partial_loss(affinity, constraints, n_clusters, noise):
    """Return the partial loss () of a tensor (n, n), for Constraints and a Noise."""
    items = affinity[None]
    if _is_fused(items) and _is_of_labels(constraints):
        device = affinity.device
        solver = Fused(
            items,
            torch.full((1,), n_clusters, dtype=torch.int32, device=device),
            _labels_of([constraints], len(affinity), device),
            torch.full((1,), _signed(noise.seed), device=device),
            noise,
        )
    else:
        solver = OnCpu(items, [Request(n_clusters, noise, constraints)])
    return PartialLoss.apply(items, solver)[0][0]


class FenchelYoungLoss(_Perturbed):
    """Fenchel-Young loss between an affinity and a known forest.

    Parameters
    ----------
    noise_scale : float, default=0.1
        Scale ε > 0 of the noise, in the units of the affinity.
    n_perturbations : int, default=100
        Number of noise samples B, drawn in antithetic pairs.
    reduction : {"mean", "sum", "none"}, default="none"
        What is returned for a batch of affinities: all losses, or their mean or sum.
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
    def forward(self, affinity, forest) -> torch.Tensor:
        """Compute the loss between an affinity and a target forest.

        Parameters
        ----------
        affinity : tensor of shape (..., n, n)
            Affinity. It is symmetrised, and its diagonal is ignored.
        forest : tensor or array of shape (m, 2)
            Edges of the target forest, which must not contain a cycle. It is the same
            for all affinities.

        Returns
        -------
        tensor of shape (...,), or () with a reduction
            Loss, which is non-negative up to rounding. NaN where the affinity is not
            finite.
        """
        owner = type(self).__name__
        affinity = trained_tensor(affinity, "affinity", owner, "(..., n, n)", forest)
        n = affinity.shape[-1]
        if _is_on(affinity.device, forest):
            edges = forest.to(torch.int64)
        else:
            edges = _fenchel_young.check_forest(_off_the_device(forest), n)
            edges = to_tensor(edges, affinity.device)
        i, j = edges.T
        batch, items, solver = self._solver(affinity, None, n - len(edges))
        forests, weights, _ = Operator.apply(items, solver, False)
        self._warn_of_idle_noise(forests)
        weights = weights.reshape(batch)
        reached = affinity[..., i, j].sum(dim=-1) + affinity[..., j, i].sum(dim=-1)
        return _reduced(weights - reached, self.reduction)


@in_full_precision
def standardized_affinity(
    embedding,
    kind: Literal["sqeuclidean", "rbf", "cosine"]
    | Callable[[torch.Tensor], torch.Tensor] = "sqeuclidean",
) -> torch.Tensor:
    """Compute affinities between samples with mean 0 and standard deviation 1.

    The result is (Σ - mean) / std, where mean and standard deviation are taken over all
    n² entries, including the diagonal, and are differentiated as well. The scale of the
    noise then has the same meaning at every training step. The paper does not mention
    this standardisation; without it, training is unstable.

    Parameters
    ----------
    embedding : tensor of shape (..., n, d)
        Samples.
    kind : {"sqeuclidean", "rbf", "cosine"} or callable, default="sqeuclidean"
        Affinity: minus the squared distance d², exp(-d² / mean d²), the cosine, or a
        function of the embedding that returns a tensor of shape (..., n, n).

    Returns
    -------
    tensor of shape (..., n, n)
        Standardised affinities. If all entries are equal, they are zero, with a
        finite gradient. They are computed and returned in float32 for embeddings of
        half precision and under autocast.
    """
    embedding = trained_tensor(
        embedding, "embedding", "standardized_affinity", "(..., n, d)"
    )
    if callable(kind):
        affinity = kind(embedding)
    elif kind == "cosine":
        rows = nn.functional.normalize(embedding, dim=-1)
        affinity = rows @ rows.mT
    elif kind in ("sqeuclidean", "rbf"):
        rows = embedding - embedding.mean(dim=-2, keepdim=True)
        squares = (rows**2).sum(dim=-1)
        distances = squares[..., :, None] + squares[..., None, :] - 2 * rows @ rows.mT
        eye = torch.eye(rows.shape[-2], dtype=torch.bool, device=rows.device)
        distances = distances.clamp(min=0).masked_fill(eye, 0)
        affinity = -distances
        if kind == "rbf":
            mean = distances.mean(dim=(-2, -1), keepdim=True)
            affinity = torch.exp(affinity / mean.clamp(min=_tiny(mean)))
    else:
        raise ValueError(
            "The 'kind' argument must be 'sqeuclidean', 'rbf', 'cosine' or a function. "
            f"Got {kind!r} instead."
        )
    if affinity.numel():
        # A factor that is a power of two changes no other bit; no square underflows.
        largest = affinity.detach().abs().amax(dim=(-2, -1), keepdim=True)
        exponent = torch.frexp(largest).exponent - 1
        affinity = affinity / torch.ldexp(torch.ones_like(largest), exponent)
    centred = affinity - affinity.mean(dim=(-2, -1), keepdim=True)
    variance = (centred**2).mean(dim=(-2, -1), keepdim=True)
    return centred / variance.clamp(min=_tiny(variance)).sqrt()


def _tiny(tensor):
    """Return the smallest number whose square root can safely be divided by."""
    return torch.finfo(tensor.dtype).tiny ** 0.5
