"""What every page has around its sections: head, style, title, headline."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template

from fedglb.studies.report.html.css import CSS

_SHELL = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>$css</style>
</head>
<body>
<header>
$look
<p class="kind">$kind</p>
<h1>$title</h1>
<p class="headline">$headline</p>
<p>$sentences</p>
</header>
<main>
$main
</main>
</body>
</html>
""")


def shell(
    title: str, name: str, profile: str, look: str, headline: str, sentences: Sequence[str],
    main: str,
) -> str:  # fmt: skip
    """Return a page; `look` (its first line, may be empty) and `main` are HTML, the rest text."""
    return _SHELL.substitute(
        css=CSS,
        look=f'<p class="look">{look}</p>' if look else "",
        title=escape(title),
        kind=escape(" · ".join(filter(None, ["fedglb report", name, profile]))),
        headline=escape(headline),
        sentences=" ".join(escape(s) for s in sentences),
        main=main,
    )
