"""How Sphinx makes the site; `build.py` runs it."""

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

import fedglb.typing

sys.path.insert(0, str(Path(__file__).parent))

project = "fedglb"
release = version = fedglb.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml"]

# Markdown: formulas between dollars, links to headings as code hosts have them.
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4

# Notebooks: all are executed, in whatever time they need, and an error fails the build.
nb_execution_mode = "force"
nb_execution_timeout = -1
nb_execution_show_tb = True  # in a warning, and warnings fail the build
nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}

# Docstrings: what stands between backticks is code, and a link where it is a public name.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
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
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = html_show_copyright = False


class Bars(SphinxTransform):
    """Take |z| for a modulus: nothing here uses reStructuredText's substitutions."""

    default_priority = 100  # before these are looked up

    def apply(self, **_: object) -> None:
        """Put the text back as it was."""
        for node in [*self.document.findall(nodes.substitution_reference)]:
            node.replace_self(nodes.Text(f"|{node.astext()}|"))


def plain_aliases(
    app: Sphinx, what: str, name: str, thing: object, options: object, signature: str, returns: str
) -> tuple[str | None, ...]:
    """Write aliases of types by their names where Sphinx writes its own class around them."""
    wrapped = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
    return tuple(text and wrapped.sub(r"\1", text) for text in (signature, returns))


def setup(app: Sphinx) -> None:
    """Let Sphinx use what is above."""
    app.add_transform(Bars)
    app.connect("autodoc-process-signature", plain_aliases)
