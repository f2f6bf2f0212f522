"""Mutation: small faults planted in the linked bytes, each of which some judge must find.

`operators` makes the mutants of a routine, `record` keeps every lockstep call that the tests make,
`replay` runs such a call again on changed bytes, `trial` gives the verdicts, `proofs` and `build`
judge what no call can kill, `plugin` ties them to a run of the tests, `report` counts.
"""
