"""The compiled numerics, each written once and used by both engines and the federation.

`compile` has the decorator `kernel`, `pointers` how kernels call links and parts by address,
`layout` the places in their arrays; `linalg`, `ball`, `scoring`, `sums` and `self_concordance` are
the arithmetic, and `play` is the loop of the compiled engine.
"""
