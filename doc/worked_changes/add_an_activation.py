"""A new activation of encoders: the sigmoid linear unit (SiLU, or swish).

.. math:: f(z) = z \\sigma(z), \\quad f'(z) = \\sigma(z) (1 + z (1 - \\sigma(z)))

Below stands all that it takes. ``tests/test_worked_changes.py`` imports this file, puts
the row into the registry and compares values, gradients and the module in torch.
"""

from scipy.special import expit

from skdiffclust._encoder import Activation


# In skdiffclust/_encoder.py, before ACTIVATIONS:
def silu(hidden, with_derivative):
    """Return z times its sigmoid."""
    sigmoid = expit(hidden)
    derivative = None
    if with_derivative:
        derivative = sigmoid * (1 + hidden * (1 - sigmoid))
    hidden *= sigmoid
    return hidden, derivative


# The row of ACTIVATIONS, with the name of the module in torch.nn. The name then is a
# value of the parameter `activation` of PRCut, in NumPy and on a device.
ROW = {"silu": Activation(silu, "SiLU")}
