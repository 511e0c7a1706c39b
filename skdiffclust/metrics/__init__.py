"""Quality of a clustering: against known classes, as a cut, and without labels."""

from skdiffclust.metrics._graphs import links_to_incidence, ratio_cut_score
from skdiffclust.metrics._partitions import (
    clustering_accuracy,
    connectivity_error,
    pair_precision,
    pair_recall,
)
from skdiffclust.metrics._scorers import (
    available_scorers,
    calinski_harabasz_scorer,
    davies_bouldin_scorer,
    get_scorer,
    path_silhouette_scorer,
    silhouette_scorer,
    stability_scorer,
)
from skdiffclust.metrics._variables import (
    correct_variable_rate,
    variable_selection_error_rate,
)

__all__ = [
    "available_scorers",
    "calinski_harabasz_scorer",
    "clustering_accuracy",
    "connectivity_error",
    "correct_variable_rate",
    "davies_bouldin_scorer",
    "get_scorer",
    "links_to_incidence",
    "pair_precision",
    "pair_recall",
    "path_silhouette_scorer",
    "ratio_cut_score",
    "silhouette_scorer",
    "stability_scorer",
    "variable_selection_error_rate",
]
