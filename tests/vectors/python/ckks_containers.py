"""Containers of numbers (docs/wire-format.md 14 to 18) in whole numbers. No library."""

import hashlib
import struct

SECRET_KEY, PUBLIC_KEY, EVALUATION_KEY, CIPHERTEXT = 5, 6, 7, 8
RELINEARIZATION, GALOIS = 1, 2


def frame(kind, fingerprint, payload):
    """Section 2. Arithmetic has the preset 0 and the version 1."""
    head = b"ANGO" + struct.pack("<HBB8sQ", 1, kind, 0, fingerprint, len(payload))
    return head + hashlib.sha256(head + payload).digest()[:8] + payload


def parameters(poly_degree, scale_bits, max_depth, bootstrap=False):
    """The block of 8 bytes of a set of the security level `testing`."""
    return bytes([poly_degree.bit_length() - 1, scale_bits, max_depth, 0, bootstrap, 1 + 2 * bootstrap, 0, 0])


def packed(values, q):
    """A row: bit b of value i is bit i * bits(q) + b."""
    bits = q.bit_length()
    whole = sum(value << i * bits for i, value in enumerate(values))
    return whole.to_bytes((len(values) * bits + 7) // 8, "little")


def unpacked(data, q, n):
    bits = q.bit_length()
    whole = int.from_bytes(data, "little")
    return [whole >> i * bits & ((1 << bits) - 1) for i in range(n)]


def rows(values, primes):
    return b"".join(packed(row, q) for row, q in zip(values, primes))


def secret_key(block, fingerprint, secret):
    return frame(SECRET_KEY, fingerprint, block + bytes(x % 256 for x in secret))


def public_key(block, fingerprint, level, seed, body):
    """`body`: the packed rows of b."""
    return frame(PUBLIC_KEY, fingerprint, block + bytes([level, 0, 0, 0]) + seed + body)


def ciphertext(block, fingerprint, level, record, body, seed=b""):
    """`record`: the scale, the bound and the variance. `body`: packed rows of c0, and of c1 without a seed."""
    head = block + bytes([level, 1 if seed else 0, 0, 0]) + struct.pack("<3d", *record)
    return frame(CIPHERTEXT, fingerprint, head + seed + body)


def key_row(block, kind, level, digit, digits, element, seed, body):
    """A row of an evaluation key, with its own checksum."""
    head = bytes([kind, level, digit, digits]) + struct.pack("<I", element) + seed
    return head + hashlib.sha256(block + head + body).digest()[:8] + body


def evaluation_key(block, fingerprint, key_rows):
    """The checksum of the frame covers the head alone."""
    count = struct.pack("<I", len(key_rows))
    body = b"".join(key_rows)
    head = b"ANGO" + struct.pack("<HBB8sQ", 1, EVALUATION_KEY, 0, fingerprint, len(block) + 4 + len(body))
    return head + hashlib.sha256(head + block + count).digest()[:8] + block + count + body
