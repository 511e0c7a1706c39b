"""One vocabulary: shared parameters have one name, one order and one meaning."""

import inspect

import pytest
from numpydoc.docscrape import ClassDoc
from sklearn.base import ClusterMixin

import skdiffclust

ESTIMATORS = [
    getattr(skdiffclust, name)
    for name in skdiffclust.__all__
    if inspect.isclass(getattr(skdiffclust, name))
]
# The first parameter; SparseGEMINICV wraps an estimator.
FIRST = ["n_clusters", "estimator"]
LAST = [
    "max_iter",
    "batch_size",
    "learning_rate",
    "tol",
    "n_init",
    "n_jobs",
    "device",
    "random_state",
]
# What an estimator publishes if it has a parameter, under one name in all of them.
PUBLISHED = {
    "max_iter": {"n_iter_"},
    "device": {"device_"},
    "hidden_layer_sizes": {"coefs_", "intercepts_"},
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_have_one_order_and_attributes_one_name(estimator):
    parameters = inspect.signature(estimator).parameters
    names = list(parameters)
    shared = [name for name in LAST if name in names]
    assert names[len(names) - len(shared) :] == shared
    positional = [
        name
        for name, parameter in parameters.items()
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    ]
    assert positional == [name for name in names[:1] if name in FIRST]
    attributes = {
        name
        for attribute in ClassDoc(estimator)["Attributes"]
        for name in attribute.name.replace("`", "").split(", ")
    }
    assert {"n_features_in_", "feature_names_in_"} <= attributes
    if issubclass(estimator, ClusterMixin):
        assert {"labels_", "n_clusters_"} <= attributes
    for parameter in PUBLISHED.keys() & parameters.keys():
        assert PUBLISHED[parameter] <= attributes
    for method in ("fit", "partial_fit", "path", "score"):
        if hasattr(estimator, method):
            taken = inspect.signature(getattr(estimator, method)).parameters
            assert list(taken)[1:3] == ["X", "y"]
