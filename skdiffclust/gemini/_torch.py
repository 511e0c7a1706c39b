"""The objectives as a torch loss, and a torch module as the model of GEMINI."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import nn

from skdiffclust._batches import mini_batches
from skdiffclust._torch import (
    cluster_logits,
    in_full_precision,
    is_traced,
    module_state,
    parameters_text,
    sum_over_processes,
    to_numpy,
    to_tensor,
    train_module,
    trained_tensor,
)
from skdiffclust._warnings import warn
from skdiffclust.gemini._objectives import OBJECTIVES, ObjectiveName, mode_for
from skdiffclust.gemini._relations import Matrix
from skdiffclust.gemini._training import logits_loss

_ROUNDINGS = 8

GENERATORS = {
    "chi2": lambda r: (r - 1) ** 2,
    "hellinger": lambda r: 1 - torch.sqrt(r),
    "kl": lambda r: r * torch.log(r),
    "tv": lambda r: torch.abs(r - 1) / 2,
}


class GEMINILoss(nn.Module):
    r"""Negative generalised mutual information of logits, not of probabilities.

    With ``assignments = softmax(logits)``, the loss is minus
    :func:`~skdiffclust.gemini.gemini_score` of the batch, which itself takes the
    assignments. Do not put a softmax at the end of the network.

    Parameters
    ----------
    objective : str, default="mmd"
        One of :func:`~skdiffclust.gemini.available_objectives`.
    mode : {"auto", "ova", "ovo"}, default="auto"
        One-vs-all or one-vs-one; "auto" is resolved as in :class:`~skdiffclust.GEMINI`.
    precomputed : bool, default=False
        Whether the second argument of the call is the matrix of kernel values or
        distances between the samples of the batch, for "mmd" and "wasserstein".
        Otherwise it is their features, of which the linear kernel or the Euclidean
        distance is computed (apply a custom feature map beforehand).
    reduce : callable, default=None
        Function that sums a tensor over processes. With None, sums are taken over the
        processes of ``torchrun``, if there are any, so that f-divergences and "mmd" of
        features are computed from the samples of all processes. "wasserstein" and
        matrices are defined for the samples of one process only, and raise an error
        with several processes.

    See Also
    --------
    skdiffclust.gemini.gemini_score : Implementation in NumPy.

    Notes
    -----
    In float64, the loss is equal to the NumPy implementation. Optimal transport is
    solved exactly on the CPU, and the gradients are computed from its dual potentials.
    Each batch should contain many samples of each cluster, because the objective is
    computed from the samples of the batch only.

    References
    ----------
    L. Ohl et al., "Sparse and geometry-aware generalisation of the mutual information
    for joint discriminative clustering and feature selection", Statistics and Computing
    34:155, 2024.

    Examples
    --------
    >>> import torch
    >>> from skdiffclust.nn import GEMINILoss
    >>> X = torch.tensor([[0.0], [1.0], [4.0], [5.0]])
    >>> logits = torch.tensor([[9.0, 0.0]] * 2 + [[0.0, 9.0]] * 2, requires_grad=True)
    >>> loss = GEMINILoss("mmd")(logits, X)
    >>> loss.backward()
    >>> round(loss.item(), 2), logits.grad.shape
    (-2.0, torch.Size([4, 2]))
    """

    def __init__(
        self,
        objective: ObjectiveName = "mmd",
        *,
        mode: Literal["auto", "ova", "ovo"] = "auto",
        precomputed: bool = False,
        reduce: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> None:
        super().__init__()
        for name, value, choices in (
            ("objective", objective, sorted({*GENERATORS, "mmd", "wasserstein"})),
            ("mode", mode, ["auto", "ova", "ovo"]),
        ):
            if value not in choices:
                raise ValueError(
                    f"The {name!r} parameter of GEMINILoss must be one of {choices}. "
                    f"Got {value!r} instead. Choose one of them."
                )
        self.objective = objective
        self.mode = mode_for(OBJECTIVES[objective].relation, mode)
        self.precomputed = precomputed
        self.reduce = sum_over_processes if reduce is None else reduce
        self._is_new = True

    def extra_repr(self) -> str:
        """Name the parameters in the module's text.

        Returns
        -------
        str
            As in ``repr`` of a module.
        """
        return parameters_text(
            objective=self.objective,
            mode=self.mode,
            precomputed=self.precomputed,
            reduce=getattr(self.reduce, "__name__", self.reduce),
        )

    @in_full_precision
    def forward(self, logits, X=None) -> torch.Tensor:
        """Compute the loss of a batch.

        Parameters
        ----------
        logits : tensor of shape (n_samples, n_clusters)
            Outputs of the network.
        X : tensor, default=None
            Features (n_samples, ...), which are flattened, or a matrix (n_samples,
            n_samples) with ``precomputed=True``. It is treated as constant. Not used
            by f-divergences.

        Returns
        -------
        loss : tensor of shape (), float32 or float64
            Negative objective.

        Raises
        ------
        ValueError
            If the batch is empty, or X is missing, has the wrong shape, or
            cannot be combined over processes.

        Warns
        -----
        UserWarning
            At the first call only, if the logits look like probabilities, or if they
            are so large that the gradient is zero. Not in compiled code.
        """
        logits = trained_tensor(logits, "logits", "GEMINILoss", "(n, k)", X)
        if logits.ndim != 2 or not logits.numel():
            raise ValueError(
                "The 'logits' argument of GEMINILoss must be a matrix of at least one "
                f"sample and one cluster. Got shape {tuple(logits.shape)} instead. "
                "Leave out batches without samples."
            )
        if self._is_new and not is_traced(logits):
            self._is_new = False
            _warn_of_logits(logits.detach())
        assignments = torch.softmax(logits, dim=1)
        if self.objective in GENERATORS:
            return -self._divergence(assignments)
        relation = self._check(assignments, X)
        if self.objective == "wasserstein":
            return -self._wasserstein(assignments, relation)
        return -self._mmd(assignments, relation)

    def _check(self, assignments, X):
        """Return features (n, r), or a matrix (n, n), of the dtype of assignments."""
        n_rows = len(assignments)
        if X is not None and not torch.is_tensor(X):
            raise TypeError(
                "The 'X' argument of GEMINILoss must be a tensor. Got "
                f"{type(X).__name__} instead. Convert it by torch.as_tensor."
            )
        if X is None or len(X) != n_rows:
            got = None if X is None else tuple(X.shape)
            raise ValueError(
                f"The 'X' argument of GEMINILoss must have {n_rows} samples, "
                f"like the logits. Got {got} instead. Pass the features of the batch."
            )
        X = X.detach().to(assignments.dtype).reshape(n_rows, -1)
        alone = self.precomputed or self.objective == "wasserstein"
        mine = assignments.new_ones(1)
        processes = self.reduce(mine) if alone else mine
        if processes is not mine and float(processes) > 1:
            raise ValueError(
                "GEMINILoss must have objective='mmd' and precomputed=False in several "
                "processes, none of which has all samples. Got "
                f"{self.objective!r} and {self.precomputed!r} instead."
            )
        if self.precomputed and X.shape[1] != n_rows:
            raise ValueError(
                "The 'X' argument of GEMINILoss must be a square matrix. Got "
                f"{tuple(X.shape)} instead. Or set precomputed=False."
            )
        if self.objective == "wasserstein" and not self.precomputed:
            X = torch.cdist(X, X, compute_mode=_EXACT)
        return X

    def _divergence(self, assignments):
        """Return the f-divergence of assignments (n, k)."""
        f = GENERATORS[self.objective]
        floor = torch.finfo(assignments.dtype).eps ** 0.75
        assignments = assignments.clamp_min(floor)
        n_rows = self.reduce(assignments.new_tensor([float(len(assignments))]))
        share = self.reduce(assignments.sum(dim=0)) / n_rows
        ratio = assignments / share
        if self.mode == "ova":
            return (share * self.reduce(f(ratio).sum(dim=0)) / n_rows).sum()
        total = 0.0
        for other, weight in enumerate(share):
            second = ratio[:, other : other + 1]
            terms = self.reduce((second * f(ratio / second)).sum(dim=0)) / n_rows
            total = total + weight * (share * terms).sum()
        return total

    def _wasserstein(self, assignments, relation):
        """Return the Wasserstein objective of assignments (n, k), solved in NumPy."""
        n_rows = len(assignments)
        value, gradient = OBJECTIVES["wasserstein"].with_gradient(self.mode)(
            to_numpy(assignments),
            np.full(n_rows, 1 / n_rows),
            Matrix(to_numpy(relation).astype(np.float64)),
        )
        gradient = to_tensor(gradient, assignments.device, assignments.dtype)
        return _Stored.apply(assignments, value, gradient)

    def _mmd(self, assignments, relation):
        """Return the MMD from S_k = pi_k (m_k - m), as the NumPy definition does."""
        n_rows = self.reduce(assignments.new_tensor([float(len(assignments))]))
        share = self.reduce(assignments.sum(dim=0)) / n_rows
        columns = (assignments - share) / n_rows
        epsilon = torch.finfo(assignments.dtype).eps
        if self.precomputed:
            gram = columns.T @ relation @ columns
            size = relation.abs().max()
        else:
            relation = relation - self.reduce(relation.sum(dim=0)) / n_rows
            sums = self.reduce(relation.T @ columns).double()
            gram = sums.T @ sums
            size = relation.square().sum(dim=1).max()
            epsilon = epsilon**2
        noise = size * epsilon * columns.detach().abs().sum(dim=0).max() ** 2
        norms = gram.diagonal()
        if self.mode == "ova":
            return _safe_sqrt(norms, noise).sum().to(assignments.dtype)
        own = norms[:, None] * share.square()
        squares = own + own.T - 2 * torch.outer(share, share) * gram
        # Distances of a cluster from itself are excluded.
        itself = torch.eye(len(share), dtype=torch.bool, device=share.device)
        squares = squares.masked_fill(itself, 0.0)
        rounding = own.detach().max() * torch.finfo(gram.dtype).eps
        return _safe_sqrt(squares, noise + rounding).sum().to(assignments.dtype)


_EXACT = "donot_use_mm_for_euclid_dist"


def _warn_of_logits(logits):
    """Warn of logits (n, k) that are probabilities already, or too large."""
    logits = logits.double()
    sums = logits.sum(dim=1)
    if bool((logits >= 0).all() and ((sums - 1).abs() < 1e-3).all()):
        warn(
            "GEMINILoss takes logits and applies a softmax itself, and these look like "
            "probabilities: none is negative, and rows sum to one. A second softmax "
            "makes all clusters nearly equal. Remove the softmax of the network.",
        )
    is_hard = torch.softmax(logits, dim=1).max(dim=1).values == 1
    if logits.shape[1] > 1 and bool(is_hard.all()):
        warn(
            "GEMINILoss has a gradient of zero: with logits up to "
            f"{float(logits.abs().max()):.2g}, every sample is in one cluster with "
            "probability 1. Rescale the logits, or normalise the network's inputs.",
        )


def _safe_sqrt(squares, noise):
    """Return square roots, 0 with gradient 0 within rounding of 0, NaN of NaN."""
    real = ~(squares <= _ROUNDINGS * noise)
    return torch.where(real, torch.where(real, squares, 1.0).sqrt(), 0.0)


# ------------------------------------------------------------------ a module as model


class _Stored(torch.autograd.Function):
    """A value that is known, whose gradient by its argument is known as well."""

    @staticmethod
    def forward(ctx, argument, value, gradient):
        ctx.save_for_backward(gradient)
        return argument.new_tensor(value)

    @staticmethod
    def backward(ctx, by_value):
        (gradient,) = ctx.saved_tensors
        return by_value * gradient, None, None


class ModuleModel:
    """A torch module as p(y|x), trained on samples as they are.

    Objectives, links and relations are those of NumPy: their gradient by the logits is
    stored, and torch takes it through the module.

    Parameters
    ----------
    module : nn.Module
        Maps (b, d) to logits (b, k); trained in place.
    n_clusters : int
    X : ndarray of shape (n, d)
    problem : Problem
        Of the same samples.
    device : str
    """

    def __init__(self, module, n_clusters, X, problem, device):
        self.module = module.to(device)
        self._n_clusters = n_clusters
        self._X = X
        self._problem = problem
        self._parameters = [p for p in module.parameters() if p.requires_grad]
        if not self._parameters:
            raise ValueError(
                "The 'model' parameter of GEMINI must have parameters to train. Got a "
                f"{type(module).__name__} without any instead."
            )
        self._device = device
        self._dtype = self._parameters[0].dtype
        # Refuses outputs of another width, and values that are too large.
        module_logits(module, X[:1], n_clusters)

    def train(self, loop, rate, batch_size, random_state, attributes):
        """Run the epochs of a loop; its best state is that of the module."""
        optimizer = torch.optim.Adam(self._parameters, lr=rate)

        def close(loop, mean_loss):
            # The loss of all samples, in evaluation mode, decides which state is kept.
            logits = module_logits(
                self.module, self._X, self._n_clusters, block_samples=_BLOCK_SAMPLES
            )
            loss, value, _ = logits_loss(self._problem, logits)
            loop.record(
                loss + float(self._decay().detach()),
                state=self.state,
                attributes=attributes,
                objective=value,
            )

        n_samples = len(self._X)
        train_module(
            loop,
            self.module,
            lambda size: mini_batches(n_samples, size, random_state),
            self._loss_of,
            optimizer,
            batch_size=min(batch_size, n_samples),
            close=close,
        )

    def state(self):
        """Return a copy of the parameters and buffers as a dict of arrays."""
        return module_state(self.module)

    def _loss_of(self, rows):
        """Return the loss of the samples `rows` (b,), None if they have no weight."""
        if not self._problem.row_weights[rows].any():
            return None
        logits = self.module(to_tensor(self._X[rows], self._device, self._dtype))
        loss, _, gradient = logits_loss(self._problem, to_numpy(logits), rows)
        gradient = to_tensor(gradient, self._device, logits.dtype)
        return _Stored.apply(logits, loss, gradient) + self._decay()

    def _decay(self):
        """Return l2 times the sum of squares of all parameters but vectors."""
        total = self._parameters[0].new_zeros(())
        if self._problem.l2:
            _, l2 = self._problem.l2
            for parameter in self._parameters:
                if parameter.ndim > 1:
                    total = total + l2 * parameter.square().sum()
        return total


_BLOCK_SAMPLES = 1024


def module_logits(module, X, n_clusters, *, block_samples=1):
    """Return the outputs (n, k) of a model; see `cluster_logits`."""
    return cluster_logits(
        module, X, n_clusters, "model", "GEMINI", block_samples=block_samples
    )
