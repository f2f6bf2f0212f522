"""A WebSocket client, RFC 6455 to the letter: what the server sends wrong ends the connection.

Above: messages in chunks that lie in the receive ring, never a whole one. Below: a byte stream.
`ws_build_request` and `ws_start` begin, `ws_next` reads, `ws_begin` and `ws_finish` write,
`ws_close` ends.
"""
