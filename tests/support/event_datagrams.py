"""Event datagrams as a node makes them, for tests of what takes them."""

from __future__ import annotations

import json

from firmware.layouts.events import EVENT_MAGIC, EventHeader, EventKind, Notice, Verdict
from toolchain.layout.pack import pack

STREAM = 0xABCD


def datagram(body: bytes = b"", name: bytes = b"", /, **fields: int) -> bytes:
    """Return one chunk; fields are those of EventHeader."""
    head = {"magic": EVENT_MAGIC, "kind": EventKind.DISPATCH, "stream": STREAM}
    return (
        pack(EventHeader, head | {"length": len(body), "name_len": len(name)} | fields)
        + body
        + name
    )


def message(event: str, sequence: int, data: object) -> bytes:
    """Return a dispatch as the service sends it."""
    return json.dumps({"t": event, "s": sequence, "op": 0, "d": data}).encode()


def dispatch(
    number: int,
    event: str = "X",
    sequence: int = 1,
    data: object = None,
    *,
    size: int = 1000,
    what: int = Verdict.OK,
    **fields: int,
) -> list[bytes]:
    """Return the chunks of a dispatch, with `size` bytes of body each."""
    text = b"" if what == Verdict.WITHHELD else message(event, sequence, data)
    parts = [text[at : at + size] for at in range(0, len(text), size)] or [b""]
    made = [
        datagram(part, number=number, chunk=n, offset=n * size, **fields)
        for n, part in enumerate(parts[:-1])
    ]
    last = len(parts) - 1
    fields |= {"number": number, "chunk": last, "offset": last * size, "last": 1, "what": what}
    return [*made, datagram(parts[-1], event.encode(), sequence=sequence, **fields)]


def notice(number: int, kind: Notice, first: int = 0, second: int = 0, **fields: int) -> bytes:
    """Return a notice."""
    fields |= {"kind": EventKind.NOTICE, "what": kind, "last": 1, "number": number}
    return datagram(sequence=first, second=second, **fields)
