"""Errors in the selection of variables."""

import numpy as np


def variable_selection_error_rate(support_true, support) -> float:
    """Fraction of features that are wrongly selected or wrongly dropped (VSER).

    Parameters
    ----------
    support_true : array-like of shape (n_features,)
        Boolean mask of the informative features.
    support : array-like of shape (n_features,)
        Boolean mask of the selected features, e.g. from ``get_support()``.

    Returns
    -------
    float
        Between 0 and 1; smaller is better.

    Raises
    ------
    ValueError
        If the masks are not boolean or differ in length.

    See Also
    --------
    correct_variable_rate : Considers the informative features only.

    References
    ----------
    Celeux et al. Comparing model selection and regularization approaches to variable
    selection in model-based clustering. Journal de la SFdS 155(2), 2014.

    Examples
    --------
    >>> from skdiffclust.metrics import variable_selection_error_rate
    >>> variable_selection_error_rate([True, True, False, False], [True, False] * 2)
    0.5
    """
    support_true, support = _check_supports(
        support_true, support, "variable_selection_error_rate"
    )
    return float(np.mean(support_true != support))


def correct_variable_rate(support_true, support) -> float:
    """Fraction of the informative features that are selected (CVR).

    Parameters
    ----------
    support_true : array-like of shape (n_features,)
        Boolean mask of the informative features, of which there must be at least one.
    support : array-like of shape (n_features,)
        Boolean mask of the selected features, e.g. from ``get_support()``.

    Returns
    -------
    float
        Between 0 and 1; larger is better. Selecting all features scores 1.

    Raises
    ------
    ValueError
        If the masks are not boolean or differ in length, or no feature is informative.

    See Also
    --------
    variable_selection_error_rate : Also counts features selected by mistake.

    Examples
    --------
    >>> from skdiffclust.metrics import correct_variable_rate
    >>> correct_variable_rate([True, True, False, False], [True, False] * 2)
    0.5
    """
    name = "correct_variable_rate"
    support_true, support = _check_supports(support_true, support, name)
    if not support_true.any():
        raise ValueError(
            f"The 'support_true' parameter of {name} must contain at least one "
            "informative feature. Got none instead."
        )
    return float(np.mean(support[support_true]))


def _check_supports(support_true, support, caller):
    """Return two boolean arrays (d,) of one length."""
    arrays = np.asarray(support_true), np.asarray(support)
    for name, array in zip(("support_true", "support"), arrays, strict=True):
        if array.ndim != 1 or array.dtype != bool or array.shape != arrays[0].shape:
            raise ValueError(
                f"The {name!r} parameter of {caller} must contain one boolean per "
                f"feature. Got dtype {array.dtype} and shape {array.shape} instead. "
                "Use get_support() of a selector."
            )
    return arrays
