"""Studies that the papers call for: data, old counters, vendors, change, exploration, distance."""

from pmoss_benchmarks.studies.plan import STUDIES, StudyCell, StudyOptions, study_cells
from pmoss_benchmarks.studies.run import SUMMARY, run_studies

__all__ = ["STUDIES", "SUMMARY", "StudyCell", "StudyOptions", "run_studies", "study_cells"]
