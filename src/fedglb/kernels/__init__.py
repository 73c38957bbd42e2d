"""The compiled numerics, each written once and shared by everything that computes."""
