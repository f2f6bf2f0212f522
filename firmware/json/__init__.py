"""The Gateway envelope as a stream: no message ever held, no order of keys needed.

`json_feed` takes any pieces of a text: the grammar is whole, but for a body of which nothing is kept.
"""
