"""The Sparse GEMINI paper beyond the MMD rows: what takes long, resumable.

    python benchmarks/reproduce_gemini.py PART ...

The parts are the keys of ``PARTS`` below. Each cell of one, for example a scenario, a
mode and a model with a seed, is appended to ``reproduce_gemini.jsonl`` in the current
folder, and what is there is not run again. Means and deviations over the seeds follow.
The MMD rows of Table 4 are in ``tests/papers/test_gemini.py``.
"""

import itertools
import sys
import warnings
from pathlib import Path

import numpy as np
from shared import Results, load, noise_background, seconds
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale

from skdiffclust import SparseGEMINI, SparseGEMINICV
from skdiffclust._history import Training
from skdiffclust.datasets import make_celeux_one, make_celeux_two
from skdiffclust.gemini._models import MODELS as MODEL_KINDS
from skdiffclust.gemini._path import choose_step
from skdiffclust.gemini._problem import Samples
from skdiffclust.gemini._starts import Starts
from skdiffclust.gemini._walk import Options, Task, make_path, path_steps
from skdiffclust.metrics import clustering_accuracy, variable_selection_error_rate

RESULTS = Results(Path("reproduce_gemini.jsonl"))
COMMON = {"max_iter": 100, "tol": 0.01, "n_init": 1}
SCENARIOS, MODES, MODELS = (1, 2, 3, 4, 5, "D2"), ("ovo", "ova"), ("linear", "mlp")


def problem(scenario, seed):
    """Return rows, classes, and which features are informative."""
    if scenario == "D2":
        return make_celeux_two(random_state=seed)
    return make_celeux_one(scenario, random_state=seed)


def path_from_random_weights(sparse, X, **options):
    """Return the path whose first stage starts from random weights, not from k-means.

    No parameter asks for that, but the path takes its starts as a value.
    """
    settings = sparse._settings()
    task = Task.of(settings, Samples.of(X, None))
    rng = np.random.RandomState(sparse.random_state)
    sizes = settings.layer_sizes(X.shape[1])
    model = MODEL_KINDS[settings.kind].with_random_weights(sizes, rng, X.dtype)
    starts = Starts(task.problem, 1, False, [model])
    training = Training(sparse, X, n_init=None, **settings.training)
    walked = path_steps(task, starts, iter(training), rng, Options(**options))
    return make_path([step for _, step in walked], task, 0.9, sparse, task.shared)


def rates(path, step, y, informative):
    """Return the scores of a step of a path."""
    return {
        "ARI": adjusted_rand_score(y, path.labels[step]),
        "VSER": variable_selection_error_rate(informative, path.supports[step]),
    }


def published(scenario):
    """Return the parameters that the files of settings of the published code give.

    A falling penalty counts as progress there, so that steps continue for long; here a
    smaller tolerance does that.
    """
    small = scenario in (1, 2)
    return {
        "n_init": 1,
        "learning_rate": 1e-3,
        "max_iter": 200,
        "tol": 1e-3,
        "hidden_layer_sizes": {5: 15, "D2": 5}.get(scenario, 10),
        "batch_size": None if small else {"D2": 200}.get(scenario, 100),
    }


def chosen_from(path, first):
    """Return the step of the 90 % rule among those of a path from `first` on.

    As published: the model before any penalty is not among those that are compared.
    """
    return first + choose_step(path.objectives[first:], path.n_features[first:], 0.9)


def run_published(objective, scenario, mode, model, seed):
    """Return a run of Table 2 or 8 with the published settings."""
    X, y, informative = problem(scenario, seed)
    params = {"objective": objective, "mode": mode, "model": model}
    sparse = SparseGEMINI(
        y.max() + 1, random_state=seed, **params, **published(scenario)
    )
    options = {"alpha_init": 0.1, "min_features": int(informative.sum())}
    path = path_from_random_weights(sparse, X, **options)
    return rates(path, chosen_from(path, 1), y, informative)


def run_defaults(objective, scenario, mode, model, seed):
    """Return a run of Table 2 or 8 with the defaults."""
    X, y, informative = problem(scenario, seed)
    sparse = SparseGEMINI(
        y.max() + 1, objective=objective, mode=mode, model=model, random_state=seed
    )
    path = sparse.path(X)
    return rates(path, path.chosen, y, informative)


def run_stability(scenario, seed):
    """Return a run of Table 2 with the features that SparseGEMINICV selects."""
    X, y, informative = problem(scenario, seed)
    model = SparseGEMINICV(n_clusters=y.max() + 1, random_state=seed).fit(X)
    return {
        "ARI": adjusted_rand_score(y, model.labels_),
        "VSER": variable_selection_error_rate(informative, model.get_support()),
    }


def run_dynamic_defaults(scenario, objective, mode, seed):
    """Return a run of Table 7 with the defaults, to the number of variables asked."""
    X, y, informative = problem(scenario, seed)
    sparse = SparseGEMINI(
        y.max() + 1,
        objective=objective,
        mode=mode,
        model="mlp",
        dynamic=True,
        random_state=seed,
    )
    spent, _ = seconds(sparse.path, X, min_features=int(informative.sum()))
    return {"ARI": adjusted_rand_score(y, sparse.labels_), "seconds": spent}


def run_real(name, objective, model, seed):
    """Return a run of Table 4, where both modes are equal: there are two clusters."""
    X, y = load(name)
    X = X.astype(np.float64)
    heart = name == "heart_statlog"
    sparse = SparseGEMINI(
        2,
        objective=objective,
        model=model,
        hidden_layer_sizes=10 if heart else 20,
        batch_size=90 if heart else 87,
        learning_rate=1e-3,
        random_state=seed,
        **COMMON,
    )
    path = sparse.path(scale(X) if heart else X, alpha_multiplier=1.1)
    return {
        "ARI": adjusted_rand_score(y, sparse.labels_),
        "accuracy": clustering_accuracy(y, sparse.labels_),
        "variables": int(sparse.get_support().sum()),
        "ARI, all": adjusted_rand_score(y, path.labels[0]),
        "support": sparse.get_support(indices=True).tolist(),
    }


def transcripts(seed, n_features=25_904):
    """Return a stand-in for Prostate-BCR: rows, and their sources.

    Three sources of 52, 96 and 23 patients shift 4000 transcripts each in its own way
    (the batch effect); a recurrence shifts 50 others a little.
    """
    rng = np.random.RandomState(seed)
    source = np.repeat([0, 1, 2], [52, 96, 23])
    recurs = rng.randint(2, size=len(source))
    X = rng.normal(size=(len(source), n_features)).astype(np.float32)
    X[:, :4000] += rng.normal(size=(3, 4000)).astype(np.float32)[source]
    X[:, 4000:4050] += 0.5 * recurs[:, None]
    return X, source


def run_wide_defaults(model, n_clusters, seed):
    """Return a run of Tables 5 and 6 on the stand-in with the defaults, to 400."""
    X, source = transcripts(seed)
    sparse = SparseGEMINI(n_clusters, model=model, random_state=seed)
    sparse.path(X, min_features=400)
    return {
        "variables": int(sparse.get_support().sum()),
        "of the batch effect": int(sparse.get_support()[:4000].sum()),
        "ARI, sources": adjusted_rand_score(source, sparse.labels_),
    }


def run_mnist(background, mode, seed, n_rows=1000):
    """Return a run of Section 5.4, smaller: 100 and 100 units, steps of 30 %."""
    X, y = load("mnist_t10k")
    X, y = X[:n_rows] / 255, y[:n_rows]
    if background:
        X = noise_background(X, seed)
    sparse = SparseGEMINI(
        10,
        mode=mode,
        model="mlp",
        hidden_layer_sizes=(100, 100),
        learning_rate=1e-3,
        batch_size=250,
        random_state=seed,
        **COMMON,
    )
    path = sparse.path(
        X.astype(np.float32),
        min_features=50,
        alpha_multiplier=1.3,
        checkpoint=f"mnist_{background}_{mode}_{seed}_checkpoint",
        resume=True,
    )
    # The paper's first penalty is 40, which with this scale of pixels is:
    late = int(np.searchsorted(path.alphas, 4.0 if background else 1.0))
    return {
        "ARI": adjusted_rand_score(y, sparse.labels_),
        "variables": int(sparse.get_support().sum()),
        "variables, from its penalty": int(path.n_features[chosen_from(path, late)]),
    }


def cases(n_runs, *choices):
    """Return all combinations of choices with a seed after them, seed by seed."""
    return [(*case, s) for s in range(n_runs) for case in itertools.product(*choices)]


PARTS = {
    "defaults": (
        run_defaults,
        [
            *cases(20, ("mmd",), SCENARIOS, MODES, ("linear",)),
            *cases(5, ("mmd",), SCENARIOS[:5], MODES, ("mlp",)),
            *cases(1, ("mmd",), ("D2",), MODES, ("mlp",)),
        ],
    ),
    "defaults_wasserstein": (
        run_defaults,
        [
            *cases(3, ("wasserstein",), (1, 2), MODES, MODELS),
            *cases(1, ("wasserstein",), (3, 4, 5), MODES, ("linear",)),
        ],
    ),
    "stability": (run_stability, cases(10, SCENARIOS[:5])),
    "dynamic_defaults": (
        run_dynamic_defaults,
        [
            *cases(1, SCENARIOS, ("mmd",), MODES),
            *cases(1, SCENARIOS[:5], ("wasserstein",), MODES),
        ],
    ),
    "published": (
        run_published,
        [
            *cases(10, ("mmd",), SCENARIOS, MODES, MODELS),
            *cases(5, ("wasserstein",), SCENARIOS[:5], MODES, MODELS),
        ],
    ),
    "real": (
        run_real,
        cases(5, ("heart_statlog", "house_votes_84"), ("mmd", "wasserstein"), MODELS),
    ),
    "wide_defaults": (run_wide_defaults, cases(2, MODELS, (2, 3))),
    "mnist": (run_mnist, cases(1, (False, True), MODES)),
}


def run(part):
    """Run the cells of a part that are not in the file; print them and their means."""
    function, cells = PARTS[part]
    groups = {}
    for case in cells:
        with warnings.catch_warnings():
            # Scenarios of few rows do not always use all clusters.
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = RESULTS.once([part, case], function, *case)
        groups.setdefault(case[:-1], []).append(found)
        print(part, *case, found, flush=True)
    for case, runs in groups.items():
        print_means(case, runs)


def print_means(case, runs):
    """Print means and deviations over seeds, and how often a feature is selected."""
    print(*case, f"({len(runs)} runs)", end=": ")
    for name, value in runs[0].items():
        if not isinstance(value, list):
            values = [one[name] for one in runs]
            print(f"{name} {np.mean(values):.2f} ({np.std(values):.2f})", end="; ")
    print()
    if "support" in runs[0]:
        features, counts = np.unique(
            np.concatenate([one["support"] for one in runs]).astype(int),
            return_counts=True,
        )
        order = np.argsort(-counts, kind="stable")
        shares = [f"{features[i]}: {counts[i] / len(runs):.0%}" for i in order]
        print("    selected:", ", ".join(shares))


if __name__ == "__main__":
    for part in sys.argv[1:]:
        run(part)
