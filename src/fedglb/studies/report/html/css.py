"""How the page looks: wide and narrow, light and dark, on screen and in print."""

#: Below this width figures are those for narrow screens.
NARROW = "(max-width: 640px)"
DARK = "(prefers-color-scheme: dark)"
CSS = (
    (
        """
:root { color-scheme: light dark; --paper: #fff; --text: #1c1c1c; --soft: #555; --line: #ddd;
  --strong: #888; --box: #f4f6f8; --lead: #0072b2; --lead-box: #eef5fa; --holds: #00684b;
  --fails: #a33a00; --undecided: #6b5200; }
@media DARK { :root { --paper: #14171b; --text: #e6e6e6; --soft: #b0b5bb;
  --line: #343a42; --strong: #77808a; --box: #1d2228; --lead: #4da6e0; --lead-box: #17242f;
  --holds: #4fd1a5; --fails: #ff9a66; --undecided: #e2c15a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 60rem; background: var(--paper);
  color: var(--text); overflow-wrap: break-word;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
.look { margin: 0 0 1rem; padding: .6rem .9rem; border: 1px solid var(--undecided);
  border-radius: 4px; font-size: .92rem; }
header p.kind { margin: 0; color: var(--soft); font-size: .9rem; }
h1 { margin: .1rem 0 1rem; font-size: 1.7rem; line-height: 1.25; }
h2 { margin: 2.6rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line);
  font-size: 1.25rem; }
h3 { margin: 1.4rem 0 .4rem; font-size: 1rem; }
.headline { margin: 0 0 1rem; padding: .9rem 1.1rem; border-left: 5px solid var(--lead);
  background: var(--lead-box); font-size: 1.2rem; font-weight: 600; line-height: 1.4; }
figure { margin: 1.6rem 0; break-inside: avoid; }
figure img { display: block; width: 100%; height: auto; }
figcaption { margin-top: .4rem; color: var(--soft); font-size: .88rem; }
.wide { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .86rem; line-height: 1.4; }
th, td { padding: .32rem .65rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
thead th { border-bottom: 2px solid var(--strong); white-space: nowrap; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.pairs th { font-weight: 600; white-space: nowrap; }
.pairs td { overflow-wrap: anywhere; }
.results { font-size: .78rem; }
.results th, .results td { padding: .25rem .34rem; }
.results td:first-child { white-space: nowrap; }
.results th:first-child, .results td:first-child { position: sticky; left: 0;
  background: var(--paper); }
.claim { margin: 1rem 0; padding: .8rem 1rem; border: 1px solid var(--line); border-radius: 4px;
  break-inside: avoid; }
.claim h3 { margin: 0; font-size: 1rem; line-height: 1.4; }
.claim p { margin: .3rem 0 0; }
.claim ul { margin: .4rem 0 0; padding-left: 1.2rem; font-size: .88rem; }
.claim li::first-letter { text-transform: uppercase; }
.claim details { margin: .4rem 0 0; color: var(--soft); font-size: .82rem; }
.claim summary { font-weight: 400; }
.verdict { font-weight: 700; }
.why { color: var(--text); font-size: .9rem; font-variant-numeric: tabular-nums; }
.holds { color: var(--holds); } .fails { color: var(--fails); } .open { color: var(--soft); }
.undecided { color: var(--undecided); font-style: italic; }
details { margin: .6rem 0; } summary { cursor: pointer; font-weight: 600; }
code { font-size: .9em; overflow-wrap: anywhere; }
pre { overflow-x: auto; padding: .8rem; background: var(--box); font-size: .8rem;
  line-height: 1.4; }
@media NARROW { body { padding: 1rem .75rem 3rem; font-size: 15px; } h1 { font-size: 1.35rem; }
  .headline { padding: .7rem .8rem; font-size: 1.05rem; } figure img { max-width: 30rem; }
  .results td:first-child { white-space: normal; min-width: 7.5rem; }
  .pairs th { white-space: normal; } }
@media print { body { max-width: none; padding: 0; font-size: 11pt; }
  .wide { overflow: visible; } table { font-size: 8pt; }
  h2 { break-after: avoid; } tr { break-inside: avoid; } }
"""
    )
    .replace("NARROW", NARROW)
    .replace("DARK", DARK)
)
