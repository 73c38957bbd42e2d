"""The compiled numerics, each written once and used by both engines and the federation.

`compile` has the decorator `kernel`, `pointers` how kernels call links and parts by address,
`layout` the places in their arrays; `linalg`, `ball`, `scoring`, `sums` and `quantiles` are the
arithmetic, `philox` is the stream of random numbers, and `decide` plays an arm.
"""
