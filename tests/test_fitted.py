"""Fitted state: replaced as a whole by a fit, read as a whole by every method."""

import inspect
import sys
import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs

import skdiffclust
from skdiffclust import (
    GEMINI,
    ClAM,
    PRCut,
    SpanningForestClustering,
    SpanningForestEmbedding,
    SparseGEMINI,
    SparseGEMINICV,
)
from skdiffclust._fitted import draft_of, publish, reads_whole

PACKAGE = skdiffclust.__file__.removesuffix("__init__.py")
# Each is refitted with the other number of features and of clusters.
ESTIMATORS = {
    "ClAM": ClAM(2, n_init=2, random_state=0),
    "ClAM-deep": ClAM(2, n_init=2, encoder="mlp", max_iter=5, random_state=0),
    "GEMINI": GEMINI(2, mode="ovo", n_init=1, random_state=0),
    "PRCut": PRCut(2, encoder="mlp", n_init=2, max_iter=5, random_state=0),
    "PRCut-free": PRCut(2, encoder=None, n_init=2, random_state=0),
    "SpanningForestClustering": SpanningForestClustering(2),
    "SpanningForestEmbedding": SpanningForestEmbedding(
        2, n_components=2, max_iter=2, n_perturbations=4, random_state=0
    ),
    "SparseGEMINI": SparseGEMINI(2, mode="ovo", n_init=1, random_state=0),
    "SparseGEMINICV": SparseGEMINICV(
        2, n_alphas=2, n_resamples=2, n_init=1, learning_rate=0.1, random_state=0
    ),
}
# They take few epochs by choice.
UNFINISHED = {"ClAM-deep", "SpanningForestEmbedding"}
# What fits, what belongs to scikit-learn's configuration, and what reads nothing.
WRITERS = {"fit", "fit_predict", "fit_transform", "partial_fit", "path"}
CONFIGURATION = {"get_params", "set_params", "set_callbacks", "set_output"} | {
    "get_metadata_routing"
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.few_epochs] * (name in UNFINISHED))
        for name in ESTIMATORS
    ],
)
def models(request):
    """Return two fitted models of a kind, each with samples of its own."""
    fitted = []
    for k, d in [(2, 3), (3, 5)]:
        X, y = make_blobs(60, d, centers=k, cluster_std=0.5, random_state=k)
        model = clone(ESTIMATORS[request.param]).set_params(n_clusters=k)
        if hasattr(model, "n_components"):
            model.set_params(n_components=k)
        fitted.append((model.fit(X, y), X, y))
    return fitted


def readers(estimator):
    """Return the names of the public methods that an instance has, but for fits."""
    return [
        name
        for name, _ in inspect.getmembers(type(estimator), callable)
        if not name.startswith("_")
        and hasattr(estimator, name)
        and name not in WRITERS | CONFIGURATION
        and not (name.startswith("set_") and name.endswith("_request"))
    ]


def ask(model, name, X, y):
    """Return what a method answers, or the text of the error that it raises."""
    method = getattr(model, name)
    try:
        if name in ("cut", "get_support", "get_feature_names_out"):
            return method()
        if name == "inverse_transform":
            return method(X[:, :1])
        if name == "score":
            return method(X, y)
        return method(X)
    except ValueError as error:
        return str(error)


def same(one, other):
    """Whether two answers are the same, bit for bit."""
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str) and one == other
    return np.array_equal(one, other)


def run_between_lines(call, act, lines):
    """Return what `call` returns, and the number of lines of our files that it ran.

    Another thread can run between any two lines, and so does `act()`, before each line
    whose number, from 1, is in `lines`.
    """
    n_lines = 0

    def trace(frame, event, arg):
        nonlocal n_lines
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            n_lines += 1
            if n_lines in lines:
                sys.settrace(None)
                act()
                sys.settrace(trace)
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        return call(), n_lines
    finally:
        sys.settrace(previous)


def some_lines(n_lines, n_wanted):
    """Return so many line numbers, and the last ones, where a fit is published."""
    spread = np.linspace(1, n_lines, n_wanted).astype(int).tolist()
    return sorted({*spread, *range(max(1, n_lines - 15), n_lines + 1)})


def test_a_draft_shares_and_is_published_whole():
    clam = ClAM(3).set_output(transform="pandas")
    clam.old_ = 1
    draft = draft_of(clam)
    assert type(draft) is ClAM
    assert vars(draft) == vars(clam)
    draft.new_, draft.n_clusters = 2, 5
    del draft.old_
    clam.set_params(n_init=1)
    publish(clam, draft)
    assert clam.new_ == 2
    assert not hasattr(clam, "old_")
    assert (clam.n_clusters, clam.n_init) == (3, 1)
    assert clam._sklearn_output_config == {"transform": "pandas"}


def test_a_publication_is_one_step_to_others():
    # Who looks sees all of the old state or all of the new one, at every line.
    clam = ClAM(3)
    clam.first_ = clam.second_ = clam.old_ = 0
    old = vars(clam).copy()
    seen = []

    def refit():
        draft = draft_of(clam)
        del draft.old_
        draft.first_ = draft.second_ = draft.new_ = 1
        publish(clam, draft)

    def look():
        seen.append({name: vars(clam).get(name) for name in (*old, "new_")})

    run_between_lines(refit, look, range(1000))
    look()
    new = old | {"first_": 1, "second_": 1, "old_": None, "new_": 1}
    assert all(state in (old | {"new_": None}, new) for state in seen)
    assert seen[0]["first_"] == 0
    assert seen[-1] == new


def test_reading_methods_keep_name_signature_and_condition():
    assert ClAM.predict.__name__ == "predict"
    assert list(inspect.signature(ClAM.score).parameters)[:3] == ["self", "X", "y"]
    assert not hasattr(PRCut(affinity="precomputed"), "predict")
    with pytest.raises(AttributeError, match="has no attribute 'predict_proba'"):
        GEMINI(model="free").predict_proba([[0.0]])


def test_reads_whole_refuses_what_is_no_method():
    with pytest.raises(AttributeError, match="foretell"):
        reads_whole("foretell")(ClAM)


def test_every_public_method_reads_whole(models):
    (model, X, y), (other, *_) = models
    public = clone(model)
    for name in readers(model):
        publish(public, model)
        answers = [ask(model, name, X, y), ask(other, name, X, y)]
        expected, n_lines = run_between_lines(
            lambda name=name: ask(public, name, X, y), None, ()
        )
        assert same(expected, answers[0])
        for line in some_lines(n_lines, 15):
            publish(public, model)
            found, _ = run_between_lines(
                lambda name=name: ask(public, name, X, y),
                lambda: publish(public, other),
                [line],
            )
            assert any(same(found, answer) for answer in answers), (name, line)


def test_predict_during_a_refit_is_of_one_model(models):
    (model, X, _), (other, X_new, y_new) = models
    name = "predict" if hasattr(model, "predict") else "transform"
    public = clone(other)
    publish(public, model)
    before, found = vars(public).copy(), []
    answers = {
        known: (ask(known, name, X, None), ask(known, name, X_new, None))
        for known in (model, other)
    }

    def look():
        state = vars(public)
        is_old = state.keys() == before.keys() and all(
            state[each] is before[each] for each in before
        )
        found.append(is_old)
        for rows, answer in zip(
            (X, X_new), answers[model if is_old else other], strict=True
        ):
            assert same(ask(public, name, rows, None), answer)

    _, n_lines = run_between_lines(lambda: public.fit(X_new, y_new), None, ())
    public.__dict__ = before.copy()
    run_between_lines(lambda: public.fit(X_new, y_new), look, some_lines(n_lines, 30))
    look()
    assert len(found) > 20
    assert found == sorted(found, reverse=True)
    assert found[0] and not found[-1]


@pytest.mark.parametrize("name", ["ClAM", "GEMINI", "SpanningForestClustering"])
def test_two_threads_predict_while_a_third_refits(name):
    sets = [make_blobs(60, d, centers=k, random_state=k) for k, d in [(2, 3), (3, 5)]]
    model = clone(ESTIMATORS[name])
    expected = [
        clone(model).set_params(n_clusters=k).fit(X).predict(X)
        for k, (X, _) in zip((2, 3), sets, strict=True)
    ]
    model.fit(sets[0][0])
    done, wrong, counts = threading.Event(), [], [0, 0]

    def predict(which):
        X, is_last = sets[which][0], False
        while not is_last:
            is_last = done.is_set()
            try:
                labels = model.predict(X)
            except ValueError as error:
                if "is expecting" not in str(error):
                    wrong.append(error)
            except Exception as error:  # any other one is what must not be
                wrong.append(error)
            else:
                counts[which] += 1
                if not np.array_equal(labels, expected[which]):
                    wrong.append(labels)

    threads = [threading.Thread(target=predict, args=(which,)) for which in (0, 1)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for i in range(1, 9):
            model.set_params(n_clusters=2 + i % 2).fit(sets[i % 2][0])
    finally:
        done.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert wrong == []
    assert counts[0] > 0
