"""Do full batches and second-order steps lower the ratio-cut of a linear encoder?

    python benchmarks/lbfgs_prcut.py letter

L-BFGS on the exact expected ratio-cut of all rows, from the logistic regression of the
spectral labels after a local search; and ``PRCut(encoder="linear")``, which takes steps
of batches from the same labels. Prints cuts of labels and processor time. The sets come
from the loader, data_sets.py.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time

import numpy as np
from bench_prcut import Problem
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from skdiffclust import PRCut
from skdiffclust.cuts import expected_ratio_cut, ratio_cut

PARAMETERS = {
    "cut": "ratio",
    "init": "spectral",
    "weight_decay": 0.0,
    "random_state": 1,
}
ITERATIONS = 25, 50, 100, 200


def fit(problem, labels):
    """Print the cut after each of ITERATIONS of L-BFGS."""
    X = StandardScaler().fit_transform(problem.X.astype(np.float64))
    start = LogisticRegression(C=1e4, max_iter=1000).fit(X, labels)
    X = np.column_stack([X, np.ones(len(X))])
    weights = np.vstack([start.coef_.T, start.intercept_]).ravel()

    def assign(weights):
        logits = X @ weights.reshape(-1, problem.k)
        logits -= logits.max(axis=1, keepdims=True)
        assignments = np.exp(logits)
        return assignments / assignments.sum(axis=1, keepdims=True)

    def cut(weights):
        P = assign(weights)
        value, gradient = expected_ratio_cut(problem.graph, P, return_gradient=True)
        gradient = P * (gradient - (P * gradient).sum(axis=1, keepdims=True))
        return value, (X.T @ gradient).ravel()

    print("start", cut_of(problem, assign(weights)))
    begun, done = time.process_time(), 0
    for n_iterations in ITERATIONS:
        options = {"maxiter": n_iterations - done}
        found = minimize(cut, weights, jac=True, method="L-BFGS-B", options=options)
        weights, done = found.x, n_iterations
        seconds = time.process_time() - begun
        print(done, cut_of(problem, assign(weights)), f"{seconds:.0f} s", flush=True)


def cut_of(problem, assignments):
    """Return the ratio-cut of the likeliest labels, and the clusters used."""
    found = ratio_cut(problem.graph, assignments.argmax(axis=1))
    return f"{found.value:.2f} {found.n_clusters}"


def main(name):
    """Print both for a data set."""
    problem = Problem(name)
    parameters = problem.parameters | PARAMETERS
    begun = time.process_time()
    model = PRCut(encoder="linear", **parameters)
    model.fit(problem.X, graph=problem.graph)
    print(f"PRCut {model.ratio_cut_:.2f}, {time.process_time() - begun:.0f} s in all")
    free = PRCut(encoder=None, **parameters)
    fit(problem, free.fit(problem.X, graph=problem.graph).labels_)


if __name__ == "__main__":
    main(*sys.argv[1:])
