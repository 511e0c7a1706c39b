"""Torch face of the cuts: the loss for a training loop, and modules as encoders."""

from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn
from torch.nn import functional

from skdiffclust._batches import by_batches
from skdiffclust._torch import (
    ModuleState,
    Parts,
    cluster_logits,
    encoder_module,
    in_full_precision,
    module_encoder,
    module_identity,
    module_on_cpu,
    module_outputs,
    parameters_text,
    refuse_transforms,
    sum_over_processes,
    to_numpy,
    to_tensor,
    trained_tensor,
)
from skdiffclust._validation import refuse_container
from skdiffclust.cuts._models import EncoderPredictor

_FLOOR = 1e-3
_BLOCK_ROWS = 1024


def block_loss(block, left, right, proportions):
    """Return L_tr / sum(W) of a block (a, b): the twin of `block_loss_with_gradients`.

    `block` is a dense tensor or a sparse one of coordinates. `proportions` (k,) is
    differentiated like any other tensor; sums go over all processes of ``torchrun``.
    """
    cut = 0.0
    for weights, mine, others in ((block, left, right), (block.t(), right, left)):
        degrees = weights @ torch.ones_like(others[:, :1])
        cut = cut + 0.5 * (mine * (degrees - weights @ others)).sum(dim=0)
    cut = sum_over_processes(cut)
    total = torch.sparse.sum(block) if block.is_sparse else block.sum()
    total = sum_over_processes(total.reshape(1))[0]
    # Without edges the cut is 0, and so is its gradient.
    return (cut / proportions).sum() / torch.where(total > 0, total, 1.0)


class RatioCutLoss(nn.Module):
    r"""Probabilistic ratio-cut of a batch, for a custom training loop.

    For a block W of the affinity between a left and a right batch

    .. math:: \frac{1}{\sum_{ij} W_{ij}} \sum_l \frac{1}{\bar P_l} \sum_{ij} W_{ij}
              \tfrac12 (P_{il} + P_{jl} - 2 P_{il} P_{jl})
              + \gamma\, \mathrm{KL}(\bar P \,\|\, \text{prior})

    (equation (7) and Section 4.3 of the paper), with the running proportions
    :math:`\bar P` of Algorithm 1. With ``cut="normalized"``, samples are weighted by
    their degrees in :math:`\bar P`. For all samples and hard clusters, the first term
    is then equal to the normalised cut.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, which is the number of columns of the logits.
    balance_weight : float, default=10.0
        Weight :math:`\gamma` of the balance term, which prevents empty clusters.
    averaging_rate : float, default=0.8
        Weight of a new batch in the running proportions, in (0, 1].
    prior : array-like of shape (n_clusters,), default=None
        Target proportions of the balance term; uniform by default.
    cut : {"ratio", "normalized"}, default="ratio"
        Whether the cut of each cluster is divided by its number of samples ("ratio") or
        by the sum of their degrees ("normalized").

    Attributes
    ----------
    proportions : tensor of shape (n_clusters,), float32 or as the module is cast
        Running proportions, stored as a buffer; zeros before the first batch.

    Notes
    -----
    The cost is O(nnz n_clusters), without a tensor of shape (a, b, n_clusters). Past
    proportions are treated as constant. Each sample changes the mean by 1 / (2 batch)
    and not by 1 / batch as in the paper, which is biased by a factor of 2. Under
    ``torchrun``, cuts and proportions are computed from the samples of all processes.

    References
    ----------
    Ghriss, Monteleoni. Deep Clustering via Probabilistic Ratio-Cut Optimization.
    AISTATS 2025.

    Examples
    --------
    >>> import torch
    >>> from skdiffclust.nn import RatioCutLoss
    >>> graph = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 3.0], [0.0, 3.0, 0.0]])
    >>> logits = torch.tensor([[9.0, 0.0], [0.0, 9.0], [0.0, 9.0]], requires_grad=True)
    >>> loss = RatioCutLoss(2, balance_weight=0.0)(logits, graph)
    >>> loss.backward()
    >>> round(loss.item(), 2), logits.grad.shape
    (0.56, torch.Size([3, 2]))
    """

    def __init__(
        self,
        n_clusters: int | np.integer,
        *,
        balance_weight: float = 10.0,
        averaging_rate: float = 0.8,
        prior=None,
        cut: Literal["ratio", "normalized"] = "ratio",
    ) -> None:
        super().__init__()
        if not isinstance(n_clusters, Integral) or n_clusters < 1:
            raise ValueError(
                "The 'n_clusters' parameter of RatioCutLoss must be an integer of at "
                f"least 1. Got {n_clusters!r} instead."
            )
        if not 0.0 < averaging_rate <= 1.0:
            raise ValueError(
                "The 'averaging_rate' parameter of RatioCutLoss must be in (0, 1]. Got "
                f"{averaging_rate!r} instead. 1 takes the proportions of each batch."
            )
        if not 0.0 <= balance_weight < np.inf:
            raise ValueError(
                "The 'balance_weight' parameter of RatioCutLoss must be finite and not "
                f"negative. Got {balance_weight!r} instead."
            )
        prior = np.full(n_clusters, 1.0 / n_clusters) if prior is None else prior
        prior = torch.as_tensor(np.array(prior, dtype=np.float64))
        if prior.shape != (n_clusters,) or not (prior > 0).all():
            raise ValueError(
                "The 'prior' parameter of RatioCutLoss must hold n_clusters="
                f"{n_clusters} positive proportions. Got {prior.tolist()} instead."
            )
        self.balance_weight = balance_weight
        self.averaging_rate = averaging_rate
        if cut not in ("ratio", "normalized"):
            raise ValueError(
                "The 'cut' parameter of RatioCutLoss must be 'ratio' or 'normalized'. "
                f"Got {cut!r} instead."
            )
        self.cut = cut
        dtype = torch.get_default_dtype()
        self.register_buffer("prior", (prior / prior.sum()).to(dtype))
        self.register_buffer("proportions", torch.zeros(n_clusters, dtype=dtype))

    def extra_repr(self) -> str:
        """Name the parameters in the module's text.

        Returns
        -------
        str
            As in ``repr`` of a module.
        """
        return parameters_text(
            n_clusters=len(self.prior),
            balance_weight=self.balance_weight,
            averaging_rate=self.averaging_rate,
            prior=[round(share, 6) for share in self.prior.tolist()],
            cut=self.cut,
        )

    @in_full_precision
    def forward(self, logits, affinity, *, right=None, degrees=None) -> torch.Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        logits : tensor of shape (a, n_clusters)
            Outputs of an encoder before the softmax, for the samples of the rows of
            the affinity ("left").
        affinity : tensor or array, dense or sparse, of shape (a, b)
            Non-negative affinities between left and right samples.
        right : tensor of shape (b, n_clusters), default=None
            Logits of the samples of the columns ("right"). With None,
            these are the same samples.
        degrees : tensor or pair of tensors of shapes (a,) and (b,), default=None
            Degrees of the left samples in the whole graph, and those of the right
            samples if `right` is passed. Only used with ``cut="normalized"``. By
            default, the degrees within the block are used.

        Returns
        -------
        loss : tensor of shape (), float32 or float64
            Loss to be minimised.

        Raises
        ------
        TypeError
            If the logits or the affinity are no tensors.
        ValueError
            If shapes are inconsistent, a weight is negative or NaN, or the loss is not
            finite.
        """
        left = self._log_assignments(logits, "logits", affinity)
        refuse_transforms(left, "RatioCutLoss")
        if self.prior.device != left.device:
            self.to(left.device)
        sides = left, left
        if right is not None:
            sides = left, self._log_assignments(right, "right")
        block = _as_block(affinity, left)
        shape = tuple(len(side) for side in sides)
        if block.shape != shape:
            raise ValueError(
                "The 'affinity' argument of RatioCutLoss must have one row for each "
                f"left sample and one column for each right sample, {shape}. Got "
                f"{tuple(block.shape)} instead."
            )
        if self.cut == "normalized":
            weights = self._degrees(degrees, block, sides)
        elif degrees is not None:
            raise ValueError(
                "The 'degrees' parameter of RatioCutLoss must be None with "
                "cut='ratio', which does not use them. Set cut='normalized'."
            )
        else:
            weights = [torch.ones_like(side[:, 0]) for side in sides]
        running, proportions = self._running(_mean_over_processes(sides, weights))
        loss = block_loss(block, *(side.exp() for side in sides), proportions)
        if self.balance_weight:
            log_ratio = proportions.log() - self.prior.to(proportions.dtype).log()
            loss = loss + self.balance_weight * (proportions * log_ratio).sum()
        if not torch.isfinite(loss):
            raise ValueError(
                "RatioCutLoss must get finite logits and weights. Got a loss of "
                f"{loss.item()} instead. Lower the learning rate, or scale the input."
            )
        if self.training:
            self.proportions.copy_(running)
        return loss

    def _log_assignments(self, logits, argument, known=None):
        """Return the log-softmax (n, k) of logits (n, k), float32 at least."""
        n_clusters = len(self.prior)
        logits = trained_tensor(
            logits, argument, "RatioCutLoss", f"(n, {n_clusters})", known
        )
        if logits.shape[1:] != (n_clusters,):
            raise ValueError(
                f"The {argument!r} argument of RatioCutLoss must have one column for "
                f"each of n_clusters={n_clusters}. Got {tuple(logits.shape)} instead. "
                "The logits come first, and then the affinity."
            )
        return functional.log_softmax(logits, dim=1)

    def _degrees(self, degrees, block, sides):
        """Return the degrees [(a,), (b,)] of both sides, as given or not."""
        if degrees is None:
            ones = [torch.ones_like(side[:, 0]) for side in sides]
            return [block @ ones[1], block.t() @ ones[0]]
        if torch.is_tensor(degrees) or isinstance(degrees, np.ndarray):
            degrees = degrees, degrees
        degrees = [torch.as_tensor(part).to(sides[0]) for part in degrees]
        shapes = [tuple(part.shape) for part in degrees]
        if shapes != [(len(side),) for side in sides]:
            raise ValueError(
                "The 'degrees' parameter of RatioCutLoss must hold one degree for each "
                f"left and each right sample, {[len(side) for side in sides]}. Got "
                f"shapes {shapes} instead."
            )
        return degrees

    def _running(self, batch):
        """Return running proportions (k,), and floored with the gradient of a batch."""
        batch_now = batch.detach()
        before = self.proportions.to(batch.dtype)
        before = torch.where(before.any(), before, batch_now)
        # A batch without edges says nothing of volumes.
        seen = torch.where(batch_now.any(), batch_now, before)
        rate = self.averaging_rate
        running = (1.0 - rate) * before + rate * seen
        floored = running.clamp(min=_FLOOR / len(running))
        return running, floored + (batch - batch_now)


def _mean_over_processes(sides, weights):
    """Return the weighted mean (k,) of both sides' assignments, of all processes.

    Each side counts by its own number of samples; weights are [(a,), (b,)].
    """
    total = 0.0
    weight = 0.0
    for side, mine in zip(sides, weights, strict=True):
        count = sum_over_processes(mine.new_tensor([float(len(mine))]))
        total = total + sum_over_processes(mine @ side.exp()) / count
        weight = weight + sum_over_processes(mine.sum().reshape(1)) / count
    # Without edges nothing is cut, whatever the proportions.
    return total / torch.where(weight > 0, weight, 1.0)


def _as_block(block, like):
    """Return a block as a tensor of the dtype and device of `like`, dense or sparse."""
    if sp.issparse(block):
        refuse_container(block, name="block")
        block = sp.coo_array(block, dtype=np.float64)
        block = torch.sparse_coo_tensor(
            np.stack(block.coords), block.data, block.shape, check_invariants=True
        )
    if not isinstance(block, torch.Tensor | np.ndarray):
        raise TypeError(
            "The 'affinity' argument of RatioCutLoss must be a tensor, an array or "
            f"a sparse matrix. Got {type(block).__name__} instead."
        )
    block = torch.as_tensor(block)
    if block.layout not in (torch.strided, torch.sparse_coo):
        block = block.to_sparse_coo()
    block = block.to(device=like.device, dtype=like.dtype)
    weights = block._values() if block.is_sparse else block
    if not (weights >= 0).all():  # nor is NaN
        raise ValueError(
            "The 'affinity' argument of RatioCutLoss must have weights of at least "
            "0. Got a negative one or NaN instead. Convert distances to affinities "
            "first."
        )
    return block


@dataclass(frozen=True)
class ModuleEncoder:
    """A torch module on the CPU, and the output column of each cluster.

    It has what `EncoderPredictor` needs of an `Encoder`.
    """

    module: object
    columns: np.ndarray

    @property
    def n_outputs(self):
        """Number of clusters."""
        return len(self.columns)

    def outputs(self, X):
        """Return the outputs (n, k) for samples X (n, d), in the order of clusters."""
        return by_batches(
            lambda rows: module_logits(self.module, rows, self.n_outputs),
            X,
            _BLOCK_ROWS,
        )[:, self.columns]


class ModuleModel:
    """A torch module with its optimiser, with the interface of `EncoderModel`.

    Parameters
    ----------
    encoder : nn.Module or Encoder
        Maps (b, d) to logits (b, k). A module is trained in place.
    n_clusters : int
    weight_decay : float
    device : torch.device or str
    """

    def __init__(self, encoder, n_clusters, weight_decay, device):
        is_module = isinstance(encoder, nn.Module)
        module = encoder if is_module else encoder_module(encoder)
        self.activation = None if is_module else encoder.activation
        self.module = module
        self.n_clusters = n_clusters
        self.device = device
        parameters = [p for p in module.to(device).parameters() if p.requires_grad]
        if not parameters:
            raise ValueError(
                "The 'encoder' parameter of PRCut must have parameters to train. Got a "
                f"{type(module).__name__} without any instead."
            )
        self.dtype = parameters[0].dtype
        self.optimizer = torch.optim.AdamW(parameters, weight_decay=weight_decay)
        self.parts = Parts("batch_size")
        self.trained = ModuleState(module, self.optimizer, self.parts)

    @property
    def weights(self):
        """The tensors that samples are multiplied with."""
        return list(self.module.parameters())

    def logits(self, X):
        """Return the outputs (n, k) for samples X (n, d), as a NumPy array."""
        return by_batches(
            lambda rows: module_logits(
                self.module, rows, self.n_clusters, block_samples=_BLOCK_ROWS
            ),
            X,
            _BLOCK_ROWS,
        )

    def step(self, X, gradient_of, rate):
        """Take a step; a batch that does not fit the device is halved, at most twice.

        The gradient is that of the whole batch either way: it is computed at the
        outputs of all parts, then propagated back part by part.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.module.train()
        self.optimizer.zero_grad(set_to_none=True)
        self.parts.run(
            lambda n_parts: self._vjp(X, gradient_of, n_parts),
            len(X),
            release=lambda: self.optimizer.zero_grad(set_to_none=True),
        )
        self.optimizer.step()

    def predictor(self, state, scaling, order):
        """Return the predictor of a state whose cluster p is the output order[p]."""
        module = module_on_cpu(self.module, state)
        if self.activation is None:
            return EncoderPredictor(ModuleEncoder(module, order), None)
        encoder = module_encoder(module, self.activation)
        return EncoderPredictor(encoder.permute_outputs(order), scaling)

    def _vjp(self, X, gradient_of, n_parts):
        """Add the gradients of a batch X (b, d), in parts, to those of parameters."""
        parts = [
            to_tensor(part, self.device, self.dtype)
            for part in np.array_split(X, n_parts)
            if len(part)
        ]
        if len(parts) == 1:
            logits = self.module(parts[0])
            self._propagate(logits, gradient_of(to_numpy(logits)))
            return
        with torch.no_grad():
            outputs = [to_numpy(self.module(part)) for part in parts]
        gradients = np.array_split(gradient_of(np.concatenate(outputs)), n_parts)
        # With fewer samples than parts, the last gradients are empty.
        for part, gradient in zip(parts, gradients, strict=False):
            self._propagate(self.module(part), gradient)

    def _propagate(self, logits, gradient):
        """Add the gradients by the parameters, of a gradient (b, k) by the logits."""
        # A backward pass that began with a matrix product would make torch warn that
        # the thread has no CUDA context yet.
        gradient = to_tensor(gradient, self.device, logits.dtype)
        (logits * gradient).sum().backward()


def identity_of_module(module, rows):
    """Return the identity of a user's module in a checkpoint, from its outputs."""
    # Random numbers that the module draws here must not change later ones.
    with torch.random.fork_rng(devices=[]):
        return module_identity(module, module_outputs(module, rows, lambda *_: None))


# The outputs (n, k) of an encoder.
module_logits = partial(cluster_logits, parameter="encoder", owner="PRCut")
