"""
=============================================================
Topics of texts: memories, a cut and a forest, all by cosines
=============================================================

The docstrings of ten packages of Python's standard library are texts about ten
subjects. Their TF-IDF features are sparse, and are compared by cosines, as usual for
texts. ``ClAM``, ``GraphCutClustering`` and ``SpanningForestClustering`` take both, and
k-means stands beside them. The words with larger weights in a cluster than elsewhere
describe its topic.
"""

import ast
import sysconfig
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score

from skdiffclust import ClAM, GraphCutClustering, SpanningForestClustering

PACKAGES = [
    "asyncio",
    "_pydecimal",
    "email",
    "http",
    "importlib",
    "logging",
    "tkinter",
    "turtle",
    "unittest",
    "xml",
]


def docstrings(package):
    """Return the docstrings of a package of at least 15 words."""
    root = Path(sysconfig.get_paths()["stdlib"])
    files = sorted((root / package).rglob("*.py")) or [root / f"{package}.py"]
    texts = []
    for file in files:
        if not file.exists() or "test" in file.relative_to(root).parts:
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(
                node,
                (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef),
            ):
                text = ast.get_docstring(node) or ""
                if len(text.split()) >= 15:
                    texts.append(text)
    return texts


texts, y = [], []
for package in PACKAGES:  # some distributions of Python have no tkinter
    found = docstrings(package)
    texts += found
    y += [package] * len(found)
y = np.array(y)
n_topics = len(np.unique(y))
print(f"{len(texts)} docstrings of {n_topics} packages")

# %%
# The TF-IDF features are a sparse matrix, which is never converted to a dense one.

vectorizer = TfidfVectorizer(
    stop_words="english",
    token_pattern=r"(?u)\b[a-zA-Z]{3,}\b",
    min_df=3,
    max_df=0.2,
    sublinear_tf=True,
)
X = vectorizer.fit_transform(texts)
worded = X.getnnz(axis=1) > 0  # texts without any word of the vocabulary are dropped
X = X[worded]
y = y[worded]
print(f"{X.shape[1]} words, {X.nnz / X.shape[0]:.0f} of them in a text")

# %%
# All four get the number of packages; the packages themselves only serve to compare.

models = {
    "k-means": KMeans(n_topics, n_init=10, random_state=0),
    "ClAM": ClAM(n_topics, metric="cosine", random_state=0),
    "graph cut": GraphCutClustering(n_topics, metric="cosine", random_state=0),
    "forest": SpanningForestClustering(n_topics, metric="cosine"),
}
agreement = {}
for name, model in models.items():
    with warnings.catch_warnings():
        # A text without a word in common with others goes to the nearest cluster.
        warnings.filterwarnings("ignore", message="The graph of GraphCutClustering")
        model.fit(X)
    agreement[name] = adjusted_rand_score(y, model.labels_)
    sizes = np.bincount(model.labels_)
    print(f"{name:10s} ARI {agreement[name]:.2f}, clusters of {sizes}")
assert min(agreement, key=agreement.get) == "k-means"
best = max(agreement, key=agreement.get)
model = models[best]

# %%
# Each topic of the best of them is described by the words whose mean weight in the
# cluster exceeds that in all texts most.

words = vectorizer.get_feature_names_out()
overall = np.asarray(X.mean(axis=0)).ravel()
topics = []
for cluster in range(n_topics):
    inside = np.asarray(X[model.labels_ == cluster].mean(axis=0)).ravel()
    top = np.argsort(overall - inside)[:5]
    topics.append(", ".join(words[top]))

names = np.unique(y)
counts = np.array(
    [
        [np.sum((model.labels_ == cluster) & (y == name)) for name in names]
        for cluster in range(n_topics)
    ]
)
is_one_package = counts.max(axis=1) > counts.sum(axis=1) * 2 / 3
assert is_one_package.sum() > n_topics / 2
fig, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
ax.imshow(counts / counts.sum(axis=1, keepdims=True), cmap="Blues", aspect="auto")
for row, column in np.argwhere(counts):
    share = counts[row, column] / counts[row].sum()
    color = "white" if share > 0.5 else "black"
    ax.text(column, row, counts[row, column], ha="center", va="center", color=color)
ax.set_xticks(range(len(names)), names, rotation=35, ha="right")
ax.set_yticks(range(n_topics), topics)
fig.suptitle(f"Topics of {best}: most are mainly about one package")
ax.set(ylabel="cluster", xlabel="package")
plt.show()

# %%
# A new text is assigned by the same model.

new = ["Wait until the event loop has run the callback of the future."]
label = model.predict(vectorizer.transform(new))[0]
print(f"{new[0]!r} is about: {topics[label]}")
