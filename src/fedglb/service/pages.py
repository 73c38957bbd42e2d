"""The service's two pages: where the agent stands, and what the service takes and answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from string import Template
from typing import Any

from fedglb.service.openapi import VERSION

_CSS = """
:root { color-scheme: light dark; --paper: #fff; --text: #1c1c1c; --soft: #555; --line: #ddd;
  --box: #f4f6f8; --good: #00684b; --bad: #a33a00; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --text: #e6e6e6; --soft: #b0b5bb;
  --line: #343a42; --box: #1d2228; --good: #4fd1a5; --bad: #ff9a66; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 46rem; background: var(--paper);
  color: var(--text); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: .2rem 0; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
p.soft { color: var(--soft); margin: .2rem 0; font-size: .9rem; }
.good { color: var(--good); } .bad { color: var(--bad); } .good, .bad { font-weight: 600; }
table { border-collapse: collapse; width: 100%; font-size: .95rem; }
th, td { padding: .35rem .5rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
pre { overflow-x: auto; padding: .7rem; background: var(--box); font-size: .8rem; }
a { color: inherit; }
"""
_SHELL = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
$head<title>$title</title>
<style>$css</style>
</head>
<body>
<h1>$title</h1>
$main
</body>
</html>
""")


def status_page(
    about: Mapping[str, str],
    status: Mapping[str, object],
    requests: Mapping[tuple[str, str], int],
    uptime: float,
) -> str:
    """Return the page of an agent's status: totals only, nothing of any decision."""
    rows = _rows({**about, **{name: _shown(value) for name, value in status.items()}})
    counts = "".join(
        f'<tr><td>{escape(path)}</td><td class="n">{escape(code)}</td><td class="n">{n:,}</td></tr>'
        for (path, code), n in sorted(requests.items())
    )
    main = f"""<p class="{_verdict(about, status)[0]}">{escape(_verdict(about, status)[1])}</p>
<table id="status">{rows}</table>
<h2>Requests</h2>
<table id="requests"><thead><tr><th>path</th><th class="n">status</th>
<th class="n">answered</th></tr></thead><tbody>{counts}</tbody></table>
<p class="soft">Up for {_duration(uptime)}; fedglb {escape(VERSION)}; this page loads itself
again every 5 seconds. <a href="/docs">What the service takes and answers</a>.</p>"""
    title = f"Agent {about.get('client', '')}".strip()
    refresh = '<meta http-equiv="refresh" content="5">\n'
    return _SHELL.substitute(title=escape(title), css=_CSS, head=refresh, main=main)


def docs_page(described: Mapping[str, Any]) -> str:
    """Return an OpenAPI description as a page."""
    parts = []
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2>")
            parts.append(f"<p>{escape(operation['summary'])}</p>")
            parts.append(f"<p class='soft'>{escape(operation.get('description', ''))}</p>")
            body = operation.get("requestBody", {}).get("content", {})
            parts += [f"<p>Takes {_named(body)}</p>"] if body else []
            answers = operation["responses"]
            parts.append(f"<p>Answers {_named(answers['200']['content'])}</p>")
            refused = [code for code in answers if code != "200"]
            parts += [f"<p class='soft'>Refuses with {', '.join(refused)}</p>"] if refused else []
    parts.append("<h2>Messages</h2>")
    for name, schema in described["components"]["schemas"].items():
        text = json.dumps(schema, indent=1, ensure_ascii=False)
        parts.append(
            f"<h3 id='{escape(name)}'>{escape(name)}</h3>"
            f"<p>{escape(schema.get('description', '').partition(chr(10))[0])}</p>"
            f"<details><summary>schema</summary><pre>{escape(text)}</pre></details>"
        )
    main = "\n".join(
        ["<p class='soft'><a href='/openapi.json'>/openapi.json</a>, as a page</p>", *parts]
    )
    return _SHELL.substitute(title=escape(described["info"]["title"]), css=_CSS, head="", main=main)


def _rows(pairs: Mapping[str, str]) -> str:
    cells = (f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in pairs.items())
    return "".join(cells)


def _verdict(about: Mapping[str, str], status: Mapping[str, object]) -> tuple[str, str]:
    """Return how it is, as a class and a sentence."""
    if status.get("refused") is not None:
        return "bad", "The coordinator refuses this agent: it goes on alone."
    if "federation" not in about:
        return "good", "The agent answers; it is in no federation."
    if not status.get("connected"):
        return "bad", "The agent answers, without a connection to its federation."
    if not status.get("admitted"):
        return "bad", "The agent answers; the coordinator has not admitted it yet."
    return "good", "The agent answers, as a member of its federation."


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):  # the privacy
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    return "none" if value is None else str(value)


def _named(content: Mapping[str, Any]) -> str:
    names: Sequence[str] = [
        f"<a href='#{escape(name)}'>{escape(name)}</a> ({escape(kind)})" if name else escape(kind)
        for kind, part in content.items()
        for name in [part.get("schema", {}).get("$ref", "").rpartition("/")[2]]
    ]
    return " or ".join(names)


def _duration(seconds: float) -> str:
    minutes = int(seconds) // 60
    days, hours = minutes // 1440, minutes // 60 % 24
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min {int(seconds) % 60} s"
