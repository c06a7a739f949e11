from os import PathLike
from typing import Any

from pyarrow import BufferReader, Table

class ParquetFile:
    def __init__(self, source: BufferReader) -> None: ...
    def read(self, *, use_threads: bool = True) -> Table: ...

def read_metadata(where: str | PathLike[str]) -> Any: ...
