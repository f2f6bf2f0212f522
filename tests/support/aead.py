"""One authenticated cipher in a lab: seal and open texts in place, judged or free."""

from emulator.constant_time import same_traces
from tests.support.wycheproof import judged

TAG = 16


class Aead:
    """Routines of one cipher.

    Args:
        lab: Where they are linked.
        struct: What a key is made into.
        make_key: The routine that does it.
        seal: Encrypts.
        open_: Decrypts.
        decrypt: What `open_` calls, whose traces are compared.
    """

    def __init__(self, lab, struct, make_key, seal, open_, decrypt):
        self.lab, self.struct, self.make_key = lab, struct, make_key
        self.seal, self.open, self.decrypt = seal, open_, decrypt

    def _laid(self, key, nonce, aad, text, call=None):
        """Lay the inputs down in a fresh machine, the text so that nothing is mapped behind it."""
        call = call or self.lab.free
        machine = self.lab.machine
        made, raw, at = machine.alloc(self.struct.SIZE), machine.alloc(32), machine.alloc(12)
        machine.write(raw, key)
        call(self.make_key, key=made, raw=raw, size=len(key))
        machine.write(at, nonce)
        # Directly before the text, as a record's header is; nothing lies between.
        place = self.lab.put(aad + text)
        return {
            "key": made, "text": place + len(aad), "length": len(text) - TAG,
            "nonce": at, "aad": place, "aad_length": len(aad),
        }  # fmt: skip

    def sealed(self, key, nonce, aad, text, call=None):
        """Return ciphertext and tag."""
        self.lab.reset()
        inputs = self._laid(key, nonce, aad, text + bytes(TAG), call)
        (call or self.lab.call)(self.seal, **inputs)
        return self.lab.machine.read(inputs["text"], len(text) + TAG)

    def opened(self, key, nonce, aad, text, call=None):
        """Return the plaintext, or None when the tag was refused and the text wiped."""
        self.lab.reset()
        inputs = self._laid(key, nonce, aad, text, call)
        done = (call or self.lab.call)(self.open, **inputs)
        found = self.lab.machine.read(inputs["text"], len(text) - TAG)
        refused = done["flags"] & 1 if isinstance(done, dict) else done.outputs["cf"]
        if not refused:
            return found
        assert found == bytes(len(text) - TAG), "nothing of a refused text is left"
        assert self.lab.machine.read(inputs["text"] + len(found), TAG) == text[-TAG:]
        return None

    def decrypted(self, key, nonce, aad, text):
        """Return whether `decrypt` alone finds the tag right, and what it leaves of the text."""
        self.lab.reset()
        inputs = self._laid(key, nonce, aad, text)
        right = not self.lab.call(self.decrypt, **inputs).outputs["cf"]
        return right, self.lab.machine.read(inputs["text"], len(text) - TAG)

    def judged(self, name, key_bits):
        """Let Wycheproof judge; cases of other key sizes and of nonces but 96 bits are left out."""

        def verdict(group, case):
            if group["ivSize"] != 96 or group["keySize"] not in key_bits:
                return None
            key, nonce, aad, text, ct, tag = (
                bytes.fromhex(case[name]) for name in ("key", "iv", "aad", "msg", "ct", "tag")
            )
            found = self.opened(key, nonce, aad, ct + tag, self.lab.free)
            if case["result"] == "valid":
                assert found == text, case["tcId"]
                assert self.sealed(key, nonce, aad, text, self.lab.free) == ct + tag, case["tcId"]
            return found is not None

        return judged(name, verdict)

    def compare_traces(self, keys, lengths, *, key_minimum, minimum):
        """Compare the traces of all routines with each key, whose bytes make the text too."""

        def raw(secret, size):
            made, at = self.lab.machine.alloc(self.struct.SIZE), self.lab.machine.alloc(size)
            self.lab.machine.write(at, secret[:size])
            return {"key": made, "raw": at, "size": size}

        def laid(secret, public):
            size, aad, length = public
            text = (secret * (length // len(secret) + 2))[: length + TAG]
            return self._laid(secret[:size], bytes(12), bytes(aad), text)

        machine, sizes = self.lab.machine, sorted({size for size, _, _ in lengths})
        same_traces(machine, self.make_key, raw, secrets=keys, publics=sizes, minimum=key_minimum)
        for routine in (self.seal, self.decrypt, self.open):
            same_traces(machine, routine, laid, secrets=keys, publics=lengths, minimum=minimum)
