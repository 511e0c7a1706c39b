"""The dynamics and the loss in torch: the twin for autograd, GPUs, and encoders."""

from typing import Literal

import torch
from torch import nn

from skdiffclust._torch import (
    at_least_float32,
    in_full_precision,
    parameters_text,
    sum_over_processes,
    trained_tensor,
)
from skdiffclust.memories._dynamics import (
    Dynamics,
    check_metric,
    check_steps,
    check_temperature,
)


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
            moved = X + step * (share @ memories)
            # Opposite to what attracts it, a sample is at a stationary point.
            rounding = 10 * torch.finfo(X.dtype).eps
            is_opposite = moved.detach().norm(dim=-1, keepdim=True) <= rounding
            X = torch.where(is_opposite, X, _on_sphere(moved))
        else:
            X = X + step * (share @ memories - X)
    return X


def _on_sphere(X):
    """Return rows of unit length; rows of zeros stay."""
    lengths = X.norm(dim=-1, keepdim=True)
    return X / torch.where(lengths > 0, lengths, 1.0)


def _divergence(X, memories, metric):
    """Return the distances (..., b, k) that the inverse temperature multiplies."""
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
    # The last memory is reached despite rounding of the sum.
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


def _check_broadcast(tensor, argument, shape):
    """Refuse an argument of AssociativeMemory that does not fit a shape, by name."""
    if tensor is None:
        return
    if not torch.is_tensor(tensor):
        raise TypeError(
            f"The {argument!r} argument of AssociativeMemory must be a tensor. Got "
            f"{type(tensor).__name__} instead."
        )
    own = (1,) * (len(shape) - tensor.ndim) + tuple(tensor.shape)
    if len(own) != len(shape) or not all(
        size in (1, wanted) for size, wanted in zip(own, shape, strict=True)
    ):
        raise ValueError(
            f"The {argument!r} argument of AssociativeMemory must fit the shape "
            f"{tuple(shape)} of the samples. Got {tuple(tensor.shape)} instead."
        )


class AssociativeMemory(nn.Module):
    r"""Associative memory as a torch module, with its recall, energy and loss.

    The output is the recalled sample, which is differentiable with respect to the
    samples, the memories and their weights. The module can therefore be placed after
    any encoder and trained with it end to end. See equations (4) and (11) and Section
    3.5 of [1]_.

    Parameters
    ----------
    n_clusters : int
        Number of memories.
    n_features : int
        Number of features.
    inverse_temperature : float
        Inverse temperature β of the paper.
    n_steps : int, default=3
        Number of attraction steps, T in the paper.
    step_size : float, default=1.0
        Step size, dt/τ in the paper, in (0, 2); at most 1 for "manhattan".
    metric : {"euclidean", "cosine", "manhattan"}, default="euclidean"
        Distance between samples and memories.
    weighted : bool, default=False
        Whether to train the weights of the memories.
    memories : array-like of shape (n_clusters, n_features) or None, default=None
        Initial memories. With None, they are drawn from a standard normal distribution.
    generator : torch.Generator or None, default=None
        Generator for the initial memories if `memories` is None.

    Attributes
    ----------
    memories : torch.nn.Parameter of shape (n_clusters, n_features)
        Memories.
    log_weights : torch.nn.Parameter of shape (n_clusters,)
        Logarithms of the weights of the memories, trained only if `weighted` is True.

    Raises
    ------
    ValueError
        If an argument is invalid.

    References
    ----------
    .. [1] B. Saha, D. Krotov, M. J. Zaki, P. Ram, "End-to-end Differentiable
       Clustering with Associative Memories", ICML 2023.

    Examples
    --------
    >>> import torch
    >>> from skdiffclust.nn import AssociativeMemory
    >>> layer = AssociativeMemory(2, 1, inverse_temperature=9.0, memories=[[0.], [4.]])
    >>> samples = torch.tensor([[0.3], [3.0]])
    >>> layer(samples).detach().round().abs().T
    tensor([[0., 4.]])
    >>> loss = layer.loss(samples)
    >>> loss.backward()
    """

    def __init__(
        self,
        n_clusters: int,
        n_features: int,
        *,
        inverse_temperature: float,
        n_steps: int = 3,
        step_size: float = 1.0,
        metric: Literal["euclidean", "cosine", "manhattan"] = "euclidean",
        weighted: bool = False,
        memories=None,
        generator=None,
    ) -> None:
        super().__init__()
        check_metric(metric)
        check_steps(n_steps, step_size, metric)
        check_temperature(inverse_temperature)
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

    def extra_repr(self) -> str:
        """Name the parameters in the module's text.

        Returns
        -------
        str
            As in ``repr`` of a module.
        """
        n_clusters, n_features = self.memories.shape
        return parameters_text(
            n_clusters=n_clusters,
            n_features=n_features,
            **self.dynamics._asdict(),
            weighted=self.log_weights.requires_grad,
        )

    def _samples(self, X, argument="X"):
        """Return samples or codes (..., n_features) in float32 at least."""
        width = self.memories.shape[1]
        X = trained_tensor(X, argument, "AssociativeMemory", f"(n, {width})")
        if X.shape[-1] != width:
            raise ValueError(
                f"The {argument!r} argument of AssociativeMemory must have one column "
                f"for each of n_features={width}. Got shape {tuple(X.shape)} instead."
            )
        return X

    @in_full_precision
    def forward(self, X, mask=None) -> torch.Tensor:
        """Return the samples after `n_steps` attraction steps.

        Parameters
        ----------
        X : torch.Tensor of shape (n_samples, n_features)
            Samples, with initial values for their hidden features.
        mask : torch.Tensor of bool, or of 0 and 1, default=None
            True for observed features, which do not change. Must be broadcastable to
            the shape of X.

        Returns
        -------
        torch.Tensor of shape (n_samples, n_features)
            Recalled samples.
        """
        X = self._samples(X)
        _check_broadcast(mask, "mask", X.shape)
        moves = None if mask is None else (~mask.bool()).to(X.dtype)
        memories = at_least_float32(self.memories)
        log_weights = at_least_float32(self.log_weights)
        return recall(X, memories, log_weights, self.dynamics, moves)

    def loss(self, X, mask=None, fill=0.0) -> torch.Tensor:
        """Return the reconstruction error: equation (9) with a mask, else equation (8).

        Parameters
        ----------
        X : torch.Tensor of shape (n_samples, n_features)
            Samples; of unit length for "cosine".
        mask : torch.Tensor of bool, or of 0 and 1, default=None
            True for observed features; must be broadcastable to the shape of X. Hidden
            features are replaced by `fill` and recalled, and the loss is their error.
            With None, the loss is the error of all features.
        fill : float or torch.Tensor, default=0.0
            Initial values of hidden features.

        Returns
        -------
        torch.Tensor of shape ()
            Mean squared error (absolute error for "manhattan"), of the samples of all
            processes under ``torchrun``.
        """
        X = self._samples(X)
        _check_broadcast(mask, "mask", X.shape)
        hidden = torch.ones_like(X, dtype=torch.bool)
        start = X
        if mask is not None:
            hidden = (~mask.bool()).expand(X.shape)
            start = torch.where(hidden, fill, X)
        error = self(start, mask) - X
        error = error.abs() if self.dynamics.metric == "manhattan" else error.square()
        # Rows are multiplied, not selected: the host does not wait for the device.
        return _mean(torch.where(hidden, error, 0.0), hidden.to(error.dtype))

    def reconstruction_loss(
        self, encoder, decoder, X, *, start=None, sample_weight=None, labels=None
    ) -> torch.Tensor:
        """Return the loss of an autoencoder whose codes are recalled (deep ClAM).

        The loss is the mean over samples and features of
        ``(decoder(recall(encoder(x))) - x) ** 2``. With `labels`, the mean of minus the
        log of the weight with which each code is attracted by its labelled memory is
        added.

        Parameters
        ----------
        encoder : callable
            From samples (n_samples, n_inputs) to codes (n_samples, n_features).
        decoder : callable
            From codes (of unit length for "cosine") to samples.
        X : torch.Tensor of shape (n_samples, n_inputs)
            Samples to reconstruct.
        start : torch.Tensor of shape (n_samples, n_inputs), default=None
            Input of the encoder if it differs from X, e.g. because features are hidden.
        sample_weight : torch.Tensor of shape (n_samples,), default=None
            Weights of the samples.
        labels : torch.Tensor of shape (n_samples,), default=None
            Index of the memory to which each code is attracted. With None, the loss is
            the reconstruction error only.

        Returns
        -------
        torch.Tensor of shape ()
            Loss; under ``torchrun``, that of the samples of all processes.
        """
        for argument, network in (("encoder", encoder), ("decoder", decoder)):
            if not callable(network):
                raise TypeError(
                    f"The {argument!r} argument of AssociativeMemory must be callable, "
                    f"such as a module. Got {type(network).__name__} instead."
                )
        _check_broadcast(sample_weight, "sample_weight", X.shape[:1])
        if labels is not None and labels.shape != X.shape[:1]:
            raise ValueError(
                "The 'labels' argument of AssociativeMemory must have one label for "
                f"each of {len(X)} samples. Got {tuple(labels.shape)} instead."
            )
        code = encoder(X if start is None else start)
        if self.dynamics.metric == "cosine":
            code = _on_sphere(code)
        # The networks may be in lower precision; the differences are not.
        X = at_least_float32(X)
        recalled = self(code).to(code.dtype)
        error = (decoder(recalled) - X).square().mean(dim=1)
        if labels is not None:
            error = error + self._surprise(code, labels)
        return _mean(error, sample_weight)

    @in_full_precision
    def _surprise(self, code, labels):
        """Return minus the log share (n,) of memories `labels` in codes (n, p)."""
        shares = torch.log_softmax(self._logits(at_least_float32(code)), dim=-1)
        return -shares.gather(1, labels[:, None])[:, 0]

    def _logits(self, X):
        """Return logarithms (n, k) of the attraction, up to one number a sample."""
        far = self.dynamics.inverse_temperature * self._divergences(X)
        return at_least_float32(self.log_weights) - far

    def _divergences(self, X):
        """Return the distances (n, k) that the inverse temperature multiplies."""
        memories = at_least_float32(self.memories)
        if self.dynamics.metric == "cosine":
            memories = _on_sphere(memories)
        return _divergence(X, memories, self.dynamics.metric)

    @in_full_precision
    def energy(self, X) -> torch.Tensor:
        """Return the energy of samples, equation (1), (10) or (12).

        Parameters
        ----------
        X : torch.Tensor of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        torch.Tensor of shape (n_samples,)
            Energies.
        """
        metric = self.dynamics.metric
        X = self._samples(X)
        if metric == "cosine":
            X = _on_sphere(X)
        total = torch.logsumexp(self._logits(X), dim=-1)
        energies = -total / self.dynamics.inverse_temperature
        if metric == "euclidean":
            shift = at_least_float32(self.memories).mean(-2).detach()
            energies = energies + (X - shift).square().sum(-1)
        return energies

    @torch.no_grad()
    @in_full_precision
    def assign(self, X) -> torch.Tensor:
        """Return the memory that each sample converges to.

        Parameters
        ----------
        X : torch.Tensor of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        torch.Tensor of shape (n_samples,), int64
            Index of the memory that is nearest to the recalled sample.
        """
        return self._divergences(self(X)).argmin(dim=-1)
