"""Sphinx's configuration; `make docs` builds the site from the root of the repository."""

import importlib
import inspect
import os
import re
import shutil
import sys
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert_to_element
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

SOURCES = str(Path(__file__).parents[2] / "src")
sys.path.insert(0, SOURCES)
os.environ["PYTHONPATH"] = SOURCES  # notebooks run in other processes

import fedglb  # noqa: E402
import fedglb.typing  # noqa: E402

logger = logging.getLogger(__name__)
project = "fedglb"
release = version = fedglb.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = ["*.md", "benchmarks/*.md", "docs/*.md", "docs/*.rst", "docs/tutorial/*.py"]

# Markdown: formulas between dollars, links to headings as code hosts have them.
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_timeout = -1
nb_execution_raise_on_error = True
nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}

# Docstrings: text between backticks is code, and a link where it is a public name.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_type_aliases = {name: name for name in vars(fedglb.typing) if name.endswith("Array")}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False  # types are in the signature
napoleon_use_rtype = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"fedglb {release}"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = html_show_sphinx = html_show_copyright = False

NAVIGATION = """
```{toctree}
:hidden:

Start <self>
docs/tutorial/first_steps
docs/tutorial/own_choice_rule
docs/tutorial/week_of_shadow
docs/applications
docs/records
docs/decisions
docs/operate
docs/privacy
docs/research
docs/own_parts
docs/strategies
docs/data
docs/api
docs/reference
docs/theory
docs/results
docs/architecture
CONTRIBUTING
CHANGELOG
Benchmarks <benchmarks/RESULTS>
```
"""


def add_to_source(app: Sphinx, page: str, text: list[str]) -> None:
    """Let examples be downloads, and append the navigation and the API reference."""
    text[0] = text[0].replace("](../examples/", "](path:../examples/")  # a program, no page
    if page == root_doc:
        text[0] += NAVIGATION
    if page == "docs/api":
        rooms: dict[str, list[str]] = {}
        for name in sorted(fedglb.__all__, key=str.lower):
            thing = getattr(fedglb, name)
            if inspect.isclass(thing) or inspect.isroutine(thing):
                rooms.setdefault(thing.__module__.split(".")[1], []).append(name)
        for room, names in sorted(rooms.items()):
            summary = (inspect.getdoc(importlib.import_module(f"fedglb.{room}")) or "").split("\n")
            text[0] += f"\n{room}\n{'-' * len(room)}\n\n{summary[0]}\n"
            for name in names:
                kind = "class" if inspect.isclass(getattr(fedglb, name)) else "function"
                text[0] += f"\n.. auto{kind}:: fedglb.{name}\n" + "   :members:\n" * (
                    kind == "class"
                )


def mathml(tex: str, node: nodes.Element, display: str) -> str:
    """Return a formula as MathML, which browsers draw without a script or a font of ours."""
    tex = re.sub(r"(?<!\\left)(?<!\\right)\\l([vV]ert)(?![a-zA-Z])", r"\\left\\l\1", tex)
    tex = re.sub(r"(?<!\\left)(?<!\\right)\\r([vV]ert)(?![a-zA-Z])", r"\\right\\r\1", tex)
    made = convert_to_element(tex.replace(r"\arg", r"\operatorname{arg}"), display=display)
    for each in made.iter():
        each.text = unescape(each.text or "")  # the converter writes characters by number
        if each.tag == "mi" and each.text in "⪯⪰":
            each.tag = "mo"
    for each in made.iter("msup"):
        if each[1].text in ("′", "″"):  # fonts have primes raised already
            each.tag, each[1].tag = "mrow", "mo"
            each[1].attrib |= {"lspace": "0", "rspace": "0"}
    text = ElementTree.tostring(made, encoding="unicode", short_empty_elements=False)
    if "\\" in text:
        logger.warning("the formula %s has a command without MathML", tex, location=node)
    return text


def inline(self, node: nodes.math) -> None:
    """Write a formula within a sentence."""
    self.body.append(mathml(node.astext(), node, "inline"))
    raise nodes.SkipNode


def block(self, node: nodes.math_block) -> None:
    """Write a formula on its own line, with its number at the end."""
    tex, _, tag = node.astext().partition(r"\tag{")
    number = f'<span class="tag">({tag.partition("}")[0]})</span>' if tag else ""
    self.body.append(f'<div class="formula">{mathml(tex, node, "block")}{number}</div>\n')
    raise nodes.SkipNode


class Bars(SphinxTransform):
    """Take |z| for a modulus: nothing here uses reStructuredText's substitutions."""

    default_priority = 100  # before these are looked up

    def apply(self, **_: object) -> None:
        """Put the text back as it was."""
        for node in [*self.document.findall(nodes.substitution_reference)]:
            node.replace_self(nodes.Text(f"|{node.astext()}|"))


def plain_aliases(app, what, name, thing, options, signature, returns):
    """Write aliases of types by their names where Sphinx writes its own class around them."""
    wrapped = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
    return tuple(text and wrapped.sub(r"\1", text) for text in (signature, returns))


def start_page(app: Sphinx, error: Exception | None) -> None:
    """Let the start page be index.html, too."""
    if not error:
        shutil.copy(app.outdir / f"{root_doc}.html", app.outdir / "index.html")


def setup(app: Sphinx) -> None:
    """Let Sphinx use what is above."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.add_transform(Bars)
    app.connect("source-read", add_to_source)
    app.connect("autodoc-process-signature", plain_aliases)
    app.connect("build-finished", start_page)
