"""The script that reads the built documentation finds what is wrong with a page."""

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


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ("A dot", "A dot", None),
        ("<title>A page</title>", "", "has no title"),
        ('<html lang="en">', "<html>", "does not say its language"),
        ("<h1 ", "<h1>A</h1><h1 ", "has 2 main headings instead of one"),
        ('alt="A dot"', 'alt=" "', "without alternative text: data:image"),
        ("two.png 2.00x", "three.png 2.00x", "file is missing: three.png"),
        ("style.css", "https://cdn.org/a.css", "of another host: https://cdn.org"),
        ("caf%C3%A9", "tea", "no such place on the page: folder/index.html#tea"),
        ('"folder/"', '"elsewhere/"', "link leads nowhere: elsewhere/"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, old, new, problem):
    specification = importlib.util.spec_from_file_location("check_html", SCRIPT)
    check = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(check)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "index.html").write_text(OTHER, encoding="utf-8")
    for name in ("one.png", "two.png", "style.css"):
        (tmp_path / name).touch()
    (tmp_path / "page.html").write_text(GOOD.replace(old, new), encoding="utf-8")
    found, n_pages = check.problems(tmp_path)
    assert n_pages == 2
    assert [name for name, _ in found] == ([] if problem is None else ["page.html"])
    assert problem is None or problem in found[0][1]
    assert bool(check.main(tmp_path)) == bool(found)
