"""Matrix products whose rows do not depend on each other."""

import numpy as np


def product_by_sample(X, Y):
    """Return X @ Y, (n, p), for samples X (n, d) and Y (d, p), one product per sample.

    A BLAS may round a row differently depending on its position in a block (Haswell and
    Zen kernels do so in float32 from 50 features on), so that equal samples get
    different results and chunks disagree, for any size of blocks. Here each sample is a
    separate product, always of the same shape, which costs one to three times the
    product of a block. Both are C-contiguous first: for other strides NumPy may leave
    the BLAS. Products of a sparse X are computed one sample at a time anyway.
    """
    if not isinstance(X, np.ndarray):
        return X @ Y
    X = np.ascontiguousarray(X)
    Y = np.ascontiguousarray(Y)
    return np.matmul(X[:, np.newaxis, :], Y)[:, 0]
