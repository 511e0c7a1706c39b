"""One vocabulary: shared parameters have one name, one order and one meaning."""

import inspect
import re

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
# What differs between GEMINI and SparseGEMINI: the latter takes no precomputed matrix,
# trains in stages, and leaves the number of clusters to SparseGEMINICV.
DIFFERENT = {
    "device",
    "kernel",
    "learning_rate",
    "max_iter",
    "metric",
    "model",
    "n_init",
    "n_clusters",
    "tol",
}


def parameters_of(function):
    """Return the parameters of a function or class, without self."""
    parameters = inspect.signature(function).parameters
    return {name: p for name, p in parameters.items() if name != "self"}


def documented(estimator):
    """Return {name: (type, text)} of the parameters of a class, without citations."""
    return {
        name: (parameter.type, re.sub(r" \[\d+\]_", "", " ".join(parameter.desc)))
        for parameter in ClassDoc(estimator)["Parameters"]
        for name in parameter.name.split(", ")
    }


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_shared_parameters_have_one_order(estimator):
    names = list(parameters_of(estimator))
    shared = [name for name in LAST if name in names]
    assert names[len(names) - len(shared) :] == shared
    if set(names) & set(FIRST):
        assert names[0] in FIRST


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_only_the_number_of_clusters_is_positional(estimator):
    names = list(parameters_of(estimator))
    for name, parameter in parameters_of(estimator).items():
        keyword_only = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert keyword_only == (name != names[0] or name not in FIRST)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("method", ["fit", "partial_fit", "path", "score"])
def test_methods_take_X_y_and_weights_in_this_order(estimator, method):
    if not hasattr(estimator, method):
        return
    parameters = parameters_of(getattr(estimator, method))
    positional = [
        name
        for name, parameter in parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    expected = ["X", "y"]
    if "sample_weight" in parameters:
        expected.append("sample_weight")
    assert positional == expected


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_signature_is_in_the_order_of_the_documentation(estimator):
    assert list(documented(estimator)) == list(parameters_of(estimator))


def test_gemini_and_sparse_gemini_document_shared_parameters_alike():
    one = documented(skdiffclust.GEMINI)
    other = documented(skdiffclust.SparseGEMINI)
    shared = (one.keys() & other.keys()) - DIFFERENT
    assert len(shared) >= 7
    for name in sorted(shared):
        words = " ".join(other[name]).split()
        # Long texts are those of GEMINI.
        if ":class:`GEMINI`" not in " ".join(words):
            assert " ".join(one[name]).split() == words


def attributes(estimator):
    """Return the names of the documented fitted attributes of a class."""
    return {
        name
        for attribute in ClassDoc(estimator)["Attributes"]
        for name in attribute.name.replace("`", "").split(", ")
    }


# What an estimator publishes if it has a parameter, under one name in all of them.
PUBLISHED = {
    "max_iter": {"n_iter_"},
    "device": {"device_"},
    "hidden_layer_sizes": {"coefs_", "intercepts_"},
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_fitted_attributes_have_one_name(estimator):
    names = attributes(estimator)
    assert {"n_features_in_", "feature_names_in_"} <= names
    if issubclass(estimator, ClusterMixin):
        assert {"labels_", "n_clusters_"} <= names
    for parameter, published in PUBLISHED.items():
        if parameter in parameters_of(estimator):
            assert published <= names
    assert not names & {"weights_", "biases_", "bias_", "loss_curve_", "centers_"}


def test_hidden_layer_sizes_are_documented_and_checked_alike():
    found = {
        documented(estimator)["hidden_layer_sizes"][0].split(", default")[0]
        for estimator in ESTIMATORS
        if "hidden_layer_sizes" in parameters_of(estimator)
    }
    assert found == {"int or array-like of int"}


# All follow scikit-learn's MLPClassifier but PRCut, whose width was there before and
# stays, since another one changes the results of its encoders.
WIDTHS = {"PRCut": (128,)}


def test_hidden_layer_sizes_have_one_default_except_in_prcut():
    found = {
        estimator.__name__: parameters_of(estimator)["hidden_layer_sizes"].default
        for estimator in ESTIMATORS
        if "hidden_layer_sizes" in parameters_of(estimator)
    }
    assert found == {name: WIDTHS.get(name, (100,)) for name in found}
    assert WIDTHS.keys() <= found.keys()
