"""Reports: a page on a sweep, with figures, sentences and the paper's claims checked."""

from fedglb.studies.report.report import Report, write_report
from fedglb.studies.report.study import MEASURES, Study, study_of_sweep

__all__ = ["MEASURES", "Report", "Study", "study_of_sweep", "write_report"]
