"""A client for third-party TLS test runners: our linked bytes behind a real socket.

    python -m emulator.tls_shim -port 1234 -shim-id 7 -trust-cert root.pem

`firmware/docs/tls-runner.md` says how a runner is given it, and what it covers.
"""
