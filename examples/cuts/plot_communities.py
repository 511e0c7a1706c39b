"""
=================================================
Imports between Python's modules form communities
=================================================

The modules of Python's standard library import each other. The network of these imports
has communities, groups of modules with many imports among them and few to others, and
``GraphCutClustering`` finds them from the graph alone. The packages, to which the
modules belong, are not used.
"""

import ast
import sysconfig
from pathlib import Path

import matplotlib.pyplot as plt
import networkx
import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

from skdiffclust import GraphCutClustering

PACKAGES = (
    "asyncio concurrent ctypes email html http importlib json logging multiprocessing "
    "unittest urllib wsgiref xml xmlrpc"
)

# %%
# Modules are nodes, and an import in either direction is an edge.

library = Path(sysconfig.get_paths()["stdlib"])
files = {}
for package in PACKAGES.split():
    for path in sorted((library / package).rglob("*.py")):
        parts = path.relative_to(library).with_suffix("").parts
        if "test" not in parts and "tests" not in parts:
            files[".".join(parts).removesuffix(".__init__")] = path


def imports_of(name, path):
    """Return the full names of what a module imports."""
    package = name.split(".")
    if path.stem != "__init__":
        package = package[:-1]
    found = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base = base + ([node.module] if node.module else [])
            found += [".".join([*base, alias.name]) for alias in node.names]
    return found


names = list(files)
number = {name: i for i, name in enumerate(names)}
graph = np.zeros((len(names), len(names)))
for name, path in files.items():
    for target in imports_of(name, path):
        while target and target not in number:  # a function: its module
            target = target.rpartition(".")[0]
        if target and target != name:
            i, j = number[name], number[target]
            graph[i, j] = graph[j, i] = 1
_, part = connected_components(graph)
largest = part == np.bincount(part).argmax()
graph = graph[np.ix_(largest, largest)]
packages = np.array([name.split(".")[0] for name in np.array(names)[largest]])
print(f"{len(graph)} modules, {int(graph.sum()) // 2} imports")

# %%
# The number of communities is set. ``n_clusters="auto"`` would issue a warning here,
# since no number is clear.

model = GraphCutClustering(10, affinity="precomputed", random_state=0).fit(
    csr_array(graph)
)
agreement = adjusted_rand_score(packages, model.labels_)

# %%
# The matrix of imports in the order of the communities, and the packages of each. The
# modules of a community are in the order of their names.

order = np.argsort(model.labels_, kind="stable")
ends = np.cumsum(np.bincount(model.labels_))
fig, axes = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
i, j = np.nonzero(graph[np.ix_(order, order)])
axes[0].scatter(j, i, s=2, color="0.2")
for start, end in zip([0, *ends], ends, strict=False):
    box = plt.Rectangle((start - 0.5, start - 0.5), end - start, end - start)
    box.set(fill=False, edgecolor="C0", linewidth=1.5)
    axes[0].add_patch(box)
axes[0].set(title="Imports are dense within communities", xticks=[], yticks=[])
axes[0].set(aspect="equal", xlim=(-1, len(graph)), ylim=(len(graph), -1))

table = contingency_matrix(packages, model.labels_).T
left = np.zeros(len(table))
for column, package in enumerate(np.unique(packages)):
    counts = table[:, column]
    axes[1].barh(range(len(table)), counts, left=left, edgecolor="w", color="0.8")
    for community in np.flatnonzero(counts >= 5):
        middle = left[community] + counts[community] / 2
        axes[1].text(middle, community, package, ha="center", va="center", fontsize=8)
    left += counts
axes[1].invert_yaxis()
axes[1].set(title="Most communities are one package", xlabel="modules")
axes[1].set(yticks=range(len(table)), ylabel="community")
plt.show()

# %%
# A package is named if a community contains at least five of its modules. Communities
# may divide or join packages: those for the web, for example, import each other.

share = table.max(axis=1).sum() / table.sum()
print(f"adjusted Rand index with the packages: {agreement:.2f}")
print(f"modules in a community where theirs is the largest package: {share:.0%}")
assert agreement > 0.5
assert share > 0.7

# %%
# The usual tool, Louvain's algorithm in networkx, chooses its number of communities by
# the modularity, and agrees with the packages a little better here. A number that is
# given, bounds on sizes and links are what the cut has beside it.

network = networkx.from_numpy_array(graph)
louvain = np.empty(len(graph), dtype=int)
for label, nodes in enumerate(networkx.community.louvain_communities(network, seed=0)):
    louvain[list(nodes)] = label
index = adjusted_rand_score(packages, louvain)
print(f"Louvain: {louvain.max() + 1} communities, adjusted Rand index {index:.2f}")

# %%
# A large network: a block model of 100 000 nodes in twenty communities, each with four
# edges to its own and one to any other. It is given as a sparse matrix.

rng = np.random.default_rng(0)
n_nodes = 100_000
community = np.sort(rng.integers(0, 20, n_nodes))
first = np.searchsorted(community, np.arange(20))
size = np.bincount(community)
here = np.repeat(np.arange(n_nodes), 5)
own = first[community[here]] + rng.integers(0, size[community[here]])
there = np.where(np.arange(5 * n_nodes) % 5, own, rng.integers(0, n_nodes, len(here)))
edges = coo_array((np.ones(len(here)), (here, there)), shape=(n_nodes, n_nodes)).tocsr()
edges = edges + edges.T
edges.setdiag(0)
edges.eliminate_zeros()
large = GraphCutClustering(20, affinity="precomputed", n_init=1, random_state=0)
large.fit(edges)
index = adjusted_rand_score(community, large.labels_)
print(f"{edges.nnz // 2} edges: adjusted Rand index {index:.2f}")
assert index > 0.9
