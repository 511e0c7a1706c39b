"""The objective of PRCut: gradients of the expected cut by batches of assignments."""

import numpy as np

from skdiffclust._assignments import softmax, softmax_backward
from skdiffclust.cuts._ratio_cut import expected_cut_with_gradient

# Lower bound of proportions in denominators, as a share of 1 / n_clusters.
_FLOOR = 1e-3
# First rate of averaging_rate="decreasing", which is divided by the number of batches
# in an epoch of a fit, and that of each batch of a stream.
_FIRST_AVERAGING = 0.8
# Epochs between two exact gradients of all samples.
_EXACT_EVERY = 10


class CutObjective:
    """Gradients of L_tr / sum(W) + balance by the assignments of a batch.

    `memory` holds the assignments (n, k) as last seen, so that the edges of each sample
    need no other pass of the encoder. objective="exact" replaces L_tr by n times the
    exact expectation: every tenth epoch the exact value and gradient of all samples are
    computed, and their differences from those of the bound are added to the bound's.
    objective="bound" is that of the blocks between two batches.

    Parameters
    ----------
    graph : csr_array of shape (n, n)
    settings : Settings
    prior : ndarray of shape (k,)
        Proportions that the balance term pulls to; positive.
    divisors : ndarray of shape (n,) or None
        Divisors of a cut: one for each node if None, its degree for the normalised cut.
        Proportions are sums of them.
    """

    def __init__(self, graph, settings, prior, divisors=None):
        self.graph = graph
        self.settings = settings
        self.prior = prior
        self.divisors = divisors
        self.degrees = graph.sum(axis=1)
        # They are relative to their mean, so that all else is as with ones.
        self.shares = np.ones(graph.shape[0])
        if divisors is not None and divisors.any():
            self.shares = divisors / divisors.mean()
        # A graph without an edge has nothing to cut.
        self.scale = len(self.degrees) / (self.degrees.sum() or 1.0)
        self.running = np.zeros(len(prior))
        self.n_blocks = 0
        self.n_epochs = 0
        # The exact value and gradient less those of the bound.
        self.value_beyond = 0.0
        n_rows = len(self.degrees) if settings.objective == "exact" else 0
        self.beyond = np.zeros((n_rows, len(prior)))
        self.past = None  # proportions of the earlier samples of a stream

    def start_epoch(self, assignments):
        """Set the assignments (n, k) of all samples; return (value, KL) there."""
        linked = self._take(assignments)
        floored = self._floored(self.blended())
        n = len(assignments)
        value = self.scale * float((self.cuts / floored).sum()) / n
        if self.settings.objective == "exact" and self.n_epochs % _EXACT_EVERY == 0:
            exact, gradient = expected_cut_with_gradient(
                self.graph, self.degrees, self.memory, divisors=self.divisors
            )
            if self.divisors is not None:
                exact *= self.divisors.mean()
                gradient *= self.divisors.mean()
            self.value_beyond = self.scale * exact - value
            gradient *= n * self.scale
            self.beyond = gradient - self._bound_gradient(slice(None), linked, floored)
        value += self.value_beyond
        self.n_epochs += 1
        return value, float(self.blended() @ np.log(floored / self.prior))

    def _take(self, assignments):
        """Set the assignments (n, k) of all samples; return their links (n, k)."""
        self.memory = assignments.astype(np.float64)
        self.proportions = self.shares @ self.memory / len(self.memory)
        linked = self.graph @ self.memory
        open_ends = self.degrees[:, None] - linked
        self.cuts = np.einsum("ik,ik->k", self.memory, open_ends)
        return linked

    def arrays(self):
        """Return the state that an epoch leaves, besides assignments, by name."""
        names = "n_epochs", "n_blocks", "running", "value_beyond", "beyond"
        return {name: getattr(self, name) for name in names}

    def load_arrays(self, assignments, arrays):
        """Load what `arrays` returned, with the assignments (n, k) of all samples."""
        for name, value in arrays.items():
            setattr(self, name, value if value.ndim else value.item())
        self._take(assignments)

    def batch_gradient(self, rows, assignments):
        """Return n times the gradient (b, k) by the assignments (b, k) of rows (b,)."""
        moved = self.shares[rows] @ (assignments - self.memory[rows])
        self.memory[rows] = assignments
        self.proportions = self.proportions + moved / len(self.memory)
        floored = self._floored(self.blended())
        linked = self.graph[rows] @ self.memory
        gradient = self._bound_gradient(rows, linked, floored) + self.beyond[rows]
        return gradient + self.shares[rows][:, None] * self._pull(floored)

    def _bound_gradient(self, rows, linked, floored):
        """Return n times the gradient (b, k) of the bound by rows (b,).

        Their edges have the weights `linked` (b, k) to each cluster.
        """
        gradient = (self.degrees[rows][:, None] - 2.0 * linked) / floored
        shrink = self.cuts / (len(self.memory) * floored**2)
        gradient -= self.shares[rows][:, None] * shrink
        return self.scale * gradient

    def block_gradient(self, rows, block, assignments):
        """Return the gradient (a + b, k) by left and right assignments of a block.

        The rows (a + b,) are those of the left side, then those of the right.

        The block (a, b) of weights stands for the graph, running proportions for the
        proportions: Algorithm 1 of the paper with the right constants, not times n.
        """
        # Each row's part of the proportions.
        parts = self.shares[rows] / np.repeat(block.shape, block.shape)
        parts /= parts.sum() or 1.0
        batch = parts @ assignments
        self.n_blocks += 1
        rate = self.averaging_rate if self.n_blocks > 1 else 1.0
        self.running = (1.0 - rate) * self.running + rate * batch
        floored = self._floored(self.running)
        sides, of_sides = (
            np.split(each, [block.shape[0]]) for each in (assignments, parts)
        )
        _, gradients = block_loss_with_gradients(block, *sides, floored, of_sides)
        return np.concatenate(gradients) + parts[:, None] * self._pull(floored)

    @property
    def averaging_rate(self):
        """Weight of a new batch in the running proportions."""
        if self.settings.averaging_rate == "decreasing":
            return _FIRST_AVERAGING / max(self.n_blocks, 1)
        return self.settings.averaging_rate

    def blended(self):
        """Return the proportions (k,), averaged with those of a stream's past."""
        if self.past is None:
            return self.proportions
        rate = self.averaging_rate
        return (1.0 - rate) * self.past + rate * self.proportions

    def _floored(self, proportions):
        """Return proportions (k,) that are safe as denominators."""
        return np.maximum(proportions, _FLOOR / len(proportions))

    def _pull(self, proportions):
        """Return n times the gradient (k,) of the balance term by any row."""
        weight = self.settings.balance_weight
        return weight * (np.log(proportions / self.prior) + 1.0)


def block_loss_with_gradients(block, left, right, proportions, parts):
    """Return L_tr / sum(W) of a block (a, b) and its gradients [(a, k), (b, k)].

    The proportions (k,) change with the samples by these parts [(a,), (b,)], or by one
    number for all of a side: 1 / (2a) and 1 / (2b) where they are the mean of both
    sides. Over random blocks the part of the gradients that is linear in the block is
    unbiased for known proportions; the other is a product of two means of the batch,
    off by O(1 / batch). A block without an edge has loss and gradients 0.
    """
    total = block.sum() or 1.0
    gradients = []
    cut = 0.0
    for weights, mine, others in ((block, left, right), (block.T, right, left)):
        degrees = weights.sum(axis=1)
        linked = weights @ others
        cut = cut + 0.5 * np.einsum("ik,ik->k", mine, degrees[:, None] - linked)
        gradients.append((0.5 * degrees[:, None] - linked) / (proportions * total))
    shrink = cut / (proportions**2 * total)
    gradients = [
        gradient - np.asarray(part)[..., None] * shrink
        for part, gradient in zip(parts, gradients, strict=True)
    ]
    return float((cut / proportions).sum() / total), gradients


def cut_vjp(objective, rows, block):
    """Return the function from logits (b, k) of samples to the gradient by them."""

    def gradient_of(logits):
        assignments = softmax(logits.astype(np.float64))
        if block is None:
            gradient = objective.batch_gradient(rows, assignments) / len(rows)
        else:
            gradient = objective.block_gradient(rows, block, assignments)
        return softmax_backward(assignments, gradient)

    return gradient_of
