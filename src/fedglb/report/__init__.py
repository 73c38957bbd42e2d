"""Reports: a sweep as a page, with figures, the paper's claims against the numbers, and words."""

from fedglb.report.report import Report, write_report
from fedglb.report.study import MEASURES, Study, study_of_sweep

__all__ = ["MEASURES", "Report", "Study", "study_of_sweep", "write_report"]
