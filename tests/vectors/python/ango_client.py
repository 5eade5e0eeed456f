"""Keys, ciphertexts and frames of docs/wire-format.md. Section numbers below are that page's."""

import hashlib
import os
import struct
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

Q = 2**30 - 3 * 2**14 + 1
TURN = 2**32
EIGHTH = 2**29

MAGIC = b"ANGO"
# the versions of section 12: the second applies to evaluation keys only
VERSION, VERSION_CENTRED = 1, 2
SECRET_KEY, EVALUATION_KEY, CIPHERTEXT, SEEDED_CIPHERTEXTS = 1, 2, 3, 4
HEADER = struct.Struct("<4sHBB8sQ8s")

DOMAIN_BOOTSTRAP, DOMAIN_KEY_SWITCH, DOMAIN_CIPHERTEXT = 1, 2, 3
# rows of the bootstrapping key that are computed at a time
ROWS_AT_A_TIME = 128


def nearest(a, b):
    """round(a / b) in exact integers."""
    return (2 * a + b) // (2 * b)


@dataclass(frozen=True)
class Preset:
    """A column of the table in section 1."""

    name: str
    code: int
    n: int
    k: int
    N: int
    log_b: int
    l: int
    d: int
    t: int
    lwe_std: float
    ring_std: float

    @property
    def ring_gadget(self):
        return [nearest(Q, 2 ** (self.log_b * j)) for j in range(1, self.l + 1)]

    @property
    def key_switch_gadget(self):
        return [nearest(TURN, self.d**j) for j in range(1, self.t + 1)]

    @property
    def bootstrap_rows(self):
        return self.n * self.l * (self.k + 1)

    @property
    def key_switch_rows(self):
        return self.k * self.N * self.t


PRESETS = [
    Preset("fast_128", 1, 636, 1, 1024, 8, 2, 3, 7, 2**-13.65, 2**-24.8),
    Preset("standard_128", 2, 708, 1, 1024, 8, 2, 8, 4, 2**-15.5, 2**-24.8),
    Preset("conservative_128", 3, 828, 3, 512, 9, 2, 5, 6, 2**-15.15, 2**-27),
    Preset("fast_128_k2", 4, 636, 2, 512, 8, 2, 3, 7, 2**-13.65, 2**-24.8),
    Preset("standard_128_k2", 5, 708, 2, 512, 8, 2, 8, 4, 2**-15.5, 2**-24.8),
]


# ---------------------------------------------------------------- frames (2)
class Refused(ValueError):
    """The bytes are malformed."""


def write_frame(kind, preset, fingerprint, payload, version=VERSION):
    """Header, then payload."""
    head = HEADER.pack(MAGIC, version, kind, preset.code, fingerprint, len(payload), bytes(8))[:24]
    return head + hashlib.sha256(head + payload).digest()[:8] + payload


def read_frame(data, wanted):
    """The preset, fingerprint and payload of a frame of kind `wanted`."""
    if data[:4] != MAGIC:
        raise Refused("no magic")
    if len(data) < HEADER.size:
        raise Refused("shorter than a header")
    _, version, kind, code, fingerprint, length, checksum = HEADER.unpack_from(data)
    payload = data[HEADER.size :]
    if version != VERSION and (kind, version) != (EVALUATION_KEY, VERSION_CENTRED):
        raise Refused(f"version {version}")
    if kind != wanted:
        raise Refused(f"type {kind}, wanted {wanted}")
    preset = next((preset for preset in PRESETS if preset.code == code), None)
    if preset is None:
        raise Refused(f"preset {code}")
    if length != len(payload):
        raise Refused(f"{len(payload)} bytes of payload, announced {length}")
    if hashlib.sha256(data[:24] + payload).digest()[:8] != checksum:
        raise Refused("damaged")
    return preset, fingerprint, payload


# ----------------------------------------------------------------- masks (5)
def stream_words(seed, domain, row, count):
    """The first `count` words of a row's stream."""
    counter = struct.pack(">IQI", domain, row, 0)
    encryptor = Cipher(algorithms.AES(seed), modes.CTR(counter)).encryptor()
    return np.frombuffer(encryptor.update(bytes(4 * count)), dtype="<u4")


def torus_mask(seed, row, count):
    """A key-switching row's mask."""
    return stream_words(seed, DOMAIN_KEY_SWITCH, row, count)


def ciphertext_mask(seed, row, count):
    """A seeded ciphertext's mask."""
    return stream_words(seed, DOMAIN_CIPHERTEXT, row, count)


def residue_mask(seed, row, count):
    """A bootstrapping row's mask coefficients, all polynomials in a row."""
    spare = 16
    while True:
        words = stream_words(seed, DOMAIN_BOOTSTRAP, row, count + spare) & (2**30 - 1)
        words = words[words < Q]
        if len(words) >= count:
            return words[:count]
        spare *= 2


# -------------------------------------------------------- exact ring products
class Transformed:
    """Polynomials ready to be multiplied with signed ones of small coefficients.

    Each is cut into halves of 15 bits. Times a polynomial with coefficients up to 2^8, summed over eight of them, a
    coefficient stays below 2^36 for N up to 1024; a double-precision transform is then off by some 10^-5 at most, and
    rounding gives the exact integers.
    """

    def __init__(self, polynomials):
        """`polynomials`: [..., N] integers of magnitude below 2^30."""
        polynomials = np.asarray(polynomials, dtype=np.int64)
        self.N = polynomials.shape[-1]
        low = polynomials & 0x7FFF
        self.low, self.high = self._forward(low), self._forward((polynomials - low) >> 15)

    def _forward(self, polynomials):
        return np.fft.rfft(polynomials.astype(np.float64), 2 * self.N, axis=-1)

    def products(self, small, sum_axis=None):
        """Negacyclic products with `small`, [..., N], modulo Q. With an axis, the products are summed along it."""
        spectrum = np.fft.rfft(np.asarray(small, dtype=np.float64), 2 * self.N, axis=-1)
        total = 0
        for half, shift in ((self.low, 0), (self.high, 15)):
            product = half * spectrum
            if sum_axis is not None:
                product = product.sum(axis=sum_axis)
            whole = np.rint(np.fft.irfft(product, 2 * self.N, axis=-1)).astype(np.int64)
            folded = whole[..., : self.N] - whole[..., self.N :]
            total = (total + (folded % Q << shift)) % Q
        return total


# ----------------------------------------------------------------- keys (3, 4)
@dataclass
class SecretKey:
    """`s`: [n] of 0 and 1; `S`: [k, N] of -1, 0 and 1."""

    preset: Preset
    fingerprint: bytes
    s: np.ndarray
    S: np.ndarray

    @staticmethod
    def generate(preset):
        s = np.frombuffer(os.urandom(preset.n), dtype=np.uint8) & 1
        words = np.frombuffer(os.urandom(8 * preset.k * preset.N), dtype="<u8")
        S = (words % 3).astype(np.int64) - 1
        fingerprint = bytes([1]) + os.urandom(7)
        return SecretKey(preset, fingerprint, s.astype(np.int64), S.reshape(preset.k, preset.N))

    def to_bytes(self):
        payload = self.s.astype(np.uint8).tobytes() + (self.S & 0xFF).astype(np.uint8).tobytes()
        return write_frame(SECRET_KEY, self.preset, self.fingerprint, payload)

    @staticmethod
    def from_bytes(data):
        preset, fingerprint, payload = read_frame(data, SECRET_KEY)
        if len(payload) != preset.n + preset.k * preset.N or fingerprint == bytes(8):
            raise Refused("not a secret key of its preset")
        values = np.frombuffer(payload, dtype=np.int8).astype(np.int64)
        s, S = values[: preset.n], values[preset.n :]
        if ((s < 0) | (s > 1)).any() or (abs(S) > 1).any():
            raise Refused("a coefficient is out of range")
        return SecretKey(preset, fingerprint, s, S.reshape(preset.k, preset.N))

    # ------------------------------------------------------ ciphertexts (7)
    def encrypt(self, bit, mask=None, noise=None):
        """A ciphertext's frame."""
        preset = self.preset
        if mask is None:
            mask = np.frombuffer(os.urandom(4 * preset.n), dtype="<u4")
        if noise is None:
            noise = gaussian(preset.lwe_std * TURN, 1)[0]
        body = (self._product(mask) + int(noise) + (EIGHTH if bit else -EIGHTH)) % TURN
        return write_ciphertext(preset, self.fingerprint, np.append(mask, body))

    def encrypt_seeded(self, bits, seed=None, noise=None):
        """The frame of seeded ciphertexts. A seed must be used once only: give one only for known answers."""
        preset = self.preset
        seed = os.urandom(32) if seed is None else seed
        if noise is None:
            noise = gaussian(preset.lwe_std * TURN, len(bits))
        products = (self._product(ciphertext_mask(seed, row, preset.n)) for row in range(len(bits)))
        bodies = [
            (product + int(e) + (EIGHTH if bit else -EIGHTH)) % TURN for product, e, bit in zip(products, noise, bits)
        ]
        payload = seed + np.array(bodies, dtype=np.int64).astype("<u4").tobytes()
        return write_frame(SEEDED_CIPHERTEXTS, preset, self.fingerprint, payload)

    def phase(self, ciphertext):
        """The phase of a ciphertext's frame, as a signed number in units of 2^-32."""
        preset, words = read_ciphertext(ciphertext)
        if preset is not self.preset:
            raise Refused("a ciphertext of another preset")
        phase = (int(words[-1]) - self._product(words[:-1])) % TURN
        return phase - TURN if phase >= TURN // 2 else phase

    def decrypt(self, ciphertext):
        return self.phase(ciphertext) >= 0

    def _product(self, mask):
        return int((mask.astype(np.int64) * self.s).sum()) % TURN


def read_ciphertext(data):
    """The preset and the n + 1 words of a ciphertext's frame."""
    preset, _, payload = read_frame(data, CIPHERTEXT)
    if len(payload) != 4 * (preset.n + 1):
        raise Refused("not a ciphertext of its preset")
    return preset, np.frombuffer(payload, dtype="<u4")


def read_seeded_ciphertexts(data):
    """The preset, the seed and the bodies of a frame of seeded ciphertexts."""
    preset, _, payload = read_frame(data, SEEDED_CIPHERTEXTS)
    if len(payload) < 36 or len(payload) % 4:
        raise Refused("not a seed and bodies")
    return preset, payload[:32], np.frombuffer(payload[32:], dtype="<u4")


def expand(data):
    """The ciphertexts of a seeded frame, each as a frame."""
    preset, seed, bodies = read_seeded_ciphertexts(data)
    masks = (ciphertext_mask(seed, row, preset.n) for row in range(len(bodies)))
    return [write_ciphertext(preset, data[8:16], np.append(mask, body)) for mask, body in zip(masks, bodies)]


def write_ciphertext(preset, fingerprint, words):
    return write_frame(CIPHERTEXT, preset, fingerprint, np.asarray(words).astype("<u4").tobytes())


@dataclass
class EvaluationKey:
    """Seed and bodies: [n, l, k + 1, N] residues and [kN, t] torus words. The version says how gates switch the modulus."""

    preset: Preset
    fingerprint: bytes
    seed: bytes
    bootstrap: np.ndarray
    key_switch: np.ndarray
    version: int

    @staticmethod
    def generate(secret, seed=None, ring_noise=None, lwe_noise=None, version=VERSION_CENTRED):
        """The evaluation key of a secret key. Without a given seed or noise (of every body word, in order), they are drawn."""
        preset = secret.preset
        seed = os.urandom(32) if seed is None else seed
        if ring_noise is None:
            ring_noise = gaussian(preset.ring_std * Q, preset.bootstrap_rows * preset.N)
        if lwe_noise is None:
            lwe_noise = gaussian(preset.lwe_std * TURN, preset.key_switch_rows)
        bootstrap = _bootstrap_bodies(secret, seed, ring_noise)
        key_switch = _key_switch_bodies(secret, seed, lwe_noise)
        return EvaluationKey(preset, secret.fingerprint, seed, bootstrap, key_switch, version)

    def to_bytes(self):
        p = self.preset
        shape = struct.pack("<8I", p.n, p.k, p.N, p.log_b, p.l, p.d, p.t, Q)
        bodies = self.bootstrap.astype("<u4").tobytes() + self.key_switch.astype("<u4").tobytes()
        return write_frame(EVALUATION_KEY, p, self.fingerprint, shape + self.seed + bodies, self.version)


def _bootstrap_bodies(secret, seed, noise):
    p = secret.preset
    bodies = np.empty((p.bootstrap_rows, p.N), dtype=np.int64)
    for first in range(0, p.bootstrap_rows, ROWS_AT_A_TIME):
        rows = range(first, min(first + ROWS_AT_A_TIME, p.bootstrap_rows))
        masks = np.stack([residue_mask(seed, row, p.k * p.N) for row in rows]).reshape(-1, p.k, p.N)
        bodies[rows.start : rows.stop] = Transformed(masks).products(secret.S, sum_axis=1)
    bodies += np.asarray(noise).reshape(bodies.shape)
    bodies = bodies.reshape(p.n, p.l, p.k + 1, p.N)
    for j, gadget in enumerate(p.ring_gadget):
        message = secret.s * gadget
        bodies[:, j, : p.k, :] -= message[:, None, None] * secret.S
        bodies[:, j, p.k, 0] += message
    return bodies % Q


def _key_switch_bodies(secret, seed, noise):
    p = secret.preset
    z = secret.S.reshape(-1)
    gadget = np.array(p.key_switch_gadget, dtype=np.int64)
    masks = (torus_mask(seed, row, p.n).astype(np.int64) for row in range(p.key_switch_rows))
    products = np.fromiter(((mask * secret.s).sum() for mask in masks), dtype=np.int64, count=p.key_switch_rows)
    bodies = products.reshape(-1, p.t) + np.asarray(noise).reshape(-1, p.t) + z[:, None] * gadget
    return bodies % TURN


# ----------------------------------------------------------------- noise (6)
def gaussian(std, count):
    """Rounded Gaussian samples from the operating system's randomness (Box and Muller's method)."""
    pairs = (count + 1) // 2
    words = np.frombuffer(os.urandom(16 * pairs), dtype="<u8").reshape(2, pairs)
    radius = np.sqrt(-2 * np.log((words[0].astype(np.float64) + 1) * 2.0**-64))
    angle = 2 * np.pi * (words[1] >> np.uint64(11)).astype(np.float64) * 2.0**-53
    samples = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]
    return np.rint(samples * std).astype(np.int64)
