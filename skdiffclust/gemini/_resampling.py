"""Paths on subsets of the samples, and the choices that they lead to."""

from itertools import count
from numbers import Integral

import numpy as np

from skdiffclust._history import EpochLoop, report_by_the_whole
from skdiffclust.gemini._base import positive
from skdiffclust.gemini._path import model_of_step
from skdiffclust.gemini._sparse_rows import centered
from skdiffclust.gemini._walk import Options, Task, path_steps, uncertified

# Largest factor from one penalty of the path of a subset to the next.
_LARGEST_RATIO = 1.2
_SAME = 1 + 1e-9  # penalties of a path and of a grid, but for rounding


def numbers_of(n_clusters, default):
    """Return "auto", or the list of numbers of clusters to choose from."""
    numbers = default if n_clusters is None else n_clusters
    if isinstance(numbers, str):
        return numbers
    numbers = [numbers] if isinstance(numbers, Integral) else list(numbers)
    if not numbers or not all(map(positive.is_satisfied_by, numbers)):
        raise ValueError(
            "The 'n_clusters' parameter of SparseGEMINICV must be "
            f"{positive}, or a sequence of such. Got {n_clusters!r} instead. "
            "Give the values to choose from."
        )
    return [int(number) for number in numbers]


def check_subsets(sample_fraction, n_samples, n_clusters):
    """Refuse a number of samples that is too small for subsets."""
    if n_clusters > max(n_samples, 2):
        raise ValueError(
            "The 'n_clusters' parameter of SparseGEMINICV must be at most the "
            f"number of samples (of positive weight), n_samples={n_samples}. Got "
            f"{n_clusters} instead. Use fewer clusters."
        )
    if subset_size(sample_fraction, n_samples) >= n_samples:
        raise ValueError(
            "The 'sample_fraction' parameter of SparseGEMINICV must leave at least "
            f"one of the {n_samples} samples (of positive weight) out. Got "
            f"{sample_fraction} instead. Lower it, or pass more samples."
        )
    if subset_size(sample_fraction, n_samples) < n_clusters:
        raise ValueError(
            "The 'sample_fraction' parameter of SparseGEMINICV must keep at least "
            f"n_clusters={n_clusters} of the {n_samples} samples. Got "
            f"{sample_fraction} instead. Raise it, or pass more samples."
        )


def subset_size(sample_fraction, n_samples):
    """Return the number of samples of a subset."""
    return max(round(sample_fraction * n_samples), 2)


def draw(sample_fraction, present, rng):
    """Return rows of those present (m,), a subset, and the seed of its paths."""
    size = subset_size(sample_fraction, len(present))
    chosen = np.sort(rng.choice(len(present), size=size, replace=False))
    return present[chosen], rng.randint(2**31 - 1)


def grid_of(path, n_alphas, min_features):
    """Return the penalties (n_alphas,) between the ends of a path."""
    if len(path) > 1:
        return np.geomspace(path.alphas[1], path.alphas[-1] * 1.05, n_alphas)
    n_features = len(path.supports[0])
    if path.supports[0].any() and min_features >= n_features:
        raise ValueError(
            "The 'min_features' parameter of SparseGEMINICV must be less than the "
            f"number of features, n_features={n_features}. Got "
            f"{min_features} instead. Lower it, or use GEMINI."
        )
    # Without a penalty there are no more features than that, or the samples are equal
    # and the objective is zero. The grid has small penalties, which cost at
    # most a thousandth of the objective.
    largest = 1e-3 * (path.objectives[0] or 1.0) / (path.penalties[0] or 1.0)
    return np.geomspace(0.1 * largest, largest, n_alphas)


def choose_number(numbers, counted, structure):
    """Return the number of clusters that is chosen from a list of numbers, or "auto".

    `counted` is a ClusterCount and `structure` a Structure or None.
    """
    if numbers == "auto":
        return counted.best
    returns = 1 not in counted.candidates.numbers
    if 1 in numbers and not (returns if structure is None else structure.is_clear):
        return 1
    several = [each for each in numbers if each > 1] or numbers
    return max([n for n in several if n <= counted.best], default=min(several))


def choose_penalty(path, alphas, cluster_stability, support_stability, probabilities):
    """Return the most stable of penalties (a,), its value, and the penalty of a step.

    Among those at which a path keeps all clusters and a feature; the values are 0 if
    there is none. Stabilities are (a,), selection probabilities (a, d).
    """
    counts = np.array([len(np.unique(each)) for each in path.labels])
    is_whole = (counts >= counts[0]) & (path.n_features > 0)
    steps = np.searchsorted(path.alphas, alphas, side="right") - 1
    # The model before any penalty is not judged.
    is_whole[: steps[0]] = False
    # The clusters count half as much as the features, which the penalty selects.
    roots = np.sqrt(np.maximum(cluster_stability, 0))
    stability = np.where(is_whole[steps], roots * support_stability, -np.inf)
    best = int(np.argmax(stability))
    if not is_whole[steps].any():
        return best, 0.0, 0.0
    is_frequent = probabilities[best] >= 0.5
    n_other = np.count_nonzero(path.supports != is_frequent, axis=1)
    n_other[~is_whole] = len(is_frequent) + 1
    return best, float(alphas[best]), float(path.alphas[np.argmin(n_other)])


def resample(settings, samples, rows, seed, alphas):
    """Return the results of a path under Settings on the rows (m,) of Samples.

    They are, in a dict, for penalties (a,): the labels (a, n) of all samples, the
    supports (a, d), and the objectives (a,). Also returns the loops that its
    convergence is judged by.
    """
    # The penalties of the grid, and steps between them, from which features have time
    # to be dropped. After the last step of a path that ended early nothing changes.
    ratio = alphas[1] / alphas[0]
    n_steps = np.ceil(np.log(ratio) / np.log(_LARGEST_RATIO))
    options = Options(
        alpha_init=alphas[0],
        alpha_multiplier=ratio ** (1 / n_steps),
        min_features=1,
        max_alpha=alphas[-1] * _SAME,
    )
    steps, loops, walk = report_by_the_whole(
        steps_of, settings, samples.take(rows), seed, options
    )
    task = walk.task
    units = task.problem.units
    steps = [units.step(step, settings.kind) for step in steps]
    penalties = [step.alpha for step in steps]
    numbers = np.searchsorted(penalties, alphas * _SAME, side="right") - 1
    centred = centered(samples.X, task.samples.means)
    labels = [
        model_of_step(steps[i], settings.kind).outputs(centred).argmax(axis=1)
        for i in numbers
    ]
    return {
        "labels": np.array(labels),
        "supports": np.array([steps[i].support for i in numbers]),
        "objectives": np.array([steps[i].objective for i in numbers]),
    }, loops


def steps_of(settings, samples, seed, options, loops=None):
    """Return the Steps of a path, the loops that it is judged by, and its Walk.

    No warning of too few clusters is issued here: stability judges them, or the fit
    reports them in the end. By default, the path takes as many loops as it needs,
    without callbacks.
    """
    task = Task.of(settings, samples)
    if loops is None:
        loops = (EpochLoop(settings.name, **settings.training) for _ in count())
    walked = list(path_steps(task, loops, seed, options))
    walk, _ = walked[-1]
    kkts = np.array([step.kkt for _, step in walked])
    return [step for _, step in walked], uncertified(walk.taken, kkts), walk
