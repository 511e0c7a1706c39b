"""The dynamics and the loss in torch: the twin for autograd, GPUs, and encoders."""

import numpy as np
import torch
from torch import nn

from skdiffclust._devices import refuse_other_devices
from skdiffclust._torch import (
    Parts,
    at_least_float32,
    in_full_precision,
    sum_over_processes,
    to_numpy,
    to_tensor,
)
from skdiffclust.memories._dynamics import METRICS, Completion, Dynamics


def recall(X, memories, log_weights, dynamics, moves=None):
    """Return rows (b, d) after the steps of `dynamics` among memories (k, d).

    log_weights (k,); `moves` (b, d) is 1 where a feature moves, None for all. Leading
    dimensions of restarts, (r, b, d), (r, k, d) and (r, k), broadcast.
    """
    if dynamics.metric == "cosine":
        memories = _on_sphere(memories)
        X = _on_sphere(X)
    bias = log_weights.unsqueeze(-2)
    step = dynamics.step_size if moves is None else dynamics.step_size * moves
    for _ in range(dynamics.n_steps):
        share = torch.softmax(
            bias
            - dynamics.inverse_temperature * _divergence(X, memories, dynamics.metric),
            dim=-1,
        )
        if dynamics.metric == "manhattan":
            X = X + step * (_medians(share, memories) - X)
        elif dynamics.metric == "cosine":
            X = _on_sphere(X + step * (share @ memories))
        else:
            X = X + step * (share @ memories - X)
    return X


def completion_loss(X, memories, log_weights, dynamics, *, groups, fill, sample_weight):
    """Return the loss (r,) that `completion_with_gradient` differentiates.

    Tensors of the shapes that it takes: X (b, d), memories (r, k, d), log_weights
    (r, k), fill (d,), sample_weight (b,).
    """
    losses = torch.zeros(len(memories), dtype=X.dtype, device=X.device)
    for rows, features in groups:
        part = X[rows]
        start = X[rows].clone()
        moves = torch.ones_like(fill)
        if features.start < features.stop:
            start[:, features] = fill[features]
            moves = torch.zeros_like(fill)
            moves[features] = 1
        error = recall(start, memories, log_weights, dynamics, moves) - part
        error = error.abs() if dynamics.metric == "manhattan" else error.square()
        losses = losses + (error * moves * sample_weight[rows, None]).sum((-2, -1))
    return losses


def completion_on_device(device):
    """Return a `completion_with_gradient` whose work is done on a torch device.

    Out of memory, it cuts the batch in two, then four: the loss is a sum over rows.
    """

    parts = Parts("batch_size or n_init")

    def run(X, memories, log_weights, dynamics, *, groups, fill, sample_weight):
        arguments = X, memories, log_weights, dynamics, fill, sample_weight
        return parts.run(
            lambda n_parts: _complete(device, *arguments, _cut(groups, n_parts)),
            X.shape[0],
        )

    return run


def _cut(groups, n_parts):
    """Return the groups with their slices of rows cut in parts."""
    cut = []
    for rows, features in groups:
        edges = np.linspace(rows.start, rows.stop, n_parts + 1).astype(int)
        parts = zip(edges[:-1], edges[1:], strict=True)
        cut += [(slice(int(a), int(b)), features) for a, b in parts if a < b]
    return cut


def _complete(device, X, memories, log_weights, dynamics, fill, sample_weight, groups):
    """Return the `Completion` of a batch, summed over groups on the device."""
    arrays = (X, memories, log_weights, fill, sample_weight)
    rows, memory, bias, start, weight = (
        to_tensor(np.ascontiguousarray(a, dtype=X.dtype), device) for a in arrays
    )
    memory.requires_grad_()
    bias.requires_grad_()
    losses = 0.0
    n_scored = 0.0
    for group in groups:
        # One group a time: its graph is gone before the next one is built.
        loss = completion_loss(
            rows,
            memory,
            bias,
            dynamics,
            groups=[group],
            fill=start,
            sample_weight=weight,
        )
        loss.sum().backward()
        losses = losses + loss.detach()
        width = (group[1].stop - group[1].start) or X.shape[1]
        n_scored += float(sample_weight[group[0]].sum()) * width
    with torch.no_grad():
        where = _on_sphere(memory) if dynamics.metric == "cosine" else memory
        nearest = _divergence(rows, where, dynamics.metric).argmin(dim=-1)
        hits = torch.zeros_like(bias)
        hits.scatter_add_(1, nearest, weight.expand(nearest.shape))
    by_weights = np.zeros(bias.shape) if bias.grad is None else to_numpy(bias.grad)
    return Completion(
        to_numpy(losses).astype(np.float64),
        to_numpy(memory.grad),
        by_weights,
        to_numpy(hits),
        n_scored,
    )


def _on_sphere(X):
    """Return rows of unit length; rows of zeros stay."""
    lengths = X.norm(dim=-1, keepdim=True)
    return X / torch.where(lengths > 0, lengths, 1.0)


def _divergence(X, memories, metric):
    """Return (..., b, k): what the inverse temperature multiplies."""
    if metric == "cosine":
        return -(X @ memories.transpose(-1, -2))
    if metric == "manhattan":
        return torch.cdist(X.expand(*memories.shape[:-2], *X.shape[-2:]), memories, p=1)
    # Centred on the memories, so that an offset costs no digits; |x|^2 is the same
    # for all memories.
    shift = memories.mean(dim=-2, keepdim=True).detach()
    X = X - shift
    memories = memories - shift
    norms = memories.square().sum(-1).unsqueeze(-2)
    return norms - 2 * X @ memories.transpose(-1, -2)


def _medians(share, memories):
    """Return the medians (..., b, d) of the memories under the weights (..., b, k)."""
    values, order = memories.transpose(-1, -2).sort(dim=-1)  # (..., d, k)
    shape = (*share.shape[:-1], *order.shape[-2:])
    wide = share.unsqueeze(-2).expand(shape)
    reached = wide.gather(-1, order.unsqueeze(-3).expand(shape)).cumsum(-1) >= 0.5
    # The last memory is reached whatever rounding left of the sum.
    chosen = reached.to(torch.int8).argmax(-1, keepdim=True)
    chosen = torch.where(reached[..., -1:], chosen, shape[-1] - 1)
    return values.unsqueeze(-3).expand(shape).gather(-1, chosen).squeeze(-1)


def _mean(values, weight=None):
    """Return the weighted mean of a tensor over all processes of ``torchrun``."""
    weight = torch.ones_like(values) if weight is None else weight
    total, mass = sum_over_processes(
        torch.stack([(values * weight).sum(), weight.sum()])
    )
    return total / mass


class Carried(nn.Module):
    """Numbers that training carries between epochs, as part of a module's state.

    `read` returns a list of floats, `write` takes one.
    """

    def __init__(self, read, write):
        super().__init__()
        self._read = read
        self._write = write

    def get_extra_state(self):
        """Return the numbers, for the state of the module."""
        return torch.tensor(self._read(), dtype=torch.float64)

    def set_extra_state(self, state):
        """Take over the numbers of a state."""
        self._write(state.tolist())


class AssociativeMemory(nn.Module):
    r"""Memories that attract samples, as a layer: recall, energy and loss.

    Its output is the recalled sample, differentiable in the samples, the memories and
    their weights, so that it stands behind any encoder and trains with it end to end:
    eq. (4), (11) and Section 3.5 of [1]_.

    Parameters
    ----------
    n_clusters : int
        Number of memories.
    n_features : int
        Features of a sample.
    inverse_temperature : float
        The paper's β.
    n_steps : int, default=3
        Steps, the paper's T.
    step_size : float, default=1.0
        The paper's dt/τ, in (0, 2), at most 1 for "manhattan".
    metric : {"euclidean", "cosine", "manhattan"}, default="euclidean"
        Geometry.
    weighted : bool, default=False
        Whether the log weights of the memories are trained.
    memories : array-like of shape (n_clusters, n_features) or None, default=None
        Where the memories start; None draws standard normal ones.
    generator : torch.Generator or None, default=None
        Draws the memories when none are given.

    Attributes
    ----------
    memories : torch.nn.Parameter of shape (n_clusters, n_features)
        Memories; they follow ``.to(device)``.
    log_weights : torch.nn.Parameter of shape (n_clusters,)
        Logarithms of the weights; trained only if `weighted`.

    Raises
    ------
    ValueError
        If an argument is not as described.

    References
    ----------
    .. [1] B. Saha, D. Krotov, M. J. Zaki, P. Ram, "End-to-end Differentiable
       Clustering with Associative Memories", ICML 2023.

    Examples
    --------
    >>> import torch
    >>> from skdiffclust.nn import AssociativeMemory
    >>> layer = AssociativeMemory(2, 1, inverse_temperature=9.0, memories=[[0.], [4.]])
    >>> rows = torch.tensor([[0.3], [3.0]])
    >>> layer(rows).detach().round().abs().T
    tensor([[0., 4.]])
    >>> loss = layer.loss(rows)
    >>> loss.backward()
    """

    def __init__(
        self,
        n_clusters,
        n_features,
        *,
        inverse_temperature,
        n_steps=3,
        step_size=1.0,
        metric="euclidean",
        weighted=False,
        memories=None,
        generator=None,
    ):
        super().__init__()
        largest = 1 if metric == "manhattan" else 2
        if metric not in METRICS:
            raise ValueError(
                "The 'metric' parameter of AssociativeMemory must be one of "
                f"{', '.join(METRICS)}. Got {metric!r} instead. Choose one of them."
            )
        if not 0 < step_size < 2 or step_size > largest:
            raise ValueError(
                "The 'step_size' parameter of AssociativeMemory must be positive, "
                f"below 2, and at most 1 for 'manhattan'. Got {step_size!r} instead: "
                "the energy could rise. Use 1."
            )
        if not 0 < inverse_temperature < float("inf"):
            raise ValueError(
                "The 'inverse_temperature' parameter of AssociativeMemory must be "
                f"positive and finite. Got {inverse_temperature!r} instead. One over "
                "the variance of the samples is a start."
            )
        if memories is None:
            memories = torch.randn(n_clusters, n_features, generator=generator)
        memories = torch.as_tensor(memories, dtype=torch.get_default_dtype()).clone()
        if memories.shape != (n_clusters, n_features):
            raise ValueError(
                "The 'memories' parameter of AssociativeMemory must have shape "
                f"{(n_clusters, n_features)}. Got {tuple(memories.shape)} instead. "
                "Give one row per cluster."
            )
        self.memories = nn.Parameter(memories)
        self.log_weights = nn.Parameter(
            torch.zeros(n_clusters, device=memories.device),
            requires_grad=bool(weighted),
        )
        self.dynamics = Dynamics(inverse_temperature, n_steps, step_size, metric)

    @in_full_precision
    def forward(self, X, mask=None):
        """Return samples after the steps of the dynamics.

        Parameters
        ----------
        X : torch.Tensor of shape (n_samples, n_features)
            Samples; what is hidden holds what it starts from.
        mask : torch.Tensor of bool, default=None
            True where a feature is seen and stays, of a shape that broadcasts to X.

        Returns
        -------
        torch.Tensor of shape (n_samples, n_features)
            Recalled samples.
        """
        refuse_other_devices(X, "AssociativeMemory")
        X = at_least_float32(X)
        moves = None if mask is None else (~mask).to(X.dtype)
        return recall(X, self.memories, self.log_weights, self.dynamics, moves)

    def loss(self, X, mask=None, fill=0.0):
        """Return the mean loss per scored entry: eq. (9) with a mask, else eq. (8).

        Parameters
        ----------
        X : torch.Tensor of shape (n_samples, n_features)
            Samples; of unit length for "cosine".
        mask : torch.Tensor of bool, default=None
            True where a feature is seen, of a shape that broadcasts to X; what is not
            seen is filled, recalled, and scored. None scores the recall of all.
        fill : float or torch.Tensor, default=0.0
            What hidden features start from.

        Returns
        -------
        torch.Tensor of shape ()
            Mean squared error (absolute error for "manhattan"), of the samples of all
            processes under ``torchrun``.
        """
        X = at_least_float32(X)
        hidden = None if mask is None else (~mask).expand(X.shape)
        start = X if mask is None else torch.where(hidden, fill, X)
        error = self(start, mask) - X
        metric = self.dynamics.metric
        error = error.abs() if metric == "manhattan" else error.square()
        if mask is None:
            return _mean(error)
        # Multiplied, not selected: no device has to be waited for.
        return _mean(torch.where(hidden, error, 0.0), hidden.to(error.dtype))

    def reconstruction_loss(self, X, encoder, decoder, start=None, sample_weight=None):
        """Return the loss of an autoencoder whose code is recalled: deep ClAM.

        The mean of ``|| x - decoder(code) ||^2 + || x - decoder(recall(code)) ||^2``
        per entry. The first half trains the encoder while memories are still anywhere;
        the second one draws codes to memories, and memories to codes.

        Parameters
        ----------
        X : torch.Tensor of shape (n_samples, n_inputs)
            Samples to give back.
        encoder : callable
            From samples (n_samples, n_inputs) to codes (n_samples, n_features).
        decoder : callable
            From codes (of unit length for "cosine") to samples.
        start : torch.Tensor of shape (n_samples, n_inputs), default=None
            Samples of which some features are hidden, for the encoder; None is X.
        sample_weight : torch.Tensor of shape (n_samples,), default=None
            Weight of each sample in the mean.

        Returns
        -------
        torch.Tensor of shape ()
            Loss, of the samples of all processes under ``torchrun``.
        """
        code = encoder(X if start is None else start)
        if self.dynamics.metric == "cosine":
            code = _on_sphere(code)
        # The networks are in whatever precision they are; the differences are not.
        X = at_least_float32(X)
        recalled = self(code).to(code.dtype)
        error = (decoder(code) - X).square() + (decoder(recalled) - X).square()
        return _mean(error.mean(dim=1), sample_weight)

    @in_full_precision
    def energy(self, X):
        """Return the energy of samples, eq. (1), (10) or (12).

        Parameters
        ----------
        X : torch.Tensor of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        torch.Tensor of shape (n_samples,)
            Energies.
        """
        beta = self.dynamics.inverse_temperature
        metric = self.dynamics.metric
        refuse_other_devices(X, "AssociativeMemory")
        X = at_least_float32(X)
        memories = self.memories
        if metric == "cosine":
            X = _on_sphere(X)
            memories = _on_sphere(memories)
        far = _divergence(X, memories, metric)
        if metric == "euclidean":
            far = far + (X - memories.mean(-2).detach()).square().sum(-1, keepdim=True)
        return -torch.logsumexp(self.log_weights - beta * far, dim=-1) / beta

    @torch.no_grad()
    @in_full_precision
    def assign(self, X):
        """Return the memory that each sample converges to.

        Parameters
        ----------
        X : torch.Tensor of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        torch.Tensor of shape (n_samples,), int64
            Number of the nearest memory of the recalled sample.
        """
        memories = self.memories
        metric = self.dynamics.metric
        memories = _on_sphere(memories) if metric == "cosine" else memories
        return _divergence(self(X), memories, metric).argmin(dim=-1)
