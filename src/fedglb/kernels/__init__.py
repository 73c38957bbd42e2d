"""The compiled numerics, each written once and used by both engines and the federation."""
