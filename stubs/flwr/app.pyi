"""The part of Flower that a study uses; Flower itself cannot be installed beside the newest FastAPI and typer."""

from collections.abc import Iterator
from typing import Any

class ConfigRecord:
    def __init__(self, config_dict: dict[str, Any]) -> None: ...
    def items(self) -> Iterator[tuple[str, Any]]: ...

class RecordDict:
    def __init__(self, records: dict[str, ConfigRecord]) -> None: ...
    def __getitem__(self, name: str) -> ConfigRecord: ...
    def __contains__(self, name: str) -> bool: ...

class MessageType:
    QUERY: str

class Error:
    reason: str | None

class Message:
    content: RecordDict
    error: Error
    def __init__(
        self,
        content: RecordDict,
        *,
        dst_node_id: int = ...,
        message_type: str = ...,
        reply_to: Message = ...,
    ) -> None: ...
    def has_error(self) -> bool: ...

class Context:
    node_id: int
    node_config: dict[str, Any]
    run_config: dict[str, Any]
