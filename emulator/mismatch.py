"""What every judge raises."""


class Mismatch(AssertionError):  # noqa: N818 - it is a finding about the code under test
    """The bytes and a judge disagree; the message names both sides and the source line."""
