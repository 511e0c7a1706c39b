"""Exact optimal transport with its dual potentials: POT's solver, else HiGHS."""

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog


def transport(source, target, relation, key):
    """Return the cost of moving source (n,) onto target (n,), and its potentials.

    The potentials u, v (n,) maximise <u, source> + <v, target> under u_i + v_j <= d_ij.
    If the masses are equal up to rounding, the cost is 0 and many potentials are
    optimal: zeros are returned, and not the response of the solver to rounding.
    `relation` holds the distances, and under `key` the potentials of the last call,
    which POT starts from, because they hardly change from one iteration to the next.
    """
    target = target * (source.sum() / target.sum())
    # A density is a quotient by a sum of as many terms as there are samples.
    rounding = len(source) * np.finfo(np.float64).eps
    if np.allclose(source, target, rtol=rounding, atol=0.0):
        return 0.0, (np.zeros_like(source), np.zeros_like(target))
    # Solvers have absolute tolerances, so the largest distance is made about a million.
    exponent = np.frexp(relation.matrix.max())[1] - 20
    distances = np.ldexp(relation.matrix, -exponent)
    source = np.ascontiguousarray(source)
    try:
        from ot.lp import emd
    except ImportError:
        u, v = _solve_by_linprog(source, target, distances)
    else:
        _, log = emd(
            source,
            target,
            distances,
            numItermax=1_000_000,
            log=True,
            check_marginals=False,
            potentials_init=relation.potentials.get(key),
        )
        u, v = relation.potentials[key] = log["u"], log["v"]
    u, v = np.ldexp(u, exponent), np.ldexp(v, exponent)
    return float(u @ source + v @ target), (u, v)


def _solve_by_linprog(source, target, distances):
    """Return potentials u, v (n,) from scipy's HiGHS, exact; O(n²) variables."""
    n, m = distances.shape
    marginals = sp.vstack(
        [
            sp.kron(sp.eye_array(n), np.ones((1, m))),
            sp.kron(np.ones((1, n)), sp.eye_array(m)),
        ],
        format="csc",
    )
    solution = linprog(
        distances.ravel(),
        # One row is the sum of the others; it is dropped so that rounding cannot make
        # the system infeasible.
        A_eq=marginals[:-1],
        b_eq=np.concatenate([source, target[:-1]]),
        bounds=(0, None),
        method="highs",
    )
    if solution.status != 0:
        raise RuntimeError(
            "scipy.optimize.linprog could not solve the optimal transport problem: "
            f"{solution.message} Install POT (pip install skdiffclust[wasserstein]), "
            "or scale X."
        )
    duals = solution.eqlin.marginals
    return duals[:n], np.append(duals[n:], 0.0)
