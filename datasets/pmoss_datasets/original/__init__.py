"""Reading the data of the original P-MOSS research code, with its known faults corrected."""

from pmoss_datasets.original.folder import (
    OriginalData,
    find_original,
    import_folder,
    save_snapshots,
)
from pmoss_datasets.original.knowledge_base import KnowledgeBase, read_knowledge_base
from pmoss_datasets.original.machine_file import MachineFile, read_machine_file
from pmoss_datasets.original.schedules import OriginalSchedule, read_schedule

__all__ = [
    "KnowledgeBase",
    "MachineFile",
    "OriginalData",
    "OriginalSchedule",
    "find_original",
    "import_folder",
    "read_knowledge_base",
    "read_machine_file",
    "read_schedule",
    "save_snapshots",
]
