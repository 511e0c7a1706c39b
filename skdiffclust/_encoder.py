"""Linear models and multilayer perceptrons in NumPy, from lists of arrays.

An encoder is two lists, one entry a layer: ``weights[l]`` of shape (n_in, n_out), the
transpose of what a torch ``Linear`` holds, and ``biases[l]`` of shape (n_out,). One
layer is a linear model; between layers there is an activation, of `ACTIVATIONS` and a
ReLU by default; after the last layer there is nothing. float32 stays float32.

- `init_layers` draws the arrays,
- `forward` is for ``predict``: a sample's output does not depend on those beside it,
- `forward_with_inputs` and `backward` are for training with explicit gradients,
- `dropout_masks` draws the masks that both of these take,
- `activate` is the activation alone.

>>> import numpy as np
>>> from skdiffclust._encoder import (
...     backward, forward, forward_with_inputs, init_layers)
>>> rng = np.random.RandomState(0)
>>> X = rng.normal(size=(6, 4))
>>> weights, biases = init_layers([4, 8, 3], rng, np.float64)
>>> output, inputs = forward_with_inputs(X, weights, biases)
>>> np.allclose(output, forward(X, weights, biases))
True
>>> gradient = output - 1.0                       # of sum((output - 1) ** 2) / 2
>>> weight_gradients, bias_gradients = backward(gradient, inputs, weights)
>>> [g.shape for g in weight_gradients], [g.shape for g in bias_gradients]
([(4, 8), (8, 3)], [(8,), (3,)])
"""

import numpy as np
from scipy.special import ndtr

from skdiffclust._products import product_by_sample

ACTIVATIONS = "gelu", "relu", "tanh"
# Samples of a block in `forward`: bounds the memory of the hidden layers.
_BLOCK_SAMPLES = 4096


def init_layers(layer_sizes, random_state, dtype):
    """Return weights and biases, uniform within 1 / sqrt(n_in), of layers (m + 1,).

    `layer_sizes` is [n_features, *hidden, n_outputs]; the scale is that of torch.
    """
    weights = []
    biases = []
    for n_in, n_out in zip(layer_sizes[:-1], layer_sizes[1:], strict=True):
        bound = 1.0 / np.sqrt(n_in)
        weights.append(random_state.uniform(-bound, bound, (n_in, n_out)).astype(dtype))
        biases.append(random_state.uniform(-bound, bound, n_out).astype(dtype))
    return weights, biases


def activate(hidden, activation):
    """Return the activation of hidden units (n, h), which may be overwritten.

    "gelu" is the exact z Φ(z), Φ being the normal distribution, as torch's default.
    """
    if activation == "gelu":
        hidden *= ndtr(hidden)
        return hidden
    if activation == "tanh":
        return np.tanh(hidden, out=hidden)
    return np.maximum(hidden, 0, out=hidden)


def _activate_with_derivative(hidden, activation):
    """Return the activation (n, h) and its derivative (n, h); hidden is overwritten."""
    if activation == "gelu":
        below = ndtr(hidden)
        derivative = np.exp(-0.5 * hidden * hidden)
        derivative *= hidden * hidden.dtype.type(1.0 / np.sqrt(2.0 * np.pi))
        derivative += below
        hidden *= below
        return hidden, derivative
    hidden = activate(hidden, activation)
    return hidden, 1 - hidden * hidden if activation == "tanh" else hidden > 0


def forward(X, weights, biases, activation="relu"):
    """Return the output (n, n_out) for samples X (n, n_in), one product a sample.

    So the output for a sample has the same bits whatever is beside it, which a product
    of a block does not give: see `product_by_sample`.
    """
    n_samples = X.shape[0]
    output = np.empty((n_samples, weights[-1].shape[1]), dtype=weights[-1].dtype)
    for start in range(0, n_samples, _BLOCK_SAMPLES):
        stop = start + _BLOCK_SAMPLES
        block = np.asarray(X[start:stop], dtype=weights[0].dtype)
        hidden = product_by_sample(block, weights[0])
        hidden += biases[0]
        for weight, bias in zip(weights[1:], biases[1:], strict=True):
            hidden = product_by_sample(activate(hidden, activation), weight)
            hidden += bias
        output[start:stop] = hidden
    return output


def _affine(X, weight, bias):
    """Return X @ weight + bias, (n, n_out)."""
    output = X @ weight
    output += bias
    return output


def forward_with_inputs(X, weights, biases, masks=None, activation="relu"):
    """Return the output (n, n_out), and for each layer what `backward` needs of it.

    That is a pair: what entered the layer, and the derivative of the activation there,
    None for the first layer. `masks` holds a factor (n, n_hidden) for each hidden
    layer, as `dropout_masks` draws them; None is no dropout.
    """
    inputs = [(X, None)]
    output = _affine(X, weights[0], biases[0])
    for layer in range(1, len(weights)):
        hidden, derivative = _activate_with_derivative(output, activation)
        if masks is not None:
            hidden *= masks[layer - 1]
        inputs.append((hidden, derivative))
        output = _affine(hidden, weights[layer], biases[layer])
    return output, inputs


def backward(gradient, inputs, weights, masks=None):
    """Return the gradients by weights and by biases, as lists of arrays.

    `gradient` (n, n_out) is by the output, `inputs` is what `forward_with_inputs`
    returned, `masks` what it was given. O(the cost of two forward passes).
    """
    weight_gradients = []
    bias_gradients = []
    for layer in reversed(range(len(weights))):
        entered, derivative = inputs[layer]
        weight_gradients.append(entered.T @ gradient)
        bias_gradients.append(gradient.sum(axis=0))
        if layer:
            gradient = gradient @ weights[layer].T
            gradient *= derivative
            if masks is not None:
                gradient *= masks[layer - 1]
    return weight_gradients[::-1], bias_gradients[::-1]


def dropout_masks(n_rows, weights, dropout, random_state):
    """Return a mask (n_rows, n_hidden) for each hidden layer, None without dropout.

    Entries are 0 with probability `dropout` and 1 / (1 - dropout) else, so that the
    mean of a hidden unit is the same with and without.
    """
    if not dropout or len(weights) == 1:
        return None
    masks = []
    for weight in weights[:-1]:
        kept = random_state.uniform(size=(n_rows, weight.shape[1])) >= dropout
        masks.append(kept.astype(weight.dtype) / weight.dtype.type(1 - dropout))
    return masks
