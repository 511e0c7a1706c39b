"""What several benchmarks need: data, clocks, memory, and results kept in a file."""

import ast
import csv
import json
import os
import re
import sys
import sysconfig
import time
import warnings
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import combinations
from pathlib import Path

import numpy as np
from data_sets import has_data, load_data
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.preprocessing import StandardScaler

OWN = "breast_cancer", "digits", "iris", "wine"  # come with scikit-learn


TABLES = (
    "iris wine breast_cancer digits zoo ecoli movlib ctg mnist_t10k usps_train letter "
    "isolet house_votes_84 heart_statlog"
).split()


def is_here(name):
    """Return whether a data set of scikit-learn or of the loader can be read."""
    return name in OWN or has_data(name)


@cache
def those_here(*names):
    """Return the data sets that can be read, and print which ones are left out."""
    missing = [name for name in names if not is_here(name)]
    if missing:
        print(
            f"left out, not found (see SKDIFFCLUST_DATA): {', '.join(missing)}",
            file=sys.stderr,
            flush=True,
        )
    return [name for name in names if name not in missing]


def load(name):
    """Return the samples (n, d), float64 and unscaled, and classes of a data set."""
    if name in OWN:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    else:
        X, y = load_data(name)
    return X.astype(float), y


def some(X, y, n_samples):
    """Return at most this many samples with their classes, drawn with seed 0."""
    chosen = np.random.RandomState(0).permutation(len(X))[:n_samples]
    return X[chosen], y[chosen]


def standardised(X):
    """Return samples (n, d) whose features have mean 0 and variance 1."""
    return StandardScaler().fit_transform(X)


def noise_background(images, seed):
    """Return grey levels (n, d) with noise in place of black, as in MNIST-BR."""
    noise = np.random.RandomState(seed).uniform(0, images.max(), images.shape)
    return np.where(images > 0, images, noise)


PACKAGES_READ = (
    "asyncio _pydecimal email http importlib logging tkinter turtle unittest xml"
).split()


def docstrings():
    """Return the TF-IDF (n, n_words) of the docstrings of ten packages of Python.

    And the number (n,) of the package. Docstrings of less than 15 words are left out.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    texts, y = [], []
    for number, package in enumerate(PACKAGES_READ):
        for file in sorted((root / package).rglob("*.py")) or [root / f"{package}.py"]:
            if not file.exists() or "test" in file.relative_to(root).parts:
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                described = ast.Module, ast.ClassDef, ast.FunctionDef
                text = isinstance(node, described) and ast.get_docstring(node)
                if text and len(text.split()) >= 15:
                    texts.append(text)
                    y.append(number)
    words = TfidfVectorizer(
        stop_words="english", min_df=3, max_df=0.2, sublinear_tf=True
    )
    X = words.fit_transform(texts)
    return X[X.getnnz(axis=1) > 0], np.array(y)[X.getnnz(axis=1) > 0]


def tables(n_most):
    """Yield (name, X, y) of real tables, standardised, at most `n_most` samples."""
    for name in those_here(*TABLES):
        X, y = some(*load(name), n_most)
        yield name, standardised(X), y


def torch_device():
    """Return the device of loops that are too long for a processor, if there is one."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def resumed(checkpoint, n_steps, rng, parts):
    """Return how many steps a file has (0 without one), and set states to its.

    These are the states of `rng`, of the generator of torch, and of parts that have a
    ``state_dict``.
    """
    import torch

    if checkpoint is None or not checkpoint.exists():
        return 0
    done, state, noise, states = torch.load(checkpoint, weights_only=False)
    if done > n_steps:
        raise ValueError(f"{checkpoint} has {done} steps. Remove it to start anew.")
    rng.set_state(state)
    torch.set_rng_state(noise)
    for part, its_state in zip(parts, states, strict=True):
        part.load_state_dict(its_state)
    return done


def save_steps(checkpoint, n_steps, rng, parts):
    """Replace the file of `resumed`."""
    import torch

    new = checkpoint.with_suffix(".new")
    states = [part.state_dict() for part in parts]
    torch.save((n_steps, rng.get_state(), torch.get_rng_state(), states), new)
    new.replace(checkpoint)


def seconds(function, *arguments, **keywords):
    """Return the processor seconds of a call, which a busy machine changes least.

    And its result.
    """
    start = time.process_time()
    result = function(*arguments, **keywords)
    return time.process_time() - start, result


def print_seconds():
    """Print the processor seconds of this process, for the pages."""
    print(f"all that was not recorded: {time.process_time():.0f} s of the processor")


def both_clocks(function, *arguments):
    """Return the elapsed and the processor seconds of a call, and its result."""
    start = time.perf_counter(), time.process_time()
    result = function(*arguments)
    return time.perf_counter() - start[0], time.process_time() - start[1], result


def resident():
    """Return the bytes of memory that this process holds."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def peak_memory():
    """Return the bytes of memory that this process held at most, on Linux.

    Unlike `resource.getrusage` it does not count the process that started this one.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def versions(*names):
    """Return the names of packages with their versions, in a line."""
    said = []
    for name in names:
        try:
            said.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            said.append(f"no {name}")
    return ", ".join(said)


def largest_silhouette(X, numbers, n_init, seed=0):
    """Return the labels (n,) of k-means of the number with the largest silhouette."""
    models = [KMeans(k, n_init=n_init, random_state=seed) for k in numbers]
    labels = [model.fit_predict(X) for model in models]
    return max(labels, key=lambda one: silhouette_score(X, one))


def agreements(labelings):
    """Return the adjusted Rand indices of all pairs of labelings."""
    return [adjusted_rand_score(*pair) for pair in combinations(labelings, 2)]


def warns_of(model, X, message="no cut is clear|no clear|no more structure"):
    """Return whether a fit warns that there is no clear structure."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    return any(re.search(message, str(w.message)) for w in caught)


def interval(values):
    """Return the mean of draws and its interval of 95 %, as text."""
    rng = np.random.RandomState(0)
    values = np.asarray(values)
    drawn = values[rng.randint(len(values), size=(10_000, len(values)))].mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{values.mean():.3f} [{low:.3f}, {high:.3f}]"


def record(rows, path):
    """Print the rows of a table, and write them to a CSV file where one is named."""
    csv.writer(sys.stdout, lineterminator="\n").writerows(rows)
    if path is not None:
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


class Results:
    """Results of a long run, one line of JSON each; what is there is not run again.

    Parameters
    ----------
    path : Path
        The file, which need not exist.
    """

    def __init__(self, path):
        self.path = path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        lines = map(json.loads, text.splitlines())
        self.found = {json.dumps(line["key"]): line for line in lines}

    def once(self, key, compute, *arguments, **keywords):
        """Return the result of a key, which is computed where the file has none."""
        name = json.dumps(key)
        if name not in self.found:
            line = {"key": key, "result": compute(*arguments, **keywords)}
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            self.found[name] = json.loads(json.dumps(line))
        return self.found[name]["result"]
