"""The samples of a fit, in the units of training."""

from skdiffclust._batches import rows_of_weight

# Samples used in seeding and in judging epochs; more would change little.
MAX_ROWS = 8192


class TrainingRows:
    """Samples X (n, d) with weights (n,), in training units where they are read.

    `weight` (n,) has a mean of one. At most MAX_ROWS samples are `drawn`, for what
    compares whole memories.
    """

    def __init__(self, X, weight, scaling, random_state):
        self.X = X
        self.scaling = scaling
        self.shape = X.shape
        self.sample_weight = weight
        self.weight = weight * (len(weight) / weight.sum())
        chosen = rows_of_weight(weight, MAX_ROWS, random_state)
        self.drawn = self[chosen]
        self.drawn_weight = self.weight[chosen]
        self.dtype = self.drawn.dtype

    def __getitem__(self, rows):
        """Return some samples in training units."""
        return self.scaling.transform(self.X[rows])
