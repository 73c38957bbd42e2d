"""Formulas become MathML when the site is built: browsers set it themselves, without a script."""

from __future__ import annotations

import re
from html import unescape
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert_to_element
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)
TAG = re.compile(r"\\tag\{([^}]*)\}")
#: What the converter does not know, or takes for a sign between two things, in what it knows.
SPELT = {
    r"\arg": r"\operatorname{arg}",
    r"\lvert": r"\left\lvert",
    r"\rvert": r"\right\rvert",
    r"\lVert": r"\left\lVert",
    r"\rVert": r"\right\rVert",
}
_KNOWN = re.compile(r"(?<!\\left)(?<!\\right)\\(?:arg|[lr][vV]ert)(?![a-zA-Z])")
PRIMES = {"′", "″"}
RELATIONS = {"⪯", "⪰"}


def mathml(tex: str, node: nodes.Element, *, block: bool) -> str:
    """Return a formula as MathML; warn of commands that are not known, which fails the build."""
    spelt = _KNOWN.sub(lambda match: SPELT[match[0]], tex)
    made = convert_to_element(spelt, display="block" if block else "inline")
    for each in made.iter():
        each.text = unescape(each.text or "")  # the converter writes characters by number
    for each in made.iter():
        if each.tag == "mi" and each.text in RELATIONS:
            each.tag = "mo"
        if each.tag == "msup" and each[1].text in PRIMES:
            # Fonts have primes raised already, and browsers would make them smaller once more.
            each.tag, each[1].tag = "mrow", "mo"
            each[1].attrib |= {"lspace": "0", "rspace": "0"}
    text = ElementTree.tostring(made, encoding="unicode", short_empty_elements=False)
    if "\\" in text:
        logger.warning("the formula %s has a command without MathML", tex, location=node)
    return text


def inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a sentence."""
    self.body.append(mathml(node.astext(), node, block=False))
    raise nodes.SkipNode


def block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own, with its number at the end of the line."""
    tex, tag = node.astext(), ""
    if tagged := TAG.search(tex):
        tex, tag = TAG.sub("", tex), f'<span class="tag">({tagged[1]})</span>'
    made = mathml(tex, node, block=True)
    self.body.append(f'<div class="formula">{made}{tag}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx write formulas with the functions above."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
