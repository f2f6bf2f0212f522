"""The key of the control channel: what an operator writes, as the bytes that HMAC takes."""

from __future__ import annotations

import re

KEY_ENV = "SHARDFW_CONTROL_KEY"
KEY_BYTES_MIN, KEY_BYTES_MAX = 32, 64
_HEX = re.compile(rf"(?:[0-9a-fA-F]{{2}}){{{KEY_BYTES_MIN},{KEY_BYTES_MAX}}}")
_TEXT = re.compile(rf"[!-~]{{{KEY_BYTES_MIN},{KEY_BYTES_MAX}}}")
MAKE_ONE = "Make one with: openssl rand -hex 32"


def parse_control_key(text: str) -> bytes:
    """Return the key: hex digits of 32 to 64 bytes, else 32 to 64 printable characters.

    Raises:
        ValueError: It is neither. The message does not repeat it.
    """
    text = text.strip()
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    if _TEXT.fullmatch(text):
        return text.encode("ascii")
    if not text:
        raise ValueError(f"the key is empty. {MAKE_ONE}")
    if len(text) < KEY_BYTES_MIN:
        raise ValueError(
            f"the key has {len(text)} characters; at least {KEY_BYTES_MIN} are needed. {MAKE_ONE}"
        )
    raise ValueError(
        f"the key is neither {2 * KEY_BYTES_MIN} to {2 * KEY_BYTES_MAX} hex digits nor "
        f"{KEY_BYTES_MIN} to {KEY_BYTES_MAX} printable characters without a space. {MAKE_ONE}"
    )
