"""The loader of data that do not come with scikit-learn."""

import gzip
import hashlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.datasets import _openml

from skdiffclust import _data
from skdiffclust._data import data_folder, has_data, load_data


def test_a_folder_in_the_environment_is_where_data_are(tmp_path, monkeypatch):
    X = np.arange(6, dtype=np.uint8).reshape(3, 2)
    np.savez(tmp_path / "few.npz", X=X, y=np.array([0, 1, 0]))
    monkeypatch.setenv("SKDIFFCLUST_DATA", str(tmp_path))
    assert has_data("few")
    samples, classes = load_data("few")
    assert samples.dtype == np.uint8
    np.testing.assert_array_equal(samples, X)
    np.testing.assert_array_equal(classes, [0, 1, 0])


def test_what_is_not_here_is_said_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("SKDIFFCLUST_DATA", str(tmp_path))
    assert not has_data("letter")
    place = re.escape(str(tmp_path / "letter.npz"))
    with pytest.raises(FileNotFoundError, match=f"'letter' is not here.*{place}.*Set"):
        load_data("letter")


def test_without_it_the_folder_is_beside_the_checkout(monkeypatch):
    monkeypatch.delenv("SKDIFFCLUST_DATA", raising=False)
    assert data_folder().parts[-2:] == ("shared", "data")


def test_the_file_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setenv("SKDIFFCLUST_DATA", str(tmp_path))
    objects = np.array([{}, {}], dtype=object)
    np.savez(tmp_path / "odd.npz", X=objects, y=np.zeros(2))
    with pytest.raises(ValueError, match="allow_pickle"):
        load_data("odd")


# Recorded answers of OpenML for its data set 62, zoo, which scikit-learn's wheel holds
# for its own tests, and answers of the same form written here for a set with votes.
RECORDED = Path(sklearn.__file__).parent / "datasets/tests/data/openml/id_62"
ANSWERS = {
    "/api/v1/json/data/62": "api-v1-jd-62.json.gz",
    "/api/v1/json/data/features/62": "api-v1-jdf-62.json.gz",
    "/api/v1/json/data/qualities/62": "api-v1-jdq-62.json.gz",
    "/data/v1/download/52352/zoo.arff": "data-v1-dl-52352.arff.gz",
}


@pytest.fixture
def openml(tmp_path, monkeypatch):
    """Serve {path: bytes} on this machine in the place of OpenML; return the dict."""
    answers = {}
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            answer = answers.get(self.path)
            self.send_response(404 if answer is None else 200)
            self.end_headers()
            self.wfile.write(answer or b"")

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    host = f"http://127.0.0.1:{server.server_port}"
    for path, name in ANSWERS.items():
        text = gzip.decompress((RECORDED / name).read_bytes()).decode()
        text = text.replace(r"https:\/\/www.openml.org", host.replace("/", r"\/"))
        answers[path] = text.encode()
    for name in ("_DATA_INFO", "_DATA_FEATURES", "_DATA_QUALITIES"):
        address = getattr(_openml, name).replace("https://www.openml.org", host)
        monkeypatch.setattr(_openml, name, address)
    monkeypatch.setattr(_openml.time, "sleep", lambda seconds: None)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("SKDIFFCLUST_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("SKDIFFCLUST_DOWNLOAD", "1")
    answers["asked"] = asked
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield answers
    server.shutdown()
    thread.join()
    server.server_close()


needs_recorded = pytest.mark.skipif(
    not RECORDED.is_dir(), reason="scikit-learn is installed without its tests"
)


@needs_recorded
def test_what_the_folder_lacks_comes_from_openml(openml, monkeypatch):
    assert has_data("zoo")
    X, y = load_data("zoo")
    assert X.shape == (101, 16)
    assert X.dtype == np.float64
    assert np.bincount(y).max() == 41
    np.testing.assert_array_equal(
        X[0], [1, 0, 0, 1, 0, 0, 1, 1, 1, 1, 0, 0, 4, 0, 0, 1]
    )
    n_asked = len(openml["asked"])
    assert n_asked > 2
    load_data("zoo")  # from scikit-learn's cache
    assert len(openml["asked"]) == n_asked


@needs_recorded
def test_without_permission_nothing_is_fetched(openml, monkeypatch):
    monkeypatch.delenv("SKDIFFCLUST_DOWNLOAD")
    assert not has_data("zoo")
    with pytest.raises(FileNotFoundError, match="or SKDIFFCLUST_DOWNLOAD=1 to fetch"):
        load_data("zoo")
    assert openml["asked"] == []


@needs_recorded
def test_a_file_in_the_folder_comes_first(openml, tmp_path, monkeypatch):
    np.savez(tmp_path / "zoo.npz", X=np.eye(2), y=np.arange(2))
    monkeypatch.setenv("SKDIFFCLUST_DATA", str(tmp_path))
    assert len(load_data("zoo")[0]) == 2
    assert openml["asked"] == []


FEATURES = "/api/v1/json/data/features/62"
ARFF = "/data/v1/download/52352/zoo.arff"


@needs_recorded
@pytest.mark.parametrize(
    "path, old, new, match",
    [
        (
            FEATURES,
            r'("name":"catsize".*?"is_ignore":)"false"',
            r'\1"true"',
            r"a shape of \(101, 16\). Got \(101, 15\)",
        ),
        (ARFF, "(wren,.*),bird", r"\1,fish", "classes of sizes of .* 20, 13"),
        (ARFF, "(wren,.*),2,", r"\1,3,", "a sha256 of"),
    ],
)
def test_other_samples_are_refused(openml, path, old, new, match):
    changed, n = re.subn(old, new, openml[path].decode())
    assert n == 1
    openml[path] = changed.encode()
    # The checksum of the description is that of the file.
    about = openml["/api/v1/json/data/62"].decode()
    md5 = hashlib.md5(openml[ARFF], usedforsecurity=False).hexdigest()
    about = re.sub(r'("md5_checksum":)"\w+"', rf'\1"{md5}"', about)
    openml["/api/v1/json/data/62"] = about.encode()
    with pytest.raises(
        ValueError, match=f"OpenML's data set 62 must be 'zoo'.*{match}"
    ):
        load_data("zoo")


@needs_recorded
def test_no_answer_is_an_error_of_the_network(openml):
    openml.pop(ARFF)
    with (
        pytest.warns(UserWarning, match="network error occurred"),
        pytest.raises(OSError, match="404"),
    ):
        load_data("zoo")


def test_votes_are_recoded():
    codes = np.array([[0.0, 1.0, np.nan]])
    np.testing.assert_array_equal(_data._votes(codes), [[-1, 1, 0]])


def test_the_table_describes_the_files(shared_data):
    for name, source in _data._SOURCES.items():
        X, y = shared_data(name)
        assert X.dtype == source.dtype
        _data._check(name, X, y)
        # Names of classes and the order of samples do not matter, but members do.
        letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
        _data._check(name, X[::-1], letters[y[::-1]])
        y[0] = (y[0] + 1) % (y.max() + 1)
        with pytest.raises(ValueError, match="must be"):
            _data._check(name, X, y)


@pytest.mark.network
@pytest.mark.parametrize(
    "name", [n for n, s in _data._SOURCES.items() if s.data_id is not None]
)
def test_openml_has_the_samples(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SKDIFFCLUST_DATA", str(tmp_path))
    monkeypatch.setenv("SKDIFFCLUST_DOWNLOAD", "1")
    load_data(name)  # checks shape, classes and sha256
