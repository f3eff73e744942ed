"""Unitree's topics on DDS (extra `unitree`): who talks on which network, and messages as raw bytes.

Nothing is read from or written to the environment: the configuration of a domain is given to Cyclone DDS when it is made.
"""

import functools
from dataclasses import dataclass
from typing import Any

from surefoot.errors import InputError
from surefoot.hardware.unitree_idl import F32, I16, I32, MESSAGES, U8, U16, U32

COMMAND_TOPIC, STATE_TOPIC = "rt/lowcmd", "rt/lowstate"
LOOPBACK = "lo"
DOMAINS = range(0, 231)
"""Numbers a DDS domain can have; Unitree's robots are on 0."""

_open: dict[int, tuple[str, Any]] = {}
"""Domains of this process by number: their network and Cyclone's object. A process can make each only once."""


def configuration(interface: str) -> str:
    """Cyclone's XML for one network interface; loopback goes without multicast and finds its peers on this machine."""
    if not interface.replace("_", "").replace("-", "").replace(".", "").replace(":", "").isalnum():
        raise InputError(f"{interface!r} is not the name of a network interface: give one such as 'eth0' or 'lo'")
    if interface != LOOPBACK:
        network = f'<Interfaces><NetworkInterface name="{interface}"/></Interfaces>'
        return f'<CycloneDDS><Domain Id="any"><General>{network}</General></Domain></CycloneDDS>'
    network = f'<Interfaces><NetworkInterface name="{interface}" multicast="false"/></Interfaces>'
    return (
        f'<CycloneDDS><Domain Id="any"><General>{network}<AllowMulticast>false</AllowMulticast></General>'
        "<Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>31</MaxAutoParticipantIndex>"
        '<Peers><Peer address="127.0.0.1"/></Peers></Discovery></Domain></CycloneDDS>'
    )


def place(text: str) -> tuple[str, int]:
    """Interface and domain of "eth0" (domain 0) or "lo@37"."""
    interface, _, number = text.partition("@")
    if number and (not number.isdecimal() or int(number) not in DOMAINS):
        raise InputError(
            f"{number!r} in {text!r} is not a DDS domain: give a number from 0 to {DOMAINS[-1]}, as 'lo@37'"
        )
    if not interface:
        raise InputError(f"{text!r} names no network interface: give one such as 'eth0', or 'lo@37' for domain 37")
    return interface, int(number or 0)


def struct_type(name: str) -> Any:
    """A message as a dataclass of Cyclone's, which knows the type's name and fields; its coder is slow."""
    from cyclonedds import idl

    return idl.make_idl_struct(name.rsplit(".", 1)[1], name, _fields(name))


@functools.cache
def raw_type(name: str) -> Any:
    """The same DDS type, whose samples are `raw`, the encoded bytes as `unitree_idl` makes and reads them."""
    from cyclonedds import idl

    cls: Any = idl.make_idl_struct(name.rsplit(".", 1)[1], name, _fields(name), dataclassify=False)

    def hold(self: Any, raw: bytes) -> None:
        self.raw = raw

    cls.__init__ = hold
    cls.serialize = lambda self, *_, **__: self.raw
    cls.deserialize = lambda data, *_, **__: cls(bytes(data))
    return cls


def _fields(name: str) -> dict[str, Any]:
    from cyclonedds.idl import types

    numbers = {
        U8: types.uint8, U16: types.uint16, U32: types.uint32, I16: types.int16, I32: types.int32, F32: types.float32,
    }  # fmt: skip
    fields: dict[str, Any] = {}
    for field, kind, count in MESSAGES[name]:
        one = struct_type(kind) if kind in MESSAGES else numbers[kind]
        fields[field] = one if count == 1 else types.array[one, count]
    return fields


@dataclass(kw_only=True)
class Node:
    """One member of a DDS domain, from which writers and readers of Unitree's messages are made."""

    participant: Any

    @classmethod
    def open(cls, interface: str, domain: int) -> "Node":
        """Join a domain on a network interface."""
        try:
            from cyclonedds.core import DDSException
            from cyclonedds.domain import Domain, DomainParticipant
        except ImportError:
            raise InputError("Unitree's topics need Cyclone DDS: pip install 'surefoot[unitree]'") from None
        known = _open.get(domain)
        if known is not None and known[0] != interface:
            raise InputError(
                f"DDS domain {domain} is already open on {known[0]!r} in this process, not on {interface!r}: use another process"
            )
        try:
            if known is None:
                _open[domain] = (interface, Domain(domain, configuration(interface)))
            return cls(participant=DomainParticipant(domain))
        except DDSException as error:
            raise InputError(
                f"DDS domain {domain} cannot be opened on the network interface {interface!r}: {_first(error)}; "
                "`ip link` lists the interfaces"
            ) from None

    def writer(self, topic: str, name: str) -> Any:
        """A writer of messages in plain CDR, which every version of Cyclone reads; otherwise default quality of service."""
        from cyclonedds.pub import DataWriter
        from cyclonedds.qos import Policy, Qos

        return DataWriter(
            self.participant, self._topic(topic, name), Qos(Policy.DataRepresentation(use_cdrv0_representation=True))
        )

    def reader(self, topic: str, name: str) -> "Newest":
        """A reader that keeps only the newest message, and never hears writers of this node."""
        from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState, WaitSet
        from cyclonedds.qos import Policy, Qos
        from cyclonedds.sub import DataReader

        quality = Qos(Policy.History.KeepLast(1), Policy.IgnoreLocal.Participant)
        reader = DataReader(self.participant, self._topic(topic, name), quality)
        condition = ReadCondition(reader, ViewState.Any | InstanceState.Any | SampleState.Any)
        waiting = WaitSet(self.participant)
        waiting.attach(condition)
        return Newest(reader=reader, condition=condition, waiting=waiting)

    def _topic(self, topic: str, name: str) -> Any:
        from cyclonedds.topic import Topic

        return Topic(self.participant, topic, raw_type(name))


@dataclass(kw_only=True)
class Newest:
    """The newest message of a topic that was not yet taken."""

    reader: Any
    condition: Any
    waiting: Any

    def take(self, timeout: float = 0.0) -> bytes | None:
        """Its bytes, waiting for one up to `timeout` [s]; None when none came."""
        raw = self._take()
        if raw is None and timeout > 0 and self.waiting.wait(round(timeout * 1e9)):
            raw = self._take()
        return raw

    def writers(self) -> int:
        """How many writers of the topic are known."""
        return len(self.reader.get_matched_publications())

    def _take(self) -> bytes | None:
        samples = self.reader.take(8, self.condition)
        for sample in reversed(samples):
            if sample.sample_info.valid_data:
                return sample.raw
        return None


def _first(error: object) -> str:
    """The first line of what Cyclone says."""
    return str(error).strip().splitlines()[0].strip()
