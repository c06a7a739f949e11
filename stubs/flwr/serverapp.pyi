from collections.abc import Callable, Iterable

from flwr.app import Context, Message

class Grid:
    def get_node_ids(self) -> Iterable[int]: ...
    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]: ...

class ServerApp:
    def main(self) -> Callable[[Callable[[Grid, Context], None]], Callable[[Grid, Context], None]]: ...
