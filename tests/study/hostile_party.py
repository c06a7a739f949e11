"""The program of a secure sum in which south, whose certificate is valid, sends what the program does not send."""

import asyncio
import os

from ostrakon.study import party

make_runtime, attack = party.make_runtime, os.environ["ATTACK"]


def change(payload):
    """Another share in the same form: one bit of each of its numbers is flipped."""
    return payload[:1] + bytes(byte ^ (at % 9 == 8) for at, byte in enumerate(payload[1:]))


def hostile_runtime(settings):
    """The runtime, in which every message of south passes through `send`."""
    mpc, connection_type = make_runtime(settings)
    plain, shares, held = connection_type.send, {}, {}

    def send(self, label, payload):
        own = label < 0 and label >= party.STOPPED
        if attack == "late" and label in (party.DONE, party.STOPPED):
            return
        number = shares[self.peer_pid] = shares.get(self.peer_pid, -1) + (not own)
        if own:
            plain(self, label, payload)
            if attack == "too much" and label == party.READY:
                for other in range(64):
                    plain(self, 1000 + other, bytes(2**14))
        elif attack == "reordered" and number == 0:
            held[self.peer_pid] = label, payload
        elif attack == "reordered":
            plain(self, label, payload)
            plain(self, *held[self.peer_pid])
        elif attack == "the same for all":
            plain(self, label, held.setdefault(label, payload))
        elif attack == "one bit for north" and (self.peer_pid, number) == (0, 1):
            plain(self, label, change(payload))
        elif attack == "late" and number == 1:
            # North gets an altered last share, west none, and south hangs up on north.
            if self.peer_pid == 0:
                plain(self, label, change(payload))
                asyncio.get_running_loop().call_later(1.5, self.transport.abort)
        else:
            plain(self, label, payload)

    if settings["names"][settings["index"]] == "south":
        connection_type.send = send
    return mpc, connection_type


party.make_runtime = hostile_runtime
party.main()
