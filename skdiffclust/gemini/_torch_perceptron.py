"""Perceptrons propagated by torch, for training on a device."""

import torch

from skdiffclust._devices import outside_torch_modes
from skdiffclust._torch import to_numpy, to_tensor


class PerceptronOnDevice:
    """Perceptrons, with or without skip weights, on samples that stay on a device.

    The same as ``forward`` and ``backward`` of `Encoder` and `SkipPerceptron`. The
    arrays of the model are copied for each pass; objective, solver and penalty are
    those of NumPy.
    """

    @outside_torch_modes
    def __init__(self, X, device):
        self._X = to_tensor(X, device)

    @outside_torch_modes
    def forward(self, model, rows=None):
        """Return logits (b, k), an array, and what `backward` needs."""
        arrays = [to_tensor(a, self._X.device).requires_grad_() for a in model.arrays]
        named = dict(zip(model.names, arrays, strict=True))
        X = self._X
        if rows is not None:
            X = X[to_tensor(rows, X.device)]
        hidden = X
        n_layers = len(model.names) // 2
        for layer in range(n_layers):
            if layer:
                hidden = torch.relu(hidden)
            hidden = hidden @ named[f"weights.{layer}"] + named[f"biases.{layer}"]
        if "skip" in named:
            hidden = hidden + X @ named["skip"]
        return to_numpy(hidden), (hidden, arrays)

    @outside_torch_modes
    def backward(self, gradient, inputs):
        """Return the gradients of all arrays from that of the logits (b, k)."""
        logits, arrays = inputs
        gradient = to_tensor(gradient, logits.device, logits.dtype)
        return [to_numpy(g) for g in torch.autograd.grad(logits, arrays, gradient)]
