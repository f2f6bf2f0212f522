"""The Gateway envelope as a stream: full JSON grammar, no message ever held, no order of keys needed.

`json_feed` takes any pieces of a text; `put_decimal` writes numbers into outgoing texts.
"""
