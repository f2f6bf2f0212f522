"""What runs on the node. Importing it emits nothing.

`LAYERS` is the order of the layers, lowest first: a layer imports from layers before it only, and a
test enforces that.

| layer | promises |
|---|---|
| abi, errors, limits, layouts | names, numbers and struct shapes; no code |
| cpu | processor set-up, faults, clock, entropy primitives |
| memory, log | pages and windows; the log ring and the serial port |
| text | constants and numbers as text, into a buffer of the caller |
| failure | notes why a shard's attempt ends, for the lifecycle to act on |
| pci, virtio, nic | the boot NIC as "take this frame" and "give me a frame"; a device's random bytes |
| crypto | SHA-1 for the accept key, SHA-2 and HMAC, the ChaCha20 DRBG, X25519, ECDSA, RSA, HPKE |
| net | Ethernet, ARP, IPv4, ICMP, UDP, DHCP, DNS |
| tcp | one connection per shard, all its state in the workspace |
| x509 | certificates: what they say, whether a chain leads to an anchor; knows no connection |
| tls | TLS 1.3 records, key schedule and handshake; `ws://` passes through |
| bus | the client of NATS: two connections, messages in and out; knows no shard |
| fleet | plan, leases, identify tickets: which shards this node may run |
| events | dispatches and notices for whoever subscribed to them |
| json, websocket, gateway | frames, envelopes, heartbeats, Identify and Resume |
| shard | the lifecycle of one shard |
| node | the scheduler, the lease, diagnostics, commands |
| boot | from the boot ROM to `node` |
| image | which routines and sections make an image |
| test_roles | routines of test builds alone; no release image holds one |
"""

LAYERS = (
    "abi", "errors", "limits", "layouts", "cpu", "memory", "log", "text", "failure", "pci", "virtio", "nic", "crypto", "net",
    "tcp", "x509", "tls", "bus", "fleet", "events", "json", "websocket", "gateway", "shard", "node", "boot", "image",
    "test_roles",
)  # fmt: skip
