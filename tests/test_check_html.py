"""The script that reads the built documentation."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "check_html.py"
GOOD = """<!DOCTYPE html><html lang="en"><head><title>A page</title>
<link rel="stylesheet" href="style.css"><link rel="next" href="https://other.org/"></head>
<body><h1 id="top-of-it">A page</h1>
<img class="logo__image" src="one.png" alt="">
<img src="one.png" srcset="one.png, two.png 2.00x" alt="A scatter plot of two clusters">
<img src="data:image/png;base64,AA" alt="A dot">
<a href="#top-of-it">up</a> <a href="folder/">down</a> <a href="https://x.org/#a">out</a>
<a href="folder/index.html#caf%C3%A9">there</a> <svg><title></title></svg>
</body></html>"""
OTHER = '<html lang="en"><title>B</title><h1>B</h1><p id="café"></p></html>'


@pytest.fixture(scope="module")
def check():
    specification = importlib.util.spec_from_file_location("check_html", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def site(tmp_path):
    """Write a good page, with the files and the page that it refers to."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "index.html").write_text(OTHER, encoding="utf-8")
    for name in ("one.png", "two.png", "style.css"):
        (tmp_path / name).touch()

    def write(text):
        (tmp_path / "page.html").write_text(text, encoding="utf-8")
        return tmp_path

    return write


def test_a_good_page_has_no_problem(check, site):
    assert check.problems(site(GOOD)) == ([], 2)
    assert not check.main(site(GOOD))


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ("<title>A page</title>", "", "has no title"),
        ('<html lang="en">', "<html>", "does not say its language"),
        ("<h1 ", "<h1>A</h1><h1 ", "has 2 main headings instead of one"),
        ('alt="A dot"', "", "without alternative text: data:image"),
        ('alt="A dot"', 'alt=" "', "without alternative text: data:image"),
        ("A scatter plot of two clusters", "one", "without alternative text: one.png"),
        ("two.png 2.00x", "three.png 2.00x", "file is missing: three.png"),
        ("style.css", "lost.css", "file is missing: lost.css"),
        ("style.css", "https://cdn.org/a.css", "of another host: https://cdn.org"),
        ('"#top-of-it"', '"#bottom"', "no such place on the page: #bottom"),
        ("caf%C3%A9", "tea", "no such place on the page: folder/index.html#tea"),
        ('"folder/"', '"elsewhere/"', "link leads nowhere: elsewhere/"),
    ],
)
def test_what_is_wrong_is_named(check, site, capsys, old, new, problem):
    assert GOOD.count(old) == 1
    folder = site(GOOD.replace(old, new))
    found, n_pages = check.problems(folder)
    assert n_pages == 2
    ((name, said),) = found
    assert name == "page.html"
    assert problem in said
    assert check.main(folder)
    assert said in capsys.readouterr().out


def test_a_folder_without_pages_is_a_failure(check, tmp_path):
    assert check.main(tmp_path)
