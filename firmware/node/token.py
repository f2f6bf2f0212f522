"""Where the bot's token comes from at boot."""

from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.token import TOKEN, BotToken
from firmware.limits import TOKEN_MAX
from toolchain.asm import ECX, RCX, RDI, RSI, Asm, B, routine


@routine(
    clobbers=[RCX, RSI, RDI],
    reads=[ConfigBlob.token_len],
    writes=[BotToken],
    source="firmware/docs/enrol.md#token",
)
def token_adopt(a: Asm) -> None:
    """Take the token of the configuration; a fleet node without one enrols."""
    a.mov(ECX, CONFIG.it.token_len)
    # The build refuses more; a damaged image must not send what lies behind it.
    a.cmp(ECX, TOKEN_MAX + 1)
    with a.if_(B):
        a.mov(TOKEN.it.length, ECX)
        a.lea(RSI, CONFIG.it.token.address)
        a.lea(RDI, TOKEN.it.text.address)
        a.mov(ECX, TOKEN_MAX // 8)
        a.rep_movsq()
    a.ret()
