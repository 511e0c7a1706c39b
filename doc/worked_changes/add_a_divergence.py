"""A new divergence for GEMINI: the triangular discrimination.

.. math:: D(p, q) = \\sum_i \\frac{(p_i - q_i)^2}{p_i + q_i}

Below is all that it takes. ``tests/test_worked_changes.py`` imports this file, puts the
rows into the registries and compares values and gradients with the definition.
"""

import numpy as np

from skdiffclust.gemini._objectives import Divergence, Objective

# In skdiffclust/gemini/_objectives.py, after CHI_SQUARE:
TRIANGULAR = Divergence(
    generator=lambda r: np.square(r - 1) / (r + 1),
    derivative=lambda r: (r - 1) * (r + 3) / np.square(r + 1),
    symmetric=lambda a, b: 2 * np.square(a - b) / (a + b),
    derivative_of_first=lambda a, b: 2 * (a - b) * (a + 3 * b) / np.square(a + b),
)

# The row of OBJECTIVES. The name is then a value of `objective` of GEMINI,
# SparseGEMINI, SparseGEMINICV and gemini_score.
ROW = {"triangular": Objective(None, TRIANGULAR.one_vs_all, TRIANGULAR.one_vs_one)}

# In skdiffclust/gemini/_torch.py, the row of GENERATORS, for nn.GEMINILoss:
GENERATOR = {"triangular": lambda r: (r - 1) ** 2 / (r + 1)}


# In tests/gemini/test_objectives.py, the oracle:
def triangular(p, q):
    """Return the triangular discrimination of two densities (n,)."""
    return np.sum(np.square(p - q) / (p + q))
