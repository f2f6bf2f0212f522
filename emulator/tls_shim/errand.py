"""What the shim asks of the keeper of a node, and what it hears: one line of JSON each way."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Line(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, ser_json_bytes="base64", val_json_bytes="base64"
    )

    def line(self) -> bytes:
        """Return it as it is sent."""
        return self.model_dump_json().encode() + b"\n"


class Errand(_Line):
    """One connection that the node has to make.

    Attributes:
        port: Where on this machine.
        store: The anchors that it believes meanwhile, a trust store.
        name: Whom the certificate has to name.
        named: Send that name (SNI).
        date: When it is, in Unix seconds.
        say: What it says before it listens.
    """

    port: int
    store: bytes
    name: bytes
    named: bool
    date: int
    say: bytes


class Outcome(_Line):
    """How the node says that it went.

    Attributes:
        received: Bytes that came, when it ended in order.
        error: Why it did not: layer << 24 | site << 16 | detail; 0 = it did.
        stage: How far it had come then; "none" = the handshake was over.
    """

    received: int = 0
    error: int = 0
    stage: str = "none"
