"""RNS-CKKS from its definitions: exact integers, schoolbook products, transforms by evaluation. No library.

A polynomial is a list of N whole numbers, its coefficients in natural order, modulo X^N + 1. A level is a set of
primes; a polynomial of a level has coefficients modulo their product.
"""

import functools
import itertools
import math

from aes256 import key_stream

DOMAIN_KEY = 4
DOMAIN_PUBLIC_KEY = 5
DOMAIN_CIPHERTEXT = 6

# The rounding of a quotient this near to a half is not defined, because the product computes fractions in 28 bits.
TIE = 2.0**-24


class Tie(Exception):
    """An input needs the rounding of a fraction near to a half."""


# ---- masks


def residues(seed, domain, row, q, count):
    """The low bits of each word of the row's stream, as many as `q` has, without values at or above `q`."""
    stream = key_stream(seed, domain.to_bytes(4, "big") + row.to_bytes(8, "big"))
    words = []
    while len(words) < count:
        word = int.from_bytes(bytes(itertools.islice(stream, 4)), "little") % 2 ** q.bit_length()
        if word < q:
            words.append(word)
    return words


# ---- transforms


def generator(q):
    """The least generator of the multiplicative group modulo a prime."""
    factors, rest, p = [], q - 1, 2
    while rest > 1:
        if p * p > rest:
            p = rest
        if rest % p == 0:
            factors.append(p)
            while rest % p == 0:
                rest //= p
        p += 1
    return next(g for g in range(2, q) if all(pow(g, (q - 1) // p, q) != 1 for p in factors))


@functools.lru_cache(maxsize=None)
def points(q, n):
    """The point of value i of a transform: psi^(2 bitreverse(i) + 1)."""
    psi = pow(generator(q), (q - 1) // (2 * n), q)
    assert pow(psi, n, q) == q - 1
    bits = n.bit_length() - 1
    return [pow(psi, 2 * int(f"{i:0{bits}b}"[::-1], 2) + 1, q) for i in range(n)]


@functools.lru_cache(maxsize=None)
def powers(q, n, inverse):
    """Row i: the powers 0 to n - 1 of point i, or of its inverse."""
    return [[pow(point, -k if inverse else k, q) for k in range(n)] for point in points(q, n)]


def forward(a, q):
    """Coefficients to values."""
    return [sum(map(int.__mul__, row, a)) % q for row in powers(q, len(a), False)]


def inverse(values, q):
    """Values to coefficients."""
    n = len(values)
    rows, scale = powers(q, n, True), pow(n, -1, q)
    return [scale * sum(value * row[k] for value, row in zip(values, rows)) % q for k in range(n)]


# ---- polynomials


def add(a, b):
    return [x + y for x, y in zip(a, b)]


def times(a, factor):
    return [x * factor for x in a]


def multiply(a, b):
    """The product modulo X^N + 1."""
    n = len(a)
    product = [0] * (2 * n)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] += x * y
    return [product[k] - product[k + n] for k in range(n)]


def reduce(a, modulus):
    return [x % modulus for x in a]


def substitute(a, element):
    """a(X^element), for an odd element."""
    n = len(a)
    result = [0] * n
    for k, x in enumerate(a):
        power = k * element % (2 * n)
        result[power % n] = x if power < n else -x
    return result


def centred(a, modulus):
    """The representatives nearest to 0."""
    for x in a:
        if abs((x % modulus) / modulus - 0.5) < TIE:
            raise Tie
    return [(x + modulus // 2) % modulus - modulus // 2 for x in a]


def divided(z, divisor):
    """z / divisor, rounded to nearest."""
    return [(x - y) // divisor for x, y in zip(z, centred(z, divisor))]


def from_values(rows, primes):
    """The polynomial modulo the product of the primes that has these values modulo each prime."""
    modulus = math.prod(primes)
    result = [0] * len(rows[0])
    for row, q in zip(rows, primes):
        others = modulus // q
        result = add(result, times(inverse(row, q), others * pow(others, -1, q)))
    return reduce(result, modulus)


def to_values(a, primes):
    """The values modulo each prime."""
    return [forward(reduce(a, q), q) for q in primes]


# ---- levels, keys and operations


class Scheme:
    """Operations under a parameter set: `given` is an entry of ckks_params.json."""

    def __init__(self, given):
        self.n = given["poly_degree"]
        self.primes = given["primes"]
        self.levels = [set(level["primes"]) for level in given["levels"]]
        self.lowered = {(way["level"], way["to"]): way["divided"] for way in given["lowered"]}
        self.special = set(range(len(self.primes) - given["special"], len(self.primes)))
        self.p = self.product(self.special)

    def product(self, indices):
        return math.prod(self.primes[i] for i in indices)

    def modulus(self, level):
        return self.product(self.levels[level])

    def step(self, level, to):
        """The product of the primes that a step between levels divides by, and the product of those that it adds.

        A step to the next level divides by all leaving primes. Further down, the parameters name some of them. The others
        are dropped, because a polynomial modulo a product is also one modulo each factor.
        """
        leaving = self.levels[level] - self.levels[to]
        divided = set(self.lowered.get((level, to), leaving))
        assert divided <= leaving
        return self.product(divided), self.product(self.levels[to] - self.levels[level])

    def rescale(self, x, level, to, factor):
        lost, gained = self.step(level, to)
        return reduce(divided(times(x, gained * factor), lost), self.modulus(to))

    def switch(self, x, level, key):
        """(u, v) with u + v s' = P x s'' plus noise, modulo the level's primes and P."""
        modulus = self.modulus(level) * self.p
        u = v = [0] * self.n
        for digit, (b, a) in zip(key.digits, key.rows):
            held = self.levels[level] & set(digit)
            if held:
                d = centred(x, self.product(held))
                u, v = add(u, multiply(d, b)), add(v, multiply(d, a))
        return reduce(u, modulus), reduce(v, modulus)

    def multiply(self, a, b, level, to, key):
        (a0, a1), (b0, b1) = a, b
        lost, gained = self.step(level, to)
        uv = self.switch(reduce(multiply(a1, b1), self.modulus(level)), level, key)
        plain = multiply(a0, b0), add(multiply(a0, b1), multiply(a1, b0))
        sums = (times(add(x, times(d, self.p)), gained) for x, d in zip(uv, plain))
        return [reduce(divided(z, self.p * lost), self.modulus(to)) for z in sums]

    def automorphism(self, a, level, key):
        u, v = self.switch(a[1], level, key)
        u = add(u, times(a[0], self.p))
        return [reduce(substitute(divided(x, self.p), key.element), self.modulus(level)) for x in (u, v)]


class Key:
    """A part of an evaluation key: `given` is one of a parameter set's `parts`.

    Row j encrypts P s'' under s' modulo the primes of digit j, and 0 modulo the others. Relinearization (element 0):
    s'' = s^2 and s' = s. An automorphism: s'' = s and s'(X^element) = s.
    """

    def __init__(self, scheme, given, secret, seeds, noises):
        self.element = given["element"]
        self.digits = given["digits"]
        self.primes = given["primes"]
        self.seeds = seeds
        primes = [scheme.primes[i] for i in self.primes]
        modulus = math.prod(primes)
        if self.element == 0:
            source, target = multiply(secret, secret), secret
        else:
            source, target = secret, substitute(secret, pow(self.element, -1, 2 * scheme.n))
        self.rows = []
        for digit, seed, noise in zip(self.digits, seeds, noises):
            masks = [residues(seed, DOMAIN_KEY, i, scheme.primes[i], scheme.n) for i in self.primes]
            a = from_values(masks, primes)
            own = scheme.product(digit)
            indicator = modulus // own * pow(modulus // own, -1, own)
            b = add(add(times(multiply(a, target), -1), noise), times(source, scheme.p * indicator))
            self.rows.append((reduce(b, modulus), a))
