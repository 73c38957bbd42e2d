"""The side of the federation that runs inside an application."""
