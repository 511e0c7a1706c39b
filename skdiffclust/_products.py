"""Matrix products whose rows do not depend on each other."""

import numpy as np


def product_by_sample(X, Y):
    """Return X @ Y, (n, p), for samples X (n, d) and Y (d, p), one product a sample.

    A BLAS may round a row differently when it stands elsewhere in a block (Haswell
    and Zen kernels do so in float32 from 50 features on), so that equal samples part
    and chunks disagree; no size of blocks is a cure. Here each sample is a product of
    its own, always of the same shape, which costs one to three times the product of a
    block. Both are C-contiguous first: for other strides NumPy may leave the BLAS.
    Products of a sparse X are one sample at a time as they are.
    """
    if not isinstance(X, np.ndarray):
        return X @ Y
    X = np.ascontiguousarray(X)
    Y = np.ascontiguousarray(Y)
    return np.matmul(X[:, np.newaxis, :], Y)[:, 0]
