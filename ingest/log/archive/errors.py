"""What can be wrong with an archive, one class per decision of the caller."""

from ingest.errors import MnemologError


class ArchiveUnavailable(MnemologError):
    """The place of the archive cannot be reached, or refuses. Nothing was lost: try again when it is back."""

    code = "archive_unavailable"


class MissingFile(ArchiveUnavailable):
    """The place can be reached, and the file is not there."""


class ArchiveNotConfigured(MnemologError):
    """The beginning of the log is in an archive, and MNEMOLOG_ARCHIVE does not say where."""

    code = "archive_not_configured"

    def __init__(self, partition: int, trimmed: str) -> None:
        super().__init__(
            f"partition {partition} of this log is in an archive up to {trimmed}; "
            "set MNEMOLOG_ARCHIVE to the place it had"
        )


class DamagedArchive(MnemologError):
    """What a partition's manifest says is not what was sealed."""

    code = "damaged_archive"

    def __init__(self, partition: int, name: str, trouble: str) -> None:
        super().__init__(f"partition {partition}: {name} is damaged: {trouble}")
        self.partition, self.name, self.trouble = partition, name, trouble


class DamagedSegment(DamagedArchive):
    """The bytes of a segment are not those that were sealed."""

    code = "damaged_segment"


class Outrun(MnemologError):
    """Another process changed a partition's archive, or something was erased from it, meanwhile: begin again."""

    code = "archive_outrun"
