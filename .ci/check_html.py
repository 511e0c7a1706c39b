"""Read built HTML and report what a reader would stumble over.

    python .ci/check_html.py FOLDER

Without a browser: every picture exists and has an alternative text, every local link
leads to a page and to a place on it, nothing is loaded from another host, and every
page has a title, a language and one main heading. Exits with 1 and a list where that
is not so.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes whose file the browser fetches by itself, by tag.
LOADED = {
    "audio": ("src",),
    "iframe": ("src",),
    "img": ("src", "srcset"),
    "script": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
}
# Kinds of <link> that fetch a file; others, such as rel="next", are mere addresses.
LOADED_LINKS = {"stylesheet", "icon", "preload", "shortcut"}


class Page(HTMLParser):
    """What one page has: anchors, links, loaded files, pictures and headings."""

    def __init__(self, text):
        super().__init__()
        self.anchors = set()
        self.links = []
        self.loaded = []
        self.without_text = []
        self.n_headings = 0
        self.language = None
        self.title = ""
        self._in_title = False
        self._in_svg = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        """Take down one element."""
        attributes = dict(attributes)
        self._in_svg += tag == "svg"
        self.anchors |= {attributes.get("id"), attributes.get("name")} - {None}
        if tag == "html":
            self.language = attributes.get("lang")
        elif tag == "title" and not self._in_svg:
            self._in_title = True
        elif tag == "h1":
            self.n_headings += 1
        elif tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        elif tag == "link" and attributes.get("href"):
            if LOADED_LINKS & set((attributes.get("rel") or "").split()):
                self.loaded.append(attributes["href"])
        elif tag == "img" and not self._has_text(attributes):
            self.without_text.append(attributes.get("src", ""))
        for name in LOADED.get(tag, ()):
            if attributes.get(name):
                self.loaded += addresses(name, attributes[name])

    def handle_endtag(self, tag):
        """Leave the title, or a drawing, whose title is not that of the page."""
        self._in_svg -= tag == "svg"
        if tag == "title":
            self._in_title = False

    def handle_data(self, data):
        """Collect the title."""
        if self._in_title:
            self.title += data

    @staticmethod
    def _has_text(attributes):
        """Whether a picture has a text that is not its file's name, or is decoration.

        An empty text says that a picture is decoration. That is right for a logo beside
        its name and a thumbnail beside its title, and wrong for a figure.
        """
        text = attributes.get("alt")
        if text is None:
            return False
        name = Path(urlsplit(attributes.get("src", "")).path).stem
        if "logo" in (attributes.get("class") or "") or name.endswith("_thumb"):
            return True
        return bool(text.strip()) and name not in text


def addresses(name, value):
    """Return the addresses in an attribute: several in srcset, with their sizes."""
    if name != "srcset":
        return [value]
    return [part.split()[0] for part in value.split(",") if part.strip()]


def problems(folder):
    """Return a sorted list of (page, what is wrong) of all pages below a folder."""
    folder = Path(folder).resolve()
    pages = {
        path: Page(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.html"))
        # Parts of the theme that are no pages.
        if "_static" not in path.relative_to(folder).parts
    }
    found = []
    for path, page in pages.items():
        name = path.relative_to(folder).as_posix()
        found += [(name, problem) for problem in problems_of(page, path, pages)]
    return sorted(set(found)), len(pages)


def problems_of(page, path, pages):
    """Yield what is wrong with one page."""
    if not page.title.strip():
        yield "has no title"
    if not page.language:
        yield "does not say its language"
    if page.n_headings != 1:
        yield f"has {page.n_headings} main headings instead of one"
    for address in page.without_text:
        yield f"picture without alternative text: {address}"
    for address in page.loaded:
        parts = urlsplit(address)
        if parts.scheme == "data":
            continue
        if parts.scheme or parts.netloc:
            yield f"loads a file of another host: {address}"
        elif not target(path, parts.path).is_file():
            yield f"file is missing: {address}"
    for address in page.links:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        there = target(path, parts.path) if parts.path else path
        if there.is_dir():
            there = there / "index.html"
        if not there.is_file():
            yield f"link leads nowhere: {address}"
        elif parts.fragment and there in pages:
            place = unquote(parts.fragment)
            if place not in pages[there].anchors | {"", "top"}:
                yield f"no such place on the page: {address}"


def target(path, address):
    """Return the file that an address on a page means."""
    return (path.parent / unquote(address)).resolve()


def main(folder):
    """Print what is wrong; return whether something is."""
    found, n_pages = problems(folder)
    for name, problem in found:
        print(f"{name}: {problem}")
    print(f"{n_pages} pages read, {len(found)} problems")
    return bool(found) or n_pages == 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
