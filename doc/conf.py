"""Sphinx configuration.

The result needs no network. The build asks only for the inventories of the projects
that it links to, and not at all with SKDIFFCLUST_INTERSPHINX=0.
"""

import ast
import os
import re
import sys
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path
from time import process_time

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / ".ci")]

# The first example is not to be timed for what all of them load.
import matplotlib.pyplot  # noqa: E402
import sklearn.cluster  # noqa: E402, F401
import torch  # noqa: E402, F401
from cycler import cycler  # noqa: E402
from module_map import write_pages  # noqa: E402

import skdiffclust  # noqa: E402

project = "skdiffclust"
author = "the skdiffclust developers"
copyright = "2026, the skdiffclust developers"
version = release = skdiffclust.__version__

# Everything that needs a published address hangs on this variable: the version
# switcher, the edit links, the canonical and open-graph addresses. The tests compare
# [project.urls] in pyproject.toml and _doc_link_template with it. Empty until there is
# one; then {"site": "https://...", "repository": "https://..."}, without final slashes.
PUBLISHED = {}

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_design",
    "matplotlib.sphinxext.figmpl_directive",
    "matplotlib.sphinxext.plot_directive",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
# The gallery's own pages of running times ask a content network for their tables.
exclude_patterns = ["_build", "sg_execution_times.rst", "**/sg_execution_times.rst"]

# Every reference to a name or page of ours must resolve. The documentation of others is
# not asked for theirs, since the build needs no network.
nitpicky = True
nitpick_ignore_regex = [
    # Properties in lists of attributes have no pages of their own.
    (r"py:obj", r"encoder_|edges|lengths"),
    (r"py:.*", r"(sklearn|scipy|numpy|torch|matplotlib|joblib)\..*"),
    (r"py:.*", r"pickle|tempfile|functools\..*"),
]

# Links to the documentation of others. Without a network (the gate has none), set
# SKDIFFCLUST_INTERSPHINX=0; their names then are plain text.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "scipy": ("https://docs.scipy.org/doc/scipy", None),
    "sklearn": ("https://scikit-learn.org/stable", None),
    "matplotlib": ("https://matplotlib.org/stable", None),
    "joblib": ("https://joblib.readthedocs.io/en/stable", None),
    "torch": ("https://docs.pytorch.org/docs/stable", None),
}
if os.environ.get("SKDIFFCLUST_INTERSPHINX") == "0":
    intersphinx_mapping = {}

html_theme = "pydata_sphinx_theme"
html_title = "skdiffclust"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["skdiffclust.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {
        "image_light": "_logo/logo.svg",
        "image_dark": "_logo/logo_dark.svg",
        "text": "skdiffclust",
        "alt_text": "",  # the text beside it says the name
    },
    "navigation_with_keys": False,
    "header_links_before_dropdown": 5,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# Pages without pages below them have no use for an empty list of these on the left.
html_sidebars = {
    page: []
    for page in (
        "index",
        "getting_started",
        "which_method",
        "coming_from*",
        "contract",
        "reliability",
        "notation",
        "add_*",
        "whats_new",
        "contributing",
        "map/*",
    )
}
if PUBLISHED:
    html_baseurl = f"{PUBLISHED['site']}/stable/"
    html_theme_options |= {
        "icon_links": [
            {
                "name": "Repository",
                "url": PUBLISHED["repository"],
                "icon": "fa-brands fa-github",
            }
        ],
        "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
        "secondary_sidebar_items": {"**": ["page-toc", "edit-this-page"], "index": []},
        "switcher": {
            "json_url": f"{PUBLISHED['site']}/versions.json",
            "version_match": "dev" if ".dev" in version else version,
        },
        "use_edit_page_button": True,
    }
    html_context = {
        "edit_page_url_template": f"{PUBLISHED['repository']}/edit/main/doc/"
        "{{ file_name }}",
        "edit_page_provider_name": "the repository",
        "open_graph_image": f"{PUBLISHED['site']}/stable/_static/logo.svg",
    }

autosummary_generate = True
# The docstrings say what parameters may be.
autodoc_typehints = "none"
# The contents of a page of the API name a method, not its class again.
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
viewcode_line_numbers = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
plot_formats = [("png", 100)]
plot_srcset = ["2x"]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_include_source = True
# Pages write files, which are not to be left in the project.
plot_working_directory = tempfile.mkdtemp()

# One style for all pictures, whose ten colours can be told apart with any colour
# vision. Examples colour clusters by "C0", "C1" and so on, the same in all panels.
STYLE = {
    "axes.prop_cycle": cycler(color=matplotlib.color_sequences["petroff10"]),
    "axes.titlesize": 11,
    "font.size": 10,
}
plot_rcparams = {**STYLE, "figure.figsize": (7, 3)}

SECONDS = {}

# A warning in an example is an error in the build, as it is in the tests.
warnings.filterwarnings("error", module="__main__")


def time_example(gallery_conf, name, when):
    """Take the processor's time before and after each example."""
    SECONDS[name] = process_time() - (SECONDS[name] if when == "after" else 0.0)


def set_style(gallery_conf, name):
    """Set the style of the pictures of an example."""
    matplotlib.rcParams.update(STYLE)


# The functions cannot be kept between builds, which only makes them slower.
suppress_warnings = ["config.cache"]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"[\\/]plot_",
    "abort_on_example_error": True,
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("skdiffclust",),
    "reference_url": {"skdiffclust": None},
    "image_srcset": ["2x"],
    "thumbnail_size": (640, 448),
    "download_all_examples": False,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib", set_style, time_example),
    "reset_modules_order": "both",
}


def print_example_times(app, env):
    """Print the processor seconds of each example that ran."""
    print("seconds:", {name: round(time, 2) for name, time in SECONDS.items()})


def find_source(app, module):
    """Return the text of one of our modules, and where its names are defined.

    Sphinx's own analysis fails on a decorator with an argument of the form ``{**a}``.
    """
    if not module.startswith("skdiffclust"):
        return None
    text = Path(find_spec(module).origin).read_text(encoding="utf-8")
    tags = {}
    pending = [("", node) for node in ast.parse(text).body]
    while pending:
        prefix, node = pending.pop()
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        kind = "class" if isinstance(node, ast.ClassDef) else "def"
        tags[prefix + node.name] = (kind, first, node.end_lineno)
        pending += [(f"{prefix}{node.name}.", inner) for inner in node.body]
    return text, tags


def link_to_scikit_learn(app, what, name, obj, options, lines):
    """Turn references of inherited docstrings, which only its site has, into links.

    These are pages of its user guide, such as ``:ref:`User Guide <set_output>```, and
    terms of its glossary.
    """
    if not (getattr(obj, "__module__", None) or "").startswith("sklearn"):
        return
    site = "https://scikit-learn.org/stable"
    for i, line in enumerate(lines):
        line = re.sub(r":ref:`sphx_glr_(\w+)_(plot_\w+)\.py`", example_link, line)
        line = re.sub(r":ref:`([^`<]*?)\s*<(\w+)>`", rf"`\1 <{site}/\2.html>`__", line)
        lines[i] = re.sub(r":(?:term|ref):`([^`<]*?)(?:\s*<[^>]*>)?`", r"\1", line)


def example_link(match):
    """Return a link to an example of scikit-learn's gallery."""
    folder = match[1].removeprefix("auto_examples_")
    address = f"https://scikit-learn.org/stable/auto_examples/{folder}/{match[2]}.html"
    return f"`an example of scikit-learn <{address}>`__"


def let_names_break(app, pagename, templatename, context, doctree):
    """Let long names break after dots, underscores and the like, not inside words.

    These are the names in headings, in code and in the types of parameters.
    """

    def with_breaks(match):
        return re.sub(r"([._=/(])(?=[\w\"'])(?![^<]*>)", r"\1<wbr>", match[0])

    names = r"(?s)<h([12])>.*?</h\1>|(?<=\"pre\">)[^<\s]{24,}|(?<=\"classifier\">)[^<]+"
    context["body"] = re.sub(names, with_breaks, context.get("body", ""))


def write_maps(app):
    """Write the lists of modules and the paths of X that the pages in map include."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_pages(Path(app.srcdir) / "generated")


def setup(app):
    """Connect the functions above to their events."""
    app.connect("builder-inited", write_maps)
    app.connect("env-updated", print_example_times)
    app.connect("autodoc-process-docstring", link_to_scikit_learn)
    app.connect("viewcode-find-source", find_source)
    app.connect("html-page-context", let_names_break)
