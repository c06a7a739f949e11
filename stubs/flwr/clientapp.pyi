from collections.abc import Callable

from flwr.app import Context, Message

class ClientApp:
    def query(self) -> Callable[[Callable[[Message, Context], Message]], Callable[[Message, Context], Message]]: ...
