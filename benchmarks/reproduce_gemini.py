"""The Sparse GEMINI paper beyond the MMD rows: what takes long, resumable.

    python benchmarks/reproduce_gemini.py PART ...

The parts are the keys of ``PARTS`` below. Each cell of one, for example a scenario, a
mode and a model with a seed, is appended to ``reproduce_gemini.jsonl`` in the current
folder, and what is there is not run again. Means and deviations over the seeds follow.
The MMD rows of Table 4 by our path are in ``tests/papers/test_gemini.py``.
"""

import itertools
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import torch
from shared import (
    Results,
    load,
    noise_background,
    print_seconds,
    seconds,
    torch_device,
)
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale
from torch import nn

from skdiffclust import SparseGEMINI, SparseGEMINICV
from skdiffclust.datasets import make_celeux_one, make_celeux_two
from skdiffclust.metrics import (
    clustering_accuracy,
    correct_variable_rate,
    variable_selection_error_rate,
)
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


class Perceptrons(nn.Module):
    """The models of Section 3.1 side by side: perceptrons with a skip connection.

    Weights have the runs on their first axis. Without hidden layers they are the
    logistic model.
    """

    def __init__(self, n_runs, n_features, hidden, n_clusters, hierarchy=10, dropout=0):
        super().__init__()

        def weights(n_inputs, *shape):
            drawn = 2 * torch.rand(n_runs, *shape) - 1
            return nn.Parameter(drawn / n_inputs**0.5)

        sizes = n_features, *hidden, n_clusters
        self.skip = weights(n_features, n_features, n_clusters)
        self.layers = nn.ParameterList(
            weights(m, m, n) for m, n in itertools.pairwise(sizes) if hidden
        )
        self.biases = nn.ParameterList(
            weights(m, 1, n) for m, n in itertools.pairwise(sizes[-2 - len(hidden) :])
        )
        self.hierarchy = hierarchy
        self.dropout = nn.Dropout(dropout)

    def forward(self, X):
        """Return the logits (r, n, k) of samples (r, n, d)."""
        skipped = X @ self.skip + self.biases[-1]
        if not self.layers:
            return skipped
        for weights, bias in zip(self.layers[:-1], self.biases[:-1], strict=True):
            X = self.dropout(torch.relu(X @ weights + bias))
        return skipped + X @ self.layers[-1]

    @torch.no_grad()
    def lengths(self):
        """Return the norms (r, d) of the skip weights of each feature."""
        return self.skip.norm(dim=2)

    @torch.no_grad()
    def shrink(self, threshold):
        """Apply the hierarchical proximal operator of LassoNet to each feature."""
        skip, length, M = self.skip, self.lengths(), self.hierarchy
        if not self.layers:
            new = torch.relu(length - threshold)
        else:
            first = self.layers[0]
            sizes = first.abs().sort(dim=2, descending=True).values
            none = torch.zeros_like(sizes[:, :, :1])
            sums = torch.cat([none, sizes.cumsum(dim=2)], dim=2)
            m = torch.arange(sums.shape[2])
            # The new length, if the m largest hidden weights are at its bound.
            lengths = torch.relu((length - threshold).unsqueeze(2) + M * sums)
            lengths = lengths / (1 + m * M**2)
            m = (torch.cat([sizes, none], dim=2) > M * lengths).sum(dim=2, keepdim=True)
            new = lengths.gather(2, m).squeeze(2)
            bound = M * new.unsqueeze(2)
            first.copy_(torch.clamp(first, -bound, bound))
        skip.mul_(torch.where(length > 0, new / length, 0.0).unsqueeze(2))


def mmd(mode, logits, x):
    """Return the MMD GEMINI (r,) with the linear kernel of x (r, n, d).

    It is that of `GEMINILoss`, which takes one run at a time.
    """
    p = torch.softmax(logits, dim=2)
    share = p.mean(dim=1, keepdim=True)
    # Of each cluster, its proportion times its mean's difference from that of all.
    means = (p - share).mT @ x / x.shape[1]
    if mode == "ova":
        return means.norm(dim=2).sum(dim=1)
    share = share.mT.unsqueeze(1)
    between = means.unsqueeze(2) * share - means.unsqueeze(1) * share.transpose(1, 2)
    return between.norm(dim=3).sum(dim=(1, 2))


def one_by_one(objective, mode, logits, x):
    """Return any GEMINI (r,), run by run."""
    loss_of = GEMINILoss(objective, mode=mode)
    return -torch.stack([loss_of(*run) for run in zip(logits, x, strict=True)])


def trained(model, X, gemini, optimizer, alpha, batch_size, ended, n_epochs=200):
    """Train all runs, with penalties `alpha` (r, 1), until each is done.

    A step of a run ends when for ten epochs neither the GEMINI rises nor the penalty
    falls by 1 %. When either does, both become what the next epochs are compared with.
    `ended` then gets the run, its GEMINI and its alpha, and returns its next alpha, or
    0 when it is done.
    """
    runs = torch.arange(len(X)).unsqueeze(1)
    rate = optimizer.param_groups[0]["lr"]

    @torch.no_grad()
    def scored():
        model.eval()
        batches = X.split(batch_size, dim=1)
        values = sum(x.shape[1] * gemini(model(x), x) for x in batches) / X.shape[1]
        return values, model.lengths().sum(dim=1)

    best_value, length = scored()
    best_penalty = alpha[:, 0] * length
    n_stalled, n_trained = torch.zeros(2, len(X))
    done = torch.zeros(len(X), dtype=bool)
    while not done.all():
        model.train()
        for batch in torch.rand(X.shape[:2]).argsort(dim=1).split(batch_size, dim=1):
            x = X[runs, batch]
            optimizer.zero_grad()
            (-gemini(model(x), x).sum()).backward()
            optimizer.step()
            model.shrink(alpha * rate)
        value, length = scored()
        penalty = alpha[:, 0] * length
        better = (value > 1.01 * best_value) | (penalty < 0.99 * best_penalty)
        n_trained, n_stalled = n_trained + 1, torch.where(better, 0, n_stalled + 1)
        over = ~done & ((n_stalled == 10) | (n_trained == n_epochs))
        for run in over.nonzero()[:, 0].tolist():
            alpha[run] = ended(run, float(value[run]), float(alpha[run]))
        done |= over & (alpha[:, 0] == 0)
        n_trained[over] = n_stalled[over] = 0
        best_value = torch.where(better | over, value, best_value)
        best_penalty = torch.where(better | over, alpha[:, 0] * length, best_penalty)


def published_paths(
    X,
    model,
    gemini,
    *,
    batch_size,
    min_features,
    first_penalty=1.0,
    multiplier=1.05,
    dynamic=None,
):
    """Return the support (d,) and the labels (n,) that each run (r, n, d) chooses.

    Adam without a penalty, then one SGD with momentum for the whole path. For each
    number of features the step of largest GEMINI counts; chosen is the least number
    with 90 % of the GEMINI of the largest one on the path. In the dynamic regime
    (Appendix A), the kernel is that of the features left by the last "penalty" or the
    last "gradient" step, and the end of the path is chosen.
    """
    left = torch.ones(len(X), 1, X.shape[2])
    dense, paths = [None] * len(X), [{} for _ in X]

    def objective(logits, x):
        if dynamic == "gradient":
            x = x * (model.lengths() > 0).unsqueeze(1)
        return gemini(logits, left * x if dynamic == "penalty" else x)

    def after_adam(run, value, alpha):
        dense[run] = [weights[run].clone() for weights in model.parameters()]
        return 0.0

    def after_step(run, value, alpha):
        support = model.lengths()[run] > 0
        n_features = int(support.sum())
        left[run] = support
        if dynamic or value > paths[run].get(n_features, (-np.inf,))[0]:
            labels = model(X)[run].argmax(dim=1)
            found = support.cpu().numpy(), labels.cpu().numpy()
            paths[run][n_features] = value, *found
        return multiplier * alpha if n_features > min_features else 0.0

    none = torch.zeros(len(X), 1)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    trained(model, X, objective, adam, none, batch_size, after_adam)
    with torch.no_grad():
        for run, kept in enumerate(dense):
            for weights, value in zip(model.parameters(), kept, strict=True):
                weights[run] = value
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    trained(model, X, objective, sgd, none + first_penalty, batch_size, after_step)
    chosen = []
    for path in paths:
        top = path[max(path)][0]
        enough = [n for n, step in path.items() if dynamic or step[0] >= 0.9 * top]
        chosen.append(path[min(enough)][1:])
    return chosen


def k_means_index(X, y):
    """Return the adjusted Rand index of k-means with all features, the peer."""
    labels = KMeans(len(np.unique(y)), n_init=10, random_state=0).fit_predict(X)
    return adjusted_rand_score(y, labels)


def rates(support, labels, y, informative):
    """Return the scores of features and labels that are selected."""
    return {
        "ARI": adjusted_rand_score(y, labels),
        "VSER": variable_selection_error_rate(informative, support),
        "CVR": correct_variable_rate(informative, support),
    }


def run_published(objective, scenario, mode, model, n_runs, dynamic=None):
    """Return runs of Table 2, 7 or 8 with the settings of the authors' repository."""
    torch.manual_seed(0)
    problems = [tuple(problem(scenario, seed)) for seed in range(n_runs)]
    X = torch.from_numpy(np.stack([X for X, _, _ in problems])).float()
    n_hidden = {5: 15, "D2": 5}.get(scenario, 10)
    chosen = published_paths(
        X,
        Perceptrons(
            n_runs,
            X.shape[2],
            (n_hidden,) if model == "mlp" else (),
            int(problems[0][1].max()) + 1,
        ),
        partial(mmd, mode)
        if objective == "mmd"
        else partial(one_by_one, objective, mode),
        batch_size={1: 30, 2: 30, "D2": 200}.get(scenario, 100),
        min_features=int(problems[0][2].sum()),
        dynamic=dynamic,
    )
    return [rates(*c, y, i) for c, (_, y, i) in zip(chosen, problems, strict=True)]


def run_published_real(name, model, kernel, n_runs):
    """Return runs of Table 4 with the settings of the authors' repository.

    Heart: 20 hidden units, batches of 90; Congress: 10 and 145. Congress has values of
    1, -1 and 0; the kernel is linear, or that of the three answers to a vote, one-hot.
    """
    torch.manual_seed(0)
    X, y = load(name)
    heart = name == "heart_statlog"
    X = torch.from_numpy(scale(X) if heart else X).float().expand(n_runs, *X.shape)
    answers = torch.tensor([-1.0, 0.0, 1.0])

    def gemini(logits, x):
        if kernel == "one-hot":
            x = (x.unsqueeze(3) == answers).float().flatten(2)
        return mmd("ova", logits, x)

    hidden = (20 if heart else 10,) if model == "mlp" else ()
    chosen = published_paths(
        X,
        Perceptrons(n_runs, X.shape[2], hidden, 2),
        gemini,
        batch_size=90 if heart else 145,
        min_features=2,
        multiplier=1.1,
    )
    return [
        {
            "ARI": adjusted_rand_score(y, labels),
            "variables": int(support.sum()),
            "support": np.flatnonzero(support).tolist(),
        }
        for support, labels in chosen
    ]


def run_published_mnist(mode, n_rows, n_hidden):
    """Return a run of Section 5.4: two hidden layers, 5 % of dropout, to 50 pixels.

    An epoch has twelve batches, as that of 12 000 images in batches of 1000.
    """
    torch.manual_seed(0)
    X, y = load("mnist_train")
    X, y = torch.from_numpy(X[None, :n_rows] / 127.5 - 1).float(), y[:n_rows]
    with torch_device() as device:
        ((support, labels),) = published_paths(
            X.to(device),
            Perceptrons(1, X.shape[2], (n_hidden, n_hidden), 10, dropout=0.05),
            partial(mmd, mode),
            batch_size=n_rows // 12,
            min_features=50,
            first_penalty=40.0,
        )
    return [
        {
            "ARI": adjusted_rand_score(y, labels),
            "variables": int(support.sum()),
            "clusters": len(np.unique(labels)),
            "ARI of k-means": k_means_index(X[0].numpy(), y),
        }
    ]


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
        "ARI of k-means": k_means_index(X, source),
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
        "ARI of k-means": k_means_index(X, y),
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
    # The last number is that of the runs side by side.
    "published": (
        run_published,
        list(itertools.product(["mmd"], SCENARIOS[:5], MODES, MODELS, [20])),
    ),
    "published_d2": (
        run_published,
        list(itertools.product(["mmd"], ["D2"], MODES, MODELS, [20])),
    ),
    "published_wasserstein": (
        run_published,
        list(itertools.product(["wasserstein"], SCENARIOS[:5], MODES, MODELS, [5])),
    ),
    "published_dynamic": (
        run_published,
        list(
            itertools.product(
                ["mmd"], [5], MODES, ["mlp"], [20], ["penalty", "gradient"]
            )
        ),
    ),
    "published_real": (
        run_published_real,
        [
            ("heart_statlog", "linear", "linear", 20),
            ("heart_statlog", "mlp", "linear", 20),
            *itertools.product(["house_votes_84"], MODELS, ["linear", "one-hot"], [20]),
        ],
    ),
    "published_mnist": (
        run_published_mnist,
        [("ova", 3000, 300)],
    ),
    "published_mnist_in_full": (
        run_published_mnist,
        [("ova", 12_000, 1200)],
    ),
    "real": (
        run_real,
        cases(5, ("heart_statlog", "house_votes_84"), ("mmd", "wasserstein"), MODELS),
    ),
    "wide_defaults": (run_wide_defaults, cases(2, MODELS, (2, 3))),
    "mnist": (run_mnist, cases(1, (False, True), MODES)),
}


def timed(function, *case):
    """Return a list of what a function finds, with its share of processor seconds."""
    spent, found = seconds(function, *case)
    runs = found if isinstance(found, list) else [found]
    return [one | {"seconds": spent / len(runs)} for one in runs]


def run(part):
    """Run the cells of a part that are not in the file; print them and their means."""
    function, cells = PARTS[part]
    groups = {}
    for case in cells:
        with warnings.catch_warnings():
            # Scenarios of few rows do not always use all clusters.
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = RESULTS.once([part, case], timed, function, *case)
        if part.startswith("published"):
            print_means(case, found)
        else:
            print(part, *case, *found, flush=True)
            groups.setdefault(case[:-1], []).extend(found)
    for case, runs in groups.items():
        print_means(case, runs)


def print_means(case, runs):
    """Print means and deviations over seeds, and how often a feature is selected."""
    print(*case, f"({len(runs)} runs)", end=": ")
    for name, value in runs[0].items():
        if not isinstance(value, list):
            values = [one[name] for one in runs]
            print(f"{name} {np.mean(values):.2f} ({np.std(values):.2f})", end="; ")
    print(flush=True)
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
    print_seconds()
