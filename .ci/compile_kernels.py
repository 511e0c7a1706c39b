"""Compile the kernels that most tests use, while those of PRCut run beside it."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import skdiffclust
from skdiffclust import GEMINI, ClAM, SpanningForestEmbedding, SparseGEMINI

warnings.simplefilter("ignore", ConvergenceWarning)
X = np.random.default_rng(0).normal(size=(60, 5))
for metric in ("euclidean", "cosine", "manhattan"):
    ClAM(3, metric=metric, max_iter=2, random_state=0).fit(X)
SpanningForestEmbedding(2, max_iter=2, random_state=0).fit(X, np.arange(60) % 3)
for mode in ("ova", "ovo"):
    for dtype in (np.float64, np.float32):
        GEMINI(3, mode=mode, max_iter=2, random_state=0).fit(X.astype(dtype))
        SparseGEMINI(3, mode=mode, max_iter=2, random_state=0).fit(X.astype(dtype))
skdiffclust.warmup()
