"""The page around its parts."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from string import Template

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$federation · federation</title>
<link rel="icon" href="/icon.svg">
<link rel="stylesheet" href="/page.css">
<script src="/page.js" defer></script>
</head>
<body>
<header>
<div class="top"><h1>$federation</h1><div id="state" role="status">$state</div></div>
<p class="soft" id="about">$about</p>
<p class="soft"><span id="clock">$clock</span> <span id="live"></span></p>
</header>
<main>
<section class="alarms" aria-label="Alarms" aria-live="polite">
<div id="alarms">$alarms</div></section>
<section aria-label="Totals"><div id="totals" class="tiles">$totals</div></section>
<div class="pair">
<section><h2>Samples in the model over time</h2><div id="updates-figure">$updates_figure</div>
<h2>How long updates took</h2><div id="duration-figure">$duration_figure</div>
<p class="soft">A dot is a global update; a ring, one without some of the clients.</p></section>
<section><h2>Samples per client</h2><div id="samples-figure">$samples_figure</div></section>
</div>
<section><h2>Clients <span class="soft" id="members-count">$members_count</span></h2>
<p class="filter" hidden><label>Show <input id="filter" type="search" placeholder="all clients"
autocomplete="off" spellcheck="false"></label>
<label><input id="absent" type="checkbox"> only absent</label></p>
<div id="members" class="table tall" tabindex="0">$members</div></section>
<section><h2>Last updates</h2><div id="updates" class="table">$updates</div></section>
<section><h2>Events</h2><div id="events" class="log">$events</div></section>
<section><details><summary>Certificates, the next to end first</summary>
<div id="certificates" class="table">$certificates</div></details></section>
</main>
<footer class="soft">No sample and no model is shown here.
<a href="/status.json">status.json</a> · <a href="/metrics">metrics</a></footer>
</body>
</html>
""")


def document(federation: str, parts: Mapping[str, str]) -> str:
    """Return the page with its parts as they are now."""
    named = {name.replace("-", "_"): html for name, html in parts.items()}
    return _PAGE.substitute(federation=escape(federation), **named)
