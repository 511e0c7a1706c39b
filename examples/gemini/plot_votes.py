"""
============================
Votes of the Congress, 1984
============================

Sixteen votes of 435 members: yes, no, or neither. Their one-hot code has three columns
for a vote, and ``groups`` makes these leave together, so that a path of penalties drops
whole votes (Table 4 of Ohl et al., 2024). The votes do not come with scikit-learn:
where ``house_votes_84.npz`` is not found (``SKDIFFCLUST_DATA`` names its folder), votes
are drawn in their place, of which the first six follow the party.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import OneHotEncoder

from skdiffclust import SparseGEMINI
from skdiffclust._data import has_data, load_data
from skdiffclust.metrics import clustering_accuracy

if has_data("house_votes_84"):
    votes, party = load_data("house_votes_84")
    names = """handicapped infants|water project|budget resolution|physician fee freeze
    El Salvador aid|religious groups in schools|anti-satellite test ban|aid to contras
    MX missile|immigration|synfuels cutback|education spending|superfund right to sue
    crime|duty-free exports|South Africa export act"""
    names = [name.strip() for name in names.replace("\n", "|").split("|")]
else:
    rng = np.random.RandomState(0)
    party = (rng.uniform(size=435) < 0.4).astype(int)
    with_party = rng.uniform(size=(435, 16)) < np.where(np.arange(16) < 6, 0.9, 0.5)
    votes = np.where(with_party, 1, -1) * (2 * party - 1)[:, None]
    votes[rng.uniform(size=votes.shape) < 0.05] = 0
    names = [f"drawn vote {i}" for i in range(16)]

# %%
# Clusters are made from the votes alone; the parties are only compared in the end.

encoder = OneHotEncoder(sparse_output=False)
X = encoder.fit_transform(votes)
vote_of_column = np.repeat(np.arange(16), [len(c) for c in encoder.categories_])
sparse = SparseGEMINI(
    2, mode="ovo", groups=vote_of_column, max_iter=100, tol=0.01, random_state=0
)
path = sparse.path(X, min_features=3)

n_votes = [len(np.unique(vote_of_column[support])) for support in path.supports]
accuracy = [clustering_accuracy(party, labels) for labels in path.labels]
print(f"all {n_votes[0]} votes: accuracy {accuracy[0]:.3f}")
chosen = np.unique(vote_of_column[sparse.get_support()])
print(
    f"chosen, {len(chosen)} votes: accuracy {accuracy[path.chosen]:.3f}, adjusted Rand "
    f"index {adjusted_rand_score(party, sparse.labels_):.2f}"
)
print("chosen votes:", ", ".join(names[vote] for vote in chosen))

# %%
# Left, when each vote leaves the path; right, what is left of the two parties.

leaves = [sparse.feature_importances_[vote_of_column == v].max() for v in range(16)]
order = np.argsort(leaves)
fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
colours = np.where(np.isin(order, chosen), "tab:green", "0.8")
axes[0].barh([names[v] for v in order], np.take(leaves, order), color=colours)
axes[0].set(xlabel="penalty at leaving", title="green: in the chosen step")
axes[1].plot(n_votes, accuracy, "o-")
axes[1].axvline(len(chosen), color="tab:red", ls=":")
axes[1].set(xlabel="number of votes", ylabel="members in the cluster of their party")
axes[1].set_xlim(16.5, 0.5)
axes[1].set_xticks(range(2, 17, 2))
plt.show()

# %%
# How few votes make the clusters that all votes make, and how far the last two go:

stay = [names[vote] for vote in order[-2:]]
best = max(a for a, n in zip(accuracy, n_votes, strict=True) if n <= 2)
print(f"{len(chosen)} of the {n_votes[0]} votes are in the chosen step.")
print(
    f"The two that stay longest ({' and '.join(stay)}) tell {best:.0%} of the members."
)
