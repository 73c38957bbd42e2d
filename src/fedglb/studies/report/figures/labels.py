"""Where labels go so that they cover neither each other nor the dots; plain geometry, in points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedglb.typing import FloatArray

#: Left, bottom, right, top.
Box = tuple[float, float, float, float]
# Beside the dot, or above or below it and to one side, so that an error bar stays free.
_DIRECTIONS = (
    (1.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (-1.0, 0.0), (1.0, -1.0), (-1.0, -1.0),
    (1.0, 0.5), (-1.0, 0.5), (1.0, -0.5), (-1.0, -0.5), (0.0, 1.0), (0.0, -1.0),
)  # fmt: skip
_DISTANCES = (5.0, 8.0, 12.0, 17.0)
_DOT = 3.8  # half the width of a marker


def place(
    dots: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    lines: FloatArray,
    area: Box,
) -> list[tuple[float, float]]:
    """Return the centre of each label.

    Parameters
    ----------
    dots
        Where the labelled dots are.
    sizes
        Width and height of the labels.
    lines
        Points along everything else that is drawn, (n, 2); labels avoid them where they can.
    area
        The box that labels should stay in.

    Examples
    --------
    >>> place([(0.0, 0.0)], [(10.0, 6.0)], np.empty((0, 2)), (-50.0, -50.0, 50.0, 50.0))
    [(7.75, 7.0)]
    """
    dot_boxes = np.array([(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in dots])
    candidates = [_candidates(d, s) for d, s in zip(dots, sizes, strict=True)]
    chosen = [0] * len(dots)
    fixed = [
        np.array([_fixed_cost(i, k, box, dot_boxes, lines, area) for k, box in enumerate(boxes)])
        for i, boxes in enumerate(candidates)
    ]
    # The most crowded labels first; then each one again, given all others, until none moves.
    order = sorted(range(len(dots)), key=lambda i: -float(fixed[i].min()))
    placed: dict[int, Box] = {}
    for _ in range(12):
        before = list(chosen)
        for i in order:
            others = np.array([b for j, b in placed.items() if j != i]).reshape(-1, 4)
            costs = fixed[i] + [30.0 * float(overlaps(b, others).sum()) for b in candidates[i]]
            chosen[i] = int(costs.argmin())
            placed[i] = candidates[i][chosen[i]]
        if chosen == before:
            break
    return [((b[0] + b[2]) / 2, (b[1] + b[3]) / 2) for b in (placed[i] for i in range(len(dots)))]


def overlaps(box: Box, others: FloatArray) -> FloatArray:
    """Return the areas that a box shares with others.

    Examples
    --------
    >>> overlaps((0, 0, 2, 2), np.array([[1, 1, 3, 3], [5, 5, 6, 6]])).tolist()
    [1.0, 0.0]
    """
    width = np.minimum(box[2], others[:, 2]) - np.maximum(box[0], others[:, 0])
    height = np.minimum(box[3], others[:, 3]) - np.maximum(box[1], others[:, 1])
    shared: FloatArray = np.maximum(width, 0.0) * np.maximum(height, 0.0) * 1.0
    return shared


def _candidates(dot: tuple[float, float], size: tuple[float, float]) -> list[Box]:
    half_width, half_height = size[0] / 2, size[1] / 2
    boxes = []
    for distance in _DISTANCES:
        for right, up in _DIRECTIONS:
            corner = abs(right) == abs(up)
            x = dot[0] + right * (half_width + (0.55 if corner else 1.0) * distance)
            y = dot[1] + up * (half_height + (0.8 if corner else 1.0) * distance)
            boxes.append((x - half_width, y - half_height, x + half_width, y + half_height))
    return boxes


def _fixed_cost(i: int, k: int, box: Box, dots: FloatArray, lines: FloatArray, area: Box) -> float:
    """Return the part of a place's cost that other labels do not change; near places cost less."""
    covered = (
        (lines[:, 0] > box[0]) & (lines[:, 0] < box[2])
        & (lines[:, 1] > box[1]) & (lines[:, 1] < box[3])
    )  # fmt: skip
    outside = max(area[0] - box[0], 0) + max(box[2] - area[2], 0)
    outside += max(area[1] - box[1], 0) + max(box[3] - area[3], 0)
    own = np.arange(len(dots)) == i
    shared = overlaps(box, dots)
    far = 6.0 * (k // len(_DIRECTIONS)) + 0.2 * (k % len(_DIRECTIONS))
    return float(
        2.5 * covered.sum() + 40.0 * outside + 20.0 * shared[~own].sum() + 20.0 * shared[own].sum()
        + far
    )  # fmt: skip


def spread(heights: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return the heights, moved as little as possible so that neighbours are `gap` apart.

    Examples
    --------
    >>> spread([5.0, 5.0, 20.0], gap=4.0, low=0.0, high=30.0)
    [3.0, 7.0, 20.0]
    """
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    groups: list[list[float]] = []  # [mean of the wanted heights, how many]
    for i in order:
        groups.append([heights[i], 1])
        while len(groups) > 1 and _meet(groups[-2], groups[-1], gap):
            (a, m), (b, n) = groups[-2:]
            groups[-2:] = [[(a * m + b * n) / (m + n), m + n]]
    flat = [mean + gap * (j - (n - 1) / 2) for mean, n in groups for j in range(int(n))]
    flat = [max(f, low + gap * j) for j, f in enumerate(flat)]
    flat = [min(f, high - gap * (len(flat) - 1 - j)) for j, f in enumerate(flat)]
    out = [0.0] * len(heights)
    for position, i in zip(flat, order, strict=True):
        out[i] = position
    return out


def _meet(below: list[float], above: list[float], gap: float) -> bool:
    return above[0] - gap * (above[1] - 1) / 2 - (below[0] + gap * (below[1] - 1) / 2) < gap
