"""A hash of SHA-2 in a lab, fed in parts."""

from firmware.layouts.crypto import Hash


class Hasher:
    """Routines of one hash, called in lockstep."""

    def __init__(self, lab, start, update, finish, size):
        self.lab, self.start, self.update, self.finish, self.size = lab, start, update, finish, size

    def digest(self, *parts, first=False):
        """Return the digest of the parts; behind each (or before it) no memory is mapped."""
        self.lab.reset()
        work, out = self.lab.machine.alloc(Hash.SIZE), self.lab.machine.alloc(64)
        self.lab.call(self.start, work=work)
        for part in parts:
            at = self.lab.put(part, first=first)
            self.lab.call(self.update, work=work, message=at, length=len(part))
        self.lab.call(self.finish, work=work, digest=out)
        assert self.lab.machine.read(work, Hash.SIZE) == bytes(Hash.SIZE), "the hash is wiped"
        return self.lab.machine.read(out, self.size)
