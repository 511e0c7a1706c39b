"""Sphinx configuration; the build needs no network, and neither does the result."""

import os
import sys
import warnings
from pathlib import Path
from time import process_time


ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

# The first example is not to be timed for what all of them load.
import matplotlib.pyplot  # noqa: E402, F401
import sklearn.cluster  # noqa: E402, F401
import torch  # noqa: E402, F401

import skdiffclust  # noqa: E402

project = "skdiffclust"
author = "the skdiffclust developers"
copyright = "2026, the skdiffclust developers"
version = release = skdiffclust.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
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
    (r"py:obj", r"encoder_"),  # a property in a list of attributes has no page
    (r"py:.*", r"(sklearn|scipy|numpy|torch|matplotlib|joblib)\..*"),
    (r"py:.*", r"pickle|functools\..*"),
]

html_theme = "pydata_sphinx_theme"
html_theme_options = {"navigation_with_keys": False, "secondary_sidebar_items": []}
html_sidebars = {"index": []}

autosummary_generate = True
numpydoc_show_class_members = False

SECONDS = {}

# A warning in an example is an error in the build, as it is in the tests.
warnings.filterwarnings("error", module="__main__")


def time_example(gallery_conf, name, when):
    """Take the processor's time before and after each example."""
    SECONDS[name] = process_time() - (SECONDS[name] if when == "after" else 0.0)


# The function below cannot be kept between builds, which only makes them slower.
suppress_warnings = ["config.cache"]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"[\\/]plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib", time_example),
    "reset_modules_order": "both",
}


def print_example_times(app, env):
    """Print the processor seconds of each example that ran."""
    print("seconds:", {name: round(time, 2) for name, time in SECONDS.items()})


def setup(app):
    """Connect what prints the times."""
    app.connect("env-updated", print_example_times)
