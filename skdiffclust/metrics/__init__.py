"""Quality of a clustering, against known classes and without labels."""

from skdiffclust.metrics._links import links_to_incidence
from skdiffclust.metrics._partitions import (
    clustering_accuracy,
    connectivity_error,
    pair_precision,
    pair_recall,
)
from skdiffclust.metrics._scorers import (
    calinski_harabasz_scorer,
    path_silhouette_scorer,
    silhouette_scorer,
    stability_scorer,
)
from skdiffclust.metrics._variables import (
    correct_variable_rate,
    variable_selection_error_rate,
)

__all__ = [
    "calinski_harabasz_scorer",
    "clustering_accuracy",
    "connectivity_error",
    "correct_variable_rate",
    "links_to_incidence",
    "pair_precision",
    "pair_recall",
    "path_silhouette_scorer",
    "silhouette_scorer",
    "stability_scorer",
    "variable_selection_error_rate",
]
