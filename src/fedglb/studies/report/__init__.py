"""Reports: a page on a study, with figures, numbers and the paper's claims checked."""

from fedglb.studies.report.report import Report, write_report

__all__ = ["Report", "write_report"]
