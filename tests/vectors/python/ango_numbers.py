"""Keys and ciphertexts of numbers, from docs/wire-format.md alone. Section numbers below are that page's.

The primes and levels of a parameter set come from a node (`GET /api/v1/params/suggest`, or `params` of a key).
"""

import functools
import hashlib
import itertools
import math
import operator
import os
import struct

import numpy as np

from ango_client import gaussian, stream_words

SECRET_KEY, PUBLIC_KEY, EVALUATION_KEY, CIPHERTEXT = 5, 6, 7, 8
DOMAIN_KEY, DOMAIN_PUBLIC_KEY, DOMAIN_CIPHERTEXT = 4, 5, 6
RELINEARIZATION, GALOIS, TO_SPARSE, FROM_SPARSE = 1, 2, 3, 4
SECURITY = {"testing": 0, "128-bit": 1, "192-bit": 2, "256-bit": 3}
NOISE_STD = 3.2
DIGIT_PRIMES_MAX = 7


class Params:
    """`told`: the parameters as a node tells them."""

    def __init__(self, told):
        self.n = told["poly_degree"]
        self.slots = self.n // 2
        self.scale_bits, self.max_depth = told["scale_bits"], told["max_depth"]
        self.primes = told["modulus_chain"]
        self.levels = [level["primes"] for level in told["levels"]]
        self.scales = [level["scale"] for level in told["levels"]]
        self.special = list(range(len(self.primes) - told["special_primes"], len(self.primes)))
        log_n, security = self.n.bit_length() - 1, SECURITY[told["security_level"]]
        self.block = bytes([log_n, self.scale_bits, self.max_depth, security, told["bootstrap"], 1 + 2 * told["bootstrap"], 0, 0])
        self.rings = [Ring(q, self.n) for q in self.primes]

    def of_ciphertexts(self, level):
        """The ciphertext primes of a part of this level (17)."""
        return sorted({i for primes in self.levels[: level + 1] for i in primes})

    def special_of(self, kind):
        """The special primes of a part (17): to the sparse secret, as few as make at least the modulus of level 0."""
        if kind != TO_SPARSE:
            return self.special
        bottom = math.prod(self.primes[i] for i in self.levels[0])
        products = itertools.accumulate((self.primes[i] for i in self.special), operator.mul)
        return self.special[: 1 + sum(product < bottom for product in products)]

    def p(self, kind):
        """The product of a part's special primes."""
        return math.prod(self.primes[i] for i in self.special_of(kind))

    def digits(self, kind, level):
        """The groups of primes, one for each row of a part (17)."""
        excess = max(2, max(self.scale_bits, 25) - 12) if kind == RELINEARIZATION else 2
        most = math.log2(self.p(kind)) + excess
        groups, filled = [], math.inf
        for i in self.of_ciphertexts(level):
            bits = math.log2(self.primes[i])
            if groups and len(groups[-1]) < DIGIT_PRIMES_MAX and filled + bits <= most:
                groups[-1].append(i)
                filled += bits
            else:
                groups.append([i])
                filled = bits
        return groups

    def transform(self, coefficients, primes):
        """Coefficients to values, a row for each of the primes."""
        return np.stack([self.rings[i].forward(np.asarray(coefficients) % self.primes[i]) for i in primes])

    def mask(self, seed, domain, primes):
        return np.stack([mask(seed, domain, i, self.primes[i], self.n) for i in primes])


# ------------------------------------------------- masks, transform, packing (14)
def mask(seed, domain, row, q, count):
    """By rejection sampling: the low bits of each word, unless they are not below q."""
    drawn = count + 64
    while True:
        words = stream_words(seed, domain, row, drawn) & np.uint32((1 << q.bit_length()) - 1)
        words = words[words < q]
        if len(words) >= count:
            return words[:count].astype(np.int64)
        drawn *= 2


class Ring:
    """Polynomials modulo a prime below 2^30 and X^N + 1."""

    def __init__(self, q, n):
        self.q, self.n = q, n

    @functools.cached_property
    def roots(self):
        """psi^rev(i) for i below N, and the inverses."""
        psi = pow(generator(self.q), (self.q - 1) // (2 * self.n), self.q)
        return [self._powers(root) for root in (psi, pow(psi, -1, self.q))]

    def _powers(self, root):
        powers, length = np.array([1], dtype=np.int64), 1
        while length < self.n:
            # psi^rev(i) for the next half of the indices: the new top bit of i is the lowest bit of rev(i)
            powers = np.concatenate([powers, powers * pow(root, self.n // (2 * length), self.q) % self.q])
            length *= 2
        return powers

    def forward(self, coefficients):
        """Value i is at psi^(2 rev(i) + 1)."""
        a, blocks = np.array(coefficients, dtype=np.int64).reshape(1, self.n), 1
        while blocks < self.n:
            a = a.reshape(blocks, 2, -1)
            twisted = a[:, 1] * self.roots[0][blocks : 2 * blocks, None] % self.q
            a = np.stack([a[:, 0] + twisted, a[:, 0] - twisted], axis=1) % self.q
            blocks *= 2
        return a.reshape(self.n)

    def inverse(self, values):
        a, blocks = np.array(values, dtype=np.int64), self.n
        while blocks > 1:
            blocks //= 2
            a = a.reshape(blocks, 2, -1)
            low, high = a[:, 0], a[:, 1]
            a = np.stack([low + high, (low - high) % self.q * self.roots[1][blocks : 2 * blocks, None]], axis=1) % self.q
        return a.reshape(self.n) * pow(self.n, -1, self.q) % self.q


def generator(q):
    """The least generator of the multiplicative group modulo q."""
    factors, rest, p = [], q - 1, 2
    while p * p <= rest:
        if rest % p == 0:
            factors.append(p)
            while rest % p == 0:
                rest //= p
        p += 1
    factors += [rest] if rest > 1 else []
    return next(g for g in range(2, q) if all(pow(g, (q - 1) // f, q) != 1 for f in factors))


def pack(row, q):
    """Bit b of value i is bit i * bits(q) + b."""
    bits = q.bit_length()
    table = (np.asarray(row, dtype=np.int64)[:, None] >> np.arange(bits)) & 1
    return np.packbits(table.astype(np.uint8).reshape(-1), bitorder="little").tobytes()


def unpack(data, q, n):
    bits = q.bit_length()
    table = np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little")[: n * bits]
    return table.reshape(n, bits).astype(np.int64) @ (1 << np.arange(bits))


def packed_bytes(q, n):
    return (n * q.bit_length() + 7) // 8


# -------------------------------------------------------------------- slots (19)
def powers_of_five(n):
    """5^i modulo 2N for each slot i."""
    powers = [1]
    while len(powers) < n // 2:
        powers.append(powers[-1] * 5 % (2 * n))
    return np.array(powers)


def encode(numbers, scale, n):
    """The coefficients, as whole numbers, of the polynomial with the value scale * z_i at zeta^(5^i)."""
    at = powers_of_five(n)
    values = np.zeros(2 * n, dtype=np.complex128)
    values[at] = numbers
    values[2 * n - at] = np.conj(numbers)
    coefficients = np.fft.fft(values)[:n].real * (scale / n)
    if np.abs(coefficients).max() < 2**62:
        return np.rint(coefficients).astype(np.int64)
    return np.array([round(x) for x in coefficients.tolist()], dtype=object)


def decode(coefficients, scale, n):
    values = np.fft.ifft(np.array([float(x) for x in coefficients]) / scale, 2 * n) * (2 * n)
    return values[powers_of_five(n)]


# ------------------------------------------------------------------- frames (2)
def frame(kind, fingerprint, payload, checked=None):
    head = b"ANGO" + struct.pack("<HBB8sQ", 1, kind, 0, fingerprint, len(payload))
    checked = payload if checked is None else checked
    return head + hashlib.sha256(head + checked).digest()[:8] + payload


def open_frame(data, kind):
    magic, version, found, preset, fingerprint, length, checksum = struct.unpack_from("<4sHBB8sQ8s", data)
    payload = data[32:]
    assert (magic, version, found, preset, length) == (b"ANGO", 1, kind, 0, len(payload)), "the frame's header"
    assert hashlib.sha256(data[:24] + payload).digest()[:8] == checksum, "the frame's checksum"
    return fingerprint, payload


def ternary(n):
    return np.frombuffer(os.urandom(8 * n), dtype="<u8").astype(object) % 3 - 1


def noise(n):
    return gaussian(NOISE_STD, n)


# --------------------------------------------------------------------- keys (15 to 17)
class SecretKey:
    """`secret`: coefficients in {-1, 0, 1}."""

    def __init__(self, params, secret=None, fingerprint=None):
        self.params = params
        self.secret = np.array(ternary(params.n) if secret is None else secret, dtype=np.int64)
        self.fingerprint = fingerprint or bytes([1]) + os.urandom(7)
        # one load of the key has one sparse secret, which both parts of bootstrapping use
        self.sparse = sparse_secret(params.n)

    def to_bytes(self):
        coefficients = (self.secret & 0xFF).astype(np.uint8).tobytes()
        return frame(SECRET_KEY, self.fingerprint, self.params.block + coefficients)

    def public_key(self):
        """Of the highest level of ciphertexts."""
        params, level, seed = self.params, self.params.max_depth, os.urandom(32)
        b = self._masked(params.mask(seed, DOMAIN_PUBLIC_KEY, params.levels[level]), noise(params.n), params.levels[level])
        payload = params.block + bytes([level, 0, 0, 0]) + seed + rows_to_bytes(params, b, params.levels[level])
        return frame(PUBLIC_KEY, self.fingerprint, payload)

    def evaluation_key(self, parts):
        """`parts`: kind, Galois element (else 0) and level of each."""
        key_rows = [row for kind, element, level in parts for row in self.part(kind, element, level)]
        first = self.params.block + struct.pack("<I", len(key_rows))
        return frame(EVALUATION_KEY, self.fingerprint, first + b"".join(key_rows), first)

    def part(self, kind, element, level):
        """The rows of a part, in the order of its digits."""
        params = self.params
        primes, digits = params.of_ciphertexts(level) + params.special_of(kind), params.digits(kind, level)
        source, target = self.secret, self.secret
        if kind == GALOIS:
            target = substitute(self.secret, pow(element, -1, 2 * params.n))
        elif kind == TO_SPARSE:
            target = self.sparse
        elif kind == FROM_SPARSE:
            source = self.sparse
        under = params.transform(target, primes)
        from_ = params.transform(source, primes)
        q = np.array([params.primes[i] for i in primes])[:, None]
        if kind == RELINEARIZATION:
            from_ = from_ * from_ % q
        from_ = from_ * np.array([params.p(kind) % params.primes[i] for i in primes])[:, None] % q
        for number, digit in enumerate(digits):
            seed = os.urandom(32)
            body = self._masked(params.mask(seed, DOMAIN_KEY, primes), noise(params.n), primes, under)
            of_digit = [at for at, i in enumerate(primes) if i in digit]
            body[of_digit] = (body[of_digit] + from_[of_digit]) % q[of_digit]
            head = bytes([kind, level, number, len(digits)]) + struct.pack("<I", element) + seed
            data = rows_to_bytes(params, body, primes)
            yield head + hashlib.sha256(params.block + head + data).digest()[:8] + data

    def _masked(self, a, message, primes, under=None):
        """-a s + message, as values."""
        params = self.params
        under = params.transform(self.secret, primes) if under is None else under
        q = np.array([params.primes[i] for i in primes])[:, None]
        return (params.transform(message, primes) - a * under) % q

    # ------------------------------------------------------ ciphertexts (18)
    def encrypt(self, numbers, bound, level=None):
        """A seeded ciphertext."""
        params = self.params
        level = params.max_depth if level is None else level
        scale, primes, seed = params.scales[level], params.levels[level], os.urandom(32)
        message = encode(padded(numbers, params), scale, params.n) + noise(params.n)
        c0 = self._masked(params.mask(seed, DOMAIN_CIPHERTEXT, primes), message, primes)
        record = (scale, bound, NOISE_STD**2 + 1 / 12 + encoding_variance(params.n, scale, bound))
        return write_ciphertext(params, self.fingerprint, level, record, c0, seed)

    def decrypt(self, data):
        """The numbers of a ciphertext, complex, and the bound on their error."""
        params = self.params
        level, (scale, bound, variance), c0, c1 = read_ciphertext(params, self.fingerprint, data)
        primes = params.levels[level]
        error = error_bound(params.n, scale, variance)
        largest = scale * (bound + math.sqrt(2) * error)
        taken, product = 0, 1
        while product <= 2 * largest:
            product *= params.primes[primes[taken]]
            taken += 1
        taken = max(taken, 1)
        q = [params.primes[i] for i in primes[:taken]]
        under = params.transform(self.secret, primes[:taken])
        phase = (c0[:taken] + c1[:taken] * under) % np.array(q)[:, None]
        residues = [params.rings[i].inverse(row).tolist() for i, row in zip(primes, phase)]
        return decode(centred(residues, q), scale, params.n), error + bound * 2.0**-49


def encrypt_public(params, public_key, numbers, bound):
    """A ciphertext of two polynomials by the public key (16)."""
    fingerprint, payload = open_frame(public_key, PUBLIC_KEY)
    assert payload[:8] == params.block and payload[9:12] == bytes(3)
    level, seed = payload[8], payload[12:44]
    primes, scale = params.levels[level], params.scales[level]
    b, rest = rows_from_bytes(params, payload[44:], primes)
    assert not rest
    a = params.mask(seed, DOMAIN_PUBLIC_KEY, primes)
    u = params.transform(np.array(ternary(params.n), dtype=np.int64), primes)
    q = np.array([params.primes[i] for i in primes])[:, None]
    message = encode(padded(numbers, params), scale, params.n)
    c0 = (b * u + params.transform(message + noise(params.n), primes)) % q
    c1 = (a * u + params.transform(noise(params.n), primes)) % q
    variance = NOISE_STD**2 * (1 + 4 * params.n / 3) + 1 / 12 + encoding_variance(params.n, scale, bound)
    return write_ciphertext(params, fingerprint, level, (scale, bound, variance), np.concatenate([c0, c1]))


def write_ciphertext(params, fingerprint, level, record, rows, seed=b""):
    primes = params.levels[level] * (len(rows) // len(params.levels[level]))
    head = params.block + bytes([level, 1 if seed else 0, 0, 0]) + struct.pack("<3d", *record)
    return frame(CIPHERTEXT, fingerprint, head + seed + rows_to_bytes(params, rows, primes))


def read_ciphertext(params, fingerprint, data):
    """The level, the record (scale, bound, variance), and the values of both polynomials."""
    found, payload = open_frame(data, CIPHERTEXT)
    assert found == fingerprint and payload[:8] == params.block
    # byte 10 tells whether an operation may have put numbers behind the first slots
    assert payload[10] in (0, 1) and payload[11] == 0
    level, form = payload[8], payload[9]
    record, primes, rest = struct.unpack_from("<3d", payload, 12), params.levels[level], payload[36:]
    seed, rest = (rest[:32], rest[32:]) if form == 1 else (None, rest)
    c0, rest = rows_from_bytes(params, rest, primes)
    if seed:
        c1 = params.mask(seed, DOMAIN_CIPHERTEXT, primes)
    else:
        c1, rest = rows_from_bytes(params, rest, primes)
    assert not rest, "bytes behind the rows"
    return level, record, c0, c1


def rows_to_bytes(params, rows, primes):
    return b"".join(pack(row, params.primes[i]) for row, i in zip(rows, primes))


def rows_from_bytes(params, data, primes):
    rows = []
    for i in primes:
        size = packed_bytes(params.primes[i], params.n)
        rows.append(unpack(data[:size], params.primes[i], params.n))
        data = data[size:]
    return np.stack(rows), data


def error_bound(n, scale, variance):
    """What every slot's error is below, but for the decoder's own roundings (18)."""
    t = (39 + math.log2(n)) * math.log(2) / math.sqrt(2)
    return t * math.sqrt(n * variance / 2) / scale


def encoding_variance(n, scale, bound):
    return 2 * (1.5 * 2.0**-53 * scale * bound) ** 2 / n


def centred(residues, primes):
    """The whole numbers nearest to 0 with these residues."""
    product = math.prod(primes)
    weights = [product // q * pow(product // q, -1, q) for q in primes]
    sums = (sum(map(int.__mul__, column, weights)) % product for column in zip(*residues))
    return [x - product if 2 * x > product else x for x in sums]


def padded(numbers, params):
    return np.concatenate([np.asarray(numbers), np.zeros(params.slots - len(numbers))])


def substitute(a, element):
    """a(X^element)."""
    n = len(a)
    power = np.arange(n) * element % (2 * n)
    result = np.zeros_like(a)
    result[power % n] = np.where(power < n, a, -a)
    return result


def sparse_secret(n):
    """min(N / 4, 32) coefficients are 1 or -1 (17)."""
    weight = min(n // 4, 32)
    order = np.argsort(np.frombuffer(os.urandom(8 * n), dtype="<u8"))
    secret = np.zeros(n, dtype=np.int64)
    secret[order[:weight]] = 1 - 2 * (np.frombuffer(os.urandom(weight), dtype=np.uint8).astype(np.int64) & 1)
    return secret


# --------------------------------------------------- parts of an evaluation key (17)
def rotation(n, steps):
    """The Galois element of a rotation to the left."""
    return pow(5, steps % (n // 2), 2 * n)


def parts_for_operations(params):
    """For products and for all rotations, in as many steps as a number has bits: the rotations by powers of two."""
    top = params.max_depth
    steps = [1 << bit for bit in range(params.slots.bit_length() - 1)]
    return [(RELINEARIZATION, 0, top)] + [(GALOIS, rotation(params.n, step), top) for step in steps]


# steps to the left, and levels above `max_depth`: the table of section 17
BOOTSTRAP_ROTATIONS = {
    64: [(-8, 12), (8, 12), (16, 12), (-7, 11), (1, 11), (4, 11)],
    256: [(-48, 12), (16, 12), (64, 12), (-15, 11), (1, 11), (4, 11)],
    32768: [(-8064, 12), (128, 12), (2048, 12), (-127, 11), (1, 11), (16, 11)],
}


def parts_for_bootstrapping(params):
    """The parts of a complete key of parameters with levels for bootstrapping."""
    top = len(params.levels) - 1
    highest = {(kind, element): level for kind, element, level in parts_for_operations(params)}
    more = [(RELINEARIZATION, 0, params.max_depth + 10), (TO_SPARSE, 0, 0), (FROM_SPARSE, 0, top)]
    more.append((GALOIS, 2 * params.n - 1, params.max_depth + 10))
    more += [(GALOIS, rotation(params.n, steps), params.max_depth + above) for steps, above in BOOTSTRAP_ROTATIONS[params.n]]
    for kind, element, level in more:
        highest[kind, element] = max(level, highest.get((kind, element), 0))
    return [(kind, element, level) for (kind, element), level in highest.items()]
