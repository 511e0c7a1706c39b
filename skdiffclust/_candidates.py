"""The numbers of clusters that an automatic choice does not rule out.

They are the chosen number, each number that the rule picks on at least two of five
random subsamples, and 1 if the clusters do not return: if those of other samples agree
with them too little. With more than one of them, a warning is issued.
"""

from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np

from skdiffclust._history import warn_of_convergence

# Subsamples, and on how many of them another number must be picked. Both, the mean
# adjusted Rand index below which clusters do not return, and what is drawn are rows of
# the page "How "auto" decides".
N_SUBSAMPLES = 5
_LEAST_VOTES = 2
_RETURNS = 0.95
_are_wanted = ContextVar("candidates", default=True)
_TIMES = "never", "once", "twice", "three times", "four times", "five times"


def are_wanted():
    """Whether a fit looks for candidates."""
    return _are_wanted.get()


@contextmanager
def no_candidates():
    """Return a context in which fits choose a number and look for no candidates.

    The search for candidates takes most of the time of a small fit; a fit to a
    subsample does without it.
    """
    token = _are_wanted.set(False)
    try:
        yield
    finally:
        _are_wanted.reset(token)


@dataclass(frozen=True)
class Candidates:
    """The chosen number of clusters, and those that are not ruled out.

    Attributes
    ----------
    chosen : int
    picks : tuple of int
        What the rule picks on each subsample.
    agreement : float
        Mean adjusted Rand index of the clusters of other samples.
    of_what : str
        What agrees, for the warning.
    others : dict of {int: str}
        Further candidates, and why they are.
    """

    chosen: int
    picks: tuple = ()
    agreement: float = 1.0
    of_what: str = ""
    others: dict = None

    @property
    def numbers(self):
        """The candidates (m,), increasing."""
        votes = Counter(self.picks)
        found = {self.chosen, *(self.others or ())}
        found |= {number for number, n in votes.items() if n >= _LEAST_VOTES}
        if self.agreement < _RETURNS:
            found.add(1)
        return np.array(sorted(found))

    def warn_if_several(self, name):
        """Warn, in the name of an estimator, if there are several candidates."""
        numbers = self.numbers
        if len(numbers) == 1:
            return
        votes = Counter(self.picks).most_common()
        said = " and ".join(f"{number} {_TIMES[n]}" for number, n in votes)
        said = said.replace(" ", " clusters ", 1)
        why = [f"on {len(self.picks)} random subsamples the rule picked {said}"]
        why.append(f"{self.of_what} agree with an ARI of {self.agreement:.2f}")
        why += (self.others or {}).values()
        listed = ", ".join(map(str, numbers))
        warn_of_convergence(
            f"{name}(n_clusters='auto') sees no clear number of clusters: "
            f"{'; '.join(why)}. It takes {self.chosen} of the candidates {listed}. "
            "Inspect n_clusters_candidates_ and n_clusters_curve_, or set n_clusters.",
        )
