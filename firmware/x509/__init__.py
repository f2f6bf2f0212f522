"""X.509: what a certificate says, and whether a chain of them leads to a trust anchor.

A layer of its own below `tls`: it judges bytes at a time and a name that its caller gives, knows no
connection and no record, and is tested and fuzzed without either.
"""
