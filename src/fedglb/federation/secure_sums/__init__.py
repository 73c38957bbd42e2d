"""Sums over clients that hide each client's numbers: keys, masks, rules.

Nothing here sends, receives or opens a file; agents and the coordinator do that.
"""
