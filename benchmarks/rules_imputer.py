"""Parts of bench_rules.py on the imputer: what each number of far values is worth.

    python benchmarks/bench_rules.py imputer far

far  root mean square error of entries that were hidden, relative to that of the rule as
     it is, with a number halved, doubled or removed: of tables as they are, of tables
     with one in two hundred cells that is wrong (times a thousand, or the code 9999),
     and of tables whose features have heavy tails (cubes). Every other table by name
     reports; none of them chose the numbers.
"""

import numpy as np
from shared import interval, load, some, those_here

from skdiffclust import AssociativeImputer
from skdiffclust.memories import _completion

TABLES = (
    "breast_cancer ctg digits ecoli heart_statlog iris letter micepe movlib segment "
    "wine zoo"
).split()
N_ROWS = 500


def as_it_is(X, rng):
    """Return the table."""
    return X


def with_wrong_cells(X, rng):
    """Return the table with one in two hundred cells that is wrong."""
    X = X.copy()
    wrong = rng.uniform(size=X.shape) < 0.005
    X[wrong] = np.where(rng.uniform(size=wrong.sum()) < 0.5, 1000 * X[wrong], 9999)
    return X


def with_heavy_tails(X, rng):
    """Return the cubes of standardised features."""
    spread = X.std(axis=0)
    return ((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)) ** 3


CONDITIONS = {
    "tables": as_it_is,
    "wrong cells": with_wrong_cells,
    "heavy tails": with_heavy_tails,
}
# Changes of the rule, one at a time.
CHANGES = {
    "as it is": {},
    "far values are kept": "observed",
    "8 values of a feature halved": {"_FEW": 4},
    "8 values of a feature doubled": {"_FEW": 16},
    "share left out .002 halved": {"_LEFT_OUT": 0.001},
    "share left out .002 doubled": {"_LEFT_OUT": 0.004},
    "share of extremes .02 halved": {"_EXTREME": 0.01},
    "share of extremes .02 doubled": {"_EXTREME": 0.04},
    "20 ranges halved": {"_APART": 10.0},
    "20 ranges doubled": {"_APART": 40.0},
    "longest tail 100 halved": {"_LONGEST_TAIL": 50.0},
    "longest tail 100 doubled": {"_LONGEST_TAIL": 200.0},
    "beyond .5 and 1 halved": {"_BEYOND": (0.25, 0.5)},
    "beyond .5 and 1 doubled": {"_BEYOND": (1.0, 2.0)},
    "ties of .1 halved": {"_LARGEST_TIE": 0.05},
    "ties of .1 doubled": {"_LARGEST_TIE": 0.2},
    "chance .02 halved": {"_CHANCE": 0.01},
    "chance .02 doubled": {"_CHANCE": 0.04},
    "explained .5 halved": {"_EXPLAINED": 0.25},
    "explained .5 doubled": {"_EXPLAINED": 1.0},
    "largest error 5 halved": {"_LARGEST_ERROR": 2.5},
    "largest error 5 doubled": {"_LARGEST_ERROR": 10.0},
    "ridges halved": {"RIDGES": (0.01, 0.001)},
    "ridges doubled": {"RIDGES": (0.04, 0.004)},
    "concentrations halved": {"CONCENTRATIONS": (2.5, 5.0, 10.0, 20.0, 40.0)},
    "concentrations doubled": {"CONCENTRATIONS": (10.0, 20.0, 40.0, 80.0, 160.0)},
}


def error(X, given, hidden, change):
    """Return the error of hidden entries of X, in standard deviations of each feature.

    Of a table as it is `given`; that of an entry is at most ten.
    """
    is_named = isinstance(change, str)
    values = {} if is_named else change
    before = {name: getattr(_completion, name) for name in values}
    vars(_completion).update(values)
    model = AssociativeImputer(
        random_state=0, far_values=change if is_named else "missing"
    )
    filled = model.fit_transform(np.where(hidden, np.nan, given))
    vars(_completion).update(before)
    spread = X.std(axis=0)
    gaps = (filled - X) / np.where(spread > 0, spread, 1.0)
    return float(np.sqrt(np.mean(np.minimum(np.abs(gaps[hidden]), 10.0) ** 2)))


def far(options):
    """Print the table."""
    names = sorted(those_here(*TABLES))[options.half == "report" :: 2]
    print("change", *CONDITIONS, sep=", ")
    first = {}
    for change, values in CHANGES.items():
        cells = []
        for condition, apply in CONDITIONS.items():
            errors = []
            for name in names:
                X, _ = some(*load(name), N_ROWS)
                rng = np.random.RandomState(0)
                X = X[:, X.std(axis=0) > 0]
                X = as_it_is(X, rng) if condition != "heavy tails" else apply(X, rng)
                given = apply(X, rng) if condition == "wrong cells" else X
                hidden = rng.uniform(size=X.shape) < 0.2
                hidden[hidden.all(axis=1), 0] = False
                errors.append(error(X, given, hidden, values))
            errors = np.log(errors)
            first.setdefault(condition, errors)
            cells.append(f'"{interval(np.exp(errors - first[condition]))}"')
        print(f'   "{change}"', *cells, sep=", ", flush=True)


PARTS = {"far": far}
