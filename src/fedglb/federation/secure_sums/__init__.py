"""Sums over clients that hide every single client's numbers: keys, masks, and who may do what.

Nothing here sends, receives or opens a file; agents and the coordinator do that around it.
"""
