"""Specifications of sweeps and studies: files, grids, experiments."""
