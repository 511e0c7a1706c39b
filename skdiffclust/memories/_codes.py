"""Encoding samples and decoding codes, by perceptrons as arrays or by modules."""

import numpy as np

from skdiffclust._encoder import Encoder
from skdiffclust._pairwise import refuse_overflow
from skdiffclust.memories._dynamics import Dynamics

# Samples that a module encodes together in training, or that are scaled at once.
BLOCK = 256


def dynamics_of_codes(n_steps, step_size, inverse_temperature):
    """Return the `Dynamics` of codes for parameters of a `DeepClAM`.

    All steps together go half of the way to a memory; at its end, all codes of a
    cluster would be equal.
    """
    step_size = step_size / (2.0 * n_steps)
    return Dynamics(inverse_temperature, n_steps, step_size, "euclidean")


def codes_of(encoder, Z, *, in_blocks=False):
    """Return the codes (n, p) of samples Z (n, d) in training units.

    `encoder` is a pair of lists of weights and biases, or a module. On the CPU the code
    of a sample does not depend on the other samples, unless `in_blocks` allows it.
    """
    codes = outputs_of(encoder, Z, "encoder", in_blocks=in_blocks)
    if codes.ndim != 2:
        raise ValueError(
            "The 'encoder' parameter of DeepClAM must map samples (n, n_features) to "
            f"codes (n, n_outputs). Got {codes.shape} for samples {Z.shape} instead. "
            "Flatten its output."
        )
    if not np.isfinite(codes).all():
        raise ValueError(
            "The 'encoder' parameter of DeepClAM must return finite codes. Got NaN "
            "or infinity instead. Rescale X, or check the module."
        )
    refuse_overflow([codes], codes.dtype)
    return codes


def outputs_of(network, X, parameter, *, in_blocks=False):
    """Return the outputs (n, ...) of a network, the `parameter` of `DeepClAM`."""
    if isinstance(network, tuple):
        return Encoder(*network).outputs(X)
    from skdiffclust._torch import module_outputs

    def check(output, n_samples):
        if len(output) != n_samples:
            raise ValueError(
                f"The '{parameter}' parameter of DeepClAM must map each sample to one "
                f"output. Got shape {tuple(output.shape)} for {n_samples} samples "
                "instead. Keep the first dimension."
            )

    first = next(network.parameters(), None)
    on_cpu = first is None or first.device.type == "cpu"
    size = 1 if on_cpu and not in_blocks else BLOCK
    return module_outputs(network, X, check, block_samples=size)
