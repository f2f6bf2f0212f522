"""Whatever is sent or done, the gateway stays on its feet and loses nothing."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pxe.gateway import Close, LoadOptions

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
OPS = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 31, 43, 99, -1, None, True, "1"])
BODIES = JSON | st.fixed_dictionaries(
    {},
    optional={
        "token": st.sampled_from(["t", ""]) | JSON,
        "session_id": st.text(max_size=3) | JSON,
        "seq": st.integers(-3, 3) | JSON,
        "shard": st.lists(st.integers(-2, 3), max_size=3) | JSON,
        "intents": st.integers(-1, 2**27) | JSON,
        "properties": st.just({"os": "", "browser": "", "device": ""}) | JSON,
    },
)
PAYLOADS = (
    st.builds(lambda op, body: json.dumps({"op": op, "d": body}), OPS, BODIES)
    | st.builds(json.dumps, JSON)
    | st.text()
    | st.binary()
)


@given(payloads=st.lists(PAYLOADS, max_size=8))
def test_any_input_is_answered_or_closed_with_a_listed_code(bench, payloads):
    b = bench()
    client = b.connect()
    for payload in payloads:
        client.send_raw(payload)
    assert client.end is None or isinstance(client.end, Close)
    if isinstance(client.end, Close):
        assert client.code in b.gateway.options.profile.close_codes
        assert len(client.end.reason.encode()) <= 123


TROUBLE = st.sampled_from(
    ["dispatch", "kick", "abort", "reconnect", "invalidate", "stall", "lose", "take_over", "wait"]
)


@given(trouble=st.lists(TROUBLE, max_size=30))
def test_a_client_that_resumes_never_misses_a_dispatch(bench, trouble):
    b = bench(load=LoadOptions(rate=20.0))
    client = b.ready()
    session_id = client.ready()["session_id"]
    received = [1]

    def collect() -> None:
        fresh = [s for name, s in client.events() if name not in ("READY", "RESUMED")]
        client.messages.clear()
        received.extend(fresh)

    for what in trouble:
        if what == "dispatch":
            b.gateway.dispatch(0, "A", {})
        elif what == "wait":
            b.advance(700)
        elif what == "lose":
            client.connection.lost()
        elif what == "invalidate":
            b.gateway.invalidate(0, resumable=True)
        elif what != "take_over":
            getattr(b.gateway, what)(0)
        b.pump()
        collect()
        if what not in ("dispatch", "wait"):
            if what in ("reconnect", "invalidate", "stall"):
                client.connection.lost(4000)
            client = b.connect()
            client.resume(session_id, received[-1])
            collect()
    assert received == list(range(1, b.stats().sequence + 1))
