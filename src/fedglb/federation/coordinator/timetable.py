"""When a federation's scheduled updates are due: seconds since its start, known in advance."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass


@dataclass
class Timetable:
    """The times of a schedule, and how many of them have had their update.

    A time that passes while the coordinator is down, or while too few clients are there, is made
    up for later; of several such times all together by one update.

    Parameters
    ----------
    times
        Seconds since the start, rising; empty: there is no schedule.
    start
        When the coordinator first started, a Unix time; None: it has not yet.
    done
        How many of the times have had their update.

    Examples
    --------
    >>> table = Timetable((60.0, 120.0, 240.0), start=1000.0)
    >>> table.due(1059.0), table.due(1060.0), table.due(1130.0)
    (0, 1, 2)
    >>> table.done = 2
    >>> table.due(1130.0), table.next
    (0, 1240.0)
    """

    times: tuple[float, ...]
    start: float | None = None
    done: int = 0

    def due(self, at: float) -> int:
        """Return which of the times an update is for at this moment, counted from 1; 0: none."""
        if self.start is None:
            return 0
        passed = bisect_right(self.times, at - self.start)
        return passed if passed > self.done else 0

    @property
    def ended(self) -> bool:
        """Whether all times have had their update."""
        return bool(self.times) and self.done >= len(self.times)

    @property
    def next(self) -> float | None:
        """When the next update is due, a Unix time; None: never, or not yet known."""
        if self.start is None or self.done >= len(self.times):
            return None
        return self.start + self.times[self.done]
