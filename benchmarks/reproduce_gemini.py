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
import torch
from shared import Results, load, noise_background, seconds
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale
from torch import nn

from skdiffclust import SparseGEMINI, SparseGEMINICV
from skdiffclust.datasets import make_celeux_one, make_celeux_two
from skdiffclust.metrics import clustering_accuracy, variable_selection_error_rate
from skdiffclust.nn import GEMINILoss

RESULTS = Results(Path("reproduce_gemini.jsonl"))
COMMON = {"max_iter": 100, "tol": 0.01, "n_init": 1}
SCENARIOS, MODES, MODELS = (1, 2, 3, 4, 5, "D2"), ("ovo", "ova"), ("linear", "mlp")


def problem(scenario, seed):
    """Return rows, classes, and which features are informative."""
    if scenario == "D2":
        return make_celeux_two(random_state=seed)
    return make_celeux_one(scenario, random_state=seed)


# ------------------------------------------------------------- the loop of the authors


class Perceptron(nn.Module):
    """The model of Section 3.1: a perceptron and a linear skip connection.

    With a `hierarchy` M of 0 the threshold erases the perceptron, and what is left is
    the logistic model.
    """

    def __init__(self, n_features, n_hidden, n_clusters, hierarchy):
        super().__init__()
        self.skip = nn.Linear(n_features, n_clusters, bias=False)
        self.first = nn.Linear(n_features, n_hidden)
        self.last = nn.Linear(n_hidden, n_clusters)
        self.hierarchy = hierarchy

    def forward(self, X):
        """Return the logits (n, k)."""
        return self.skip(X) + self.last(torch.relu(self.first(X)))

    @torch.no_grad()
    def lengths(self):
        """Return the norm (d,) of the skip weights of each feature: the penalty."""
        return self.skip.weight.norm(dim=0)

    @torch.no_grad()
    def shrink(self, threshold):
        """Apply the hierarchical proximal operator of LassoNet to each feature."""
        skip, first, M = self.skip.weight, self.first.weight, self.hierarchy
        length = skip.norm(dim=0)
        sizes = first.abs().sort(dim=0, descending=True).values
        none = torch.zeros(1, len(length))
        sums = torch.cat([none, sizes.cumsum(dim=0)])
        m = torch.arange(len(sums)).unsqueeze(1)
        # The new length if the m largest hidden weights are at the bound M * length.
        lengths = torch.relu(length + M * sums - threshold) / (1 + m * M**2)
        m = (torch.cat([sizes, none]) > M * lengths).sum(dim=0, keepdim=True)
        new = lengths.gather(0, m)[0]
        skip.mul_(torch.where(length > 0, new / length, 0.0))
        first.copy_(torch.clamp(first, -M * new, M * new))


def trained(model, X, loss_of, optimizer, alpha, batch_size, n_epochs=200):
    """Train a step of the path; return its GEMINI.

    It ends when for ten epochs neither the GEMINI rises nor the penalty falls by 1 %.
    When either does, both become what the next epochs are compared with.
    """

    def scored():
        with torch.no_grad():
            losses = [len(x) * loss_of(model(x), x) for x in X.split(batch_size)]
        return -float(sum(losses)) / len(X), alpha * float(model.lengths().sum())

    best_value, best_penalty = value, _ = scored()
    n_stalled = 0
    for _ in range(n_epochs):
        for batch in torch.randperm(len(X)).split(batch_size):
            optimizer.zero_grad()
            loss_of(model(X[batch]), X[batch]).backward()
            optimizer.step()
            model.shrink(alpha * optimizer.param_groups[0]["lr"])
        value, penalty = scored()
        if value > 1.01 * best_value or penalty < 0.99 * best_penalty:
            best_value, best_penalty, n_stalled = value, penalty, 0
        else:
            n_stalled += 1
        if n_stalled == 10:
            break
    return value


def published_path(X, model, loss_of, *, batch_size, min_features, multiplier):
    """Return the chosen number of features, the support (d,) and the labels (n,).

    Adam without a penalty, then one SGD with momentum for the whole path, from a
    penalty of 1 on. For each number of features the step of largest GEMINI counts;
    chosen is the least number with 90 % of the GEMINI of the largest one on the path.
    """
    X = torch.from_numpy(X).float()
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    dense = trained(model, X, loss_of, adam, 0.0, batch_size)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    best, alpha, n_features = {}, 1.0, X.shape[1]
    while n_features > min_features:
        value = trained(model, X, loss_of, sgd, alpha, batch_size)
        support = (model.lengths() > 0).numpy()
        n_features = int(support.sum())
        if n_features not in best or value > best[n_features][0]:
            with torch.no_grad():
                best[n_features] = value, support, model(X).argmax(dim=1).numpy()
        alpha *= multiplier
    most = max(best)
    top = max(best[most][0], dense) if most == X.shape[1] else best[most][0]
    chosen = min(n for n, step in best.items() if step[0] >= 0.9 * top or n == most)
    return best[chosen][1:]


def rates(support, labels, y, informative):
    """Return the scores of features and labels that are selected."""
    return {
        "ARI": adjusted_rand_score(y, labels),
        "VSER": variable_selection_error_rate(informative, support),
    }


def run_published(objective, scenario, mode, model, seed):
    """Return a run of Table 2 or 8 with the settings of the authors' repository."""
    torch.manual_seed(seed)
    X, y, informative = problem(scenario, seed)
    n_hidden = {5: 15, "D2": 5}.get(scenario, 10)
    batch_size = {1: 30, 2: 30, "D2": 200}.get(scenario, 100)
    hierarchy = 10 if model == "mlp" else 0
    support, labels = published_path(
        X,
        Perceptron(X.shape[1], n_hidden, int(y.max()) + 1, hierarchy),
        GEMINILoss(objective, mode=mode),
        batch_size=batch_size,
        min_features=int(informative.sum()),
        multiplier=1.05,
    )
    return rates(support, labels, y, informative)


def run_published_real(name, model, seed):
    """Return a run of Table 4 with the settings of the authors' repository.

    Heart: 20 hidden units, batches of 90; Congress: 10 and 145. Congress has values of
    1, -1 and 0; its kernel is that of the three answers to each vote, one-hot.
    """
    torch.manual_seed(seed)
    X, y = load(name)
    heart = name == "heart_statlog"
    X = scale(X) if heart else X
    loss_of = GEMINILoss("mmd", mode="ova")
    if not heart:
        loss_of = one_hot(loss_of)
    support, labels = published_path(
        X,
        Perceptron(X.shape[1], 20 if heart else 10, 2, 10 if model == "mlp" else 0),
        loss_of,
        batch_size=90 if heart else 145,
        min_features=2,
        multiplier=1.1,
    )
    return {
        "ARI": adjusted_rand_score(y, labels),
        "variables": int(support.sum()),
        "support": np.flatnonzero(support).tolist(),
    }


def one_hot(loss_of):
    """Return the loss with the kernel of answers 1, -1 and 0, one-hot."""
    answers = torch.tensor([-1.0, 0.0, 1.0])
    return lambda logits, x: loss_of(logits, (x.unsqueeze(2) == answers).float())


# ------------------------------------------------------------------------ our estimator


def fewest(path, first=0):
    """Return the step of the 90 % rule among those of a path from `first` on."""
    values, n_features = path.objectives[first:], path.n_features[first:]
    allowed = np.flatnonzero(values >= 0.9 * values.max())
    return first + allowed[np.argmin(n_features[allowed])]


def run_defaults(objective, scenario, mode, model, seed):
    """Return a run of Table 2 or 8 with the defaults."""
    X, y, informative = problem(scenario, seed)
    sparse = SparseGEMINI(
        y.max() + 1, objective=objective, mode=mode, model=model, random_state=seed
    )
    sparse.path(X)
    return rates(sparse.get_support(), sparse.labels_, y, informative)


def run_stability(scenario, seed):
    """Return a run of Table 2 with the features that SparseGEMINICV selects."""
    X, y, informative = problem(scenario, seed)
    model = SparseGEMINICV(n_clusters=y.max() + 1, random_state=seed).fit(X)
    return rates(model.get_support(), model.labels_, y, informative)


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
        "variables, from its penalty": int(path.n_features[fewest(path, late)]),
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
            *cases(20, ("mmd",), SCENARIOS, MODES, MODELS),
            *cases(5, ("wasserstein",), SCENARIOS[:5], MODES, MODELS),
        ],
    ),
    "published_s3": (run_published, cases(20, ("mmd",), (3,), ("ovo",), ("linear",))),
    "published_heart": (run_published_real, cases(20, ("heart_statlog",), ("linear",))),
    "published_real": (
        run_published_real,
        cases(20, ("heart_statlog", "house_votes_84"), MODELS),
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
