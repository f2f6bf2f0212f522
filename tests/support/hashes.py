"""A hash of SHA-2 in a lab, fed in parts, and its compression on the processor."""

import hashlib

from firmware.layouts.crypto import Hash
from firmware.layouts.variants import VARIANTS
from tests.support.processor import Processor

MESSAGE = hashlib.shake_128(b"a message").digest(1500)


class Hasher:
    """Routines of one hash, called in lockstep, with one variant of a family."""

    def __init__(self, lab, start, update, finish, size, family):
        self.lab, self.start, self.update, self.finish, self.size = lab, start, update, finish, size
        self.family = family

    def choose(self, variant):
        """Reset the lab and use a variant."""
        self.lab.reset()
        setattr(self.lab.g(VARIANTS), self.family, variant)

    def digest(self, variant, *parts, first=False):
        """Return the digest of the parts; behind each (or before it) no memory is mapped."""
        self.choose(variant)
        work, out = self.lab.machine.alloc(Hash.SIZE), self.lab.machine.alloc(64)
        self.lab.call(self.start, work=work)
        for part in parts:
            at = self.lab.put(part, first=first)
            self.lab.call(self.update, work=work, message=at, length=len(part))
        self.lab.call(self.finish, work=work, digest=out)
        assert self.lab.machine.read(work, Hash.SIZE) == bytes(Hash.SIZE), "the hash is wiped"
        return self.lab.machine.read(out, self.size)

    def on_the_processor(self, variant, messages):
        """Return the digests of messages, each an (offset, length) of MESSAGE, as it lies there."""
        self.choose(variant)
        alloc = self.lab.machine.alloc
        work, out, at = alloc(Hash.SIZE), alloc(64), alloc(len(MESSAGE), align=64)
        self.lab.machine.write(at, MESSAGE)
        processor = Processor(self.lab)
        calls = []
        for offset, length in messages:
            given = {"work": work, "message": at + offset, "length": length}
            calls.append(processor.call(self.start, work=work))
            calls.append(processor.call(self.update, **given))
            calls.append(
                processor.call(self.finish, (), ((out, self.size),), work=work, digest=out)
            )
        return [done.memory[out] for done in processor.run(calls)[2::3]]
