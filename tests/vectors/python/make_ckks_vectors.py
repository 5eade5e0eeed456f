"""Reads ../ckks_params.json and writes ../ckks.json. The output has no randomness: every run gives the same bytes."""

import base64
import hashlib
import itertools
import json
import math
import pathlib
import struct
from decimal import Decimal

import ckks_encode
from ckks_arithmetic import (
    DOMAIN_CIPHERTEXT,
    DOMAIN_KEY,
    DOMAIN_PUBLIC_KEY,
    TIE,
    Key,
    Scheme,
    Tie,
    add,
    divided,
    forward,
    from_values,
    multiply,
    reduce,
    residues,
    substitute,
    times,
    to_values,
)

FOLDER = pathlib.Path(__file__).resolve().parent.parent
NOISE_MAX = 8


def main():
    given = json.loads((FOLDER / "ckks_params.json").read_text())
    answers = [SetAnswers(entry).answers() for entry in given]
    (FOLDER / "ckks.json").write_text(listed(map(lined, answers)))


def lined(answers):
    """One answer on each line."""
    return "{" + ",\n".join(f'"{name}": {listed(map(json.dumps, entries))}' for name, entries in answers.items()) + "}"


def listed(entries):
    return "[\n" + ",\n".join(entries) + "\n]\n"


class SetAnswers:
    """The answers of a parameter set."""

    def __init__(self, given):
        self.given = given
        self.scheme = Scheme(given)
        self.n = self.scheme.n
        self.name = f"{self.n} {given['scale_bits']} {given['max_depth']}"
        self.secret = [byte % 3 - 1 for byte in self.bytes("secret", self.n)]
        self.keys = [self.key(number, part) for number, part in enumerate(given["parts"])]
        self.check_scales()

    def answers(self):
        primes = range(len(self.scheme.primes))
        return {
            "masks": [
                self.mask(domain, prime)
                for domain, prime in zip(itertools.cycle((DOMAIN_KEY, DOMAIN_PUBLIC_KEY, DOMAIN_CIPHERTEXT)), primes)
            ],
            "transforms": [self.transform(prime) for prime in primes],
            "parts": [self.part(key) for key in self.keys],
            "operations": list(self.operations()),
            "encodings": list(self.encodings()),
        }

    # ---- inputs

    def bytes(self, label, count):
        return hashlib.shake_256(f"{self.name} {label}".encode()).digest(count)

    def uniform(self, label, modulus):
        """N coefficients."""
        size = (modulus.bit_length() + 7) // 8 + 8
        data = self.bytes(label, self.n * size)
        return [int.from_bytes(data[k * size :][:size], "little") % modulus for k in range(self.n)]

    def edges(self, label, moduli):
        """Coefficients that are alternately just above and just below the half of each of these coprime numbers, modulo that
        number. Small and uniform coefficients stand between them."""
        whole = math.prod(moduli)
        result = self.uniform(label, whole)
        for k in range(self.n):
            if k % 4 == 2:
                result[k] = [0, 1, -1, 2][k // 4 % 4]
            elif k % 4 != 3:
                result[k] = 0
                for place, modulus in enumerate(moduli):
                    distance = int(modulus * TIE) + 2 + k
                    above = (k + place) % 2 == 0
                    residue = modulus // 2 + distance if above else modulus // 2 - distance
                    others = whole // modulus
                    result[k] += residue * others * pow(others, -1, modulus)
        return reduce(result, whole)

    def key(self, number, part):
        seeds = [self.bytes(f"seed {number} {j}", 32) for j in range(len(part["digits"]))]
        noises = [
            [byte % (2 * NOISE_MAX + 1) - NOISE_MAX for byte in self.bytes(f"noise {number} {j}", self.n)]
            for j in range(len(part["digits"]))
        ]
        return Key(self.scheme, part, self.secret, seeds, noises)

    def drawn(self, label, level):
        """A ciphertext of a level, or another uniform value: one polynomial for each seed."""
        seed = self.bytes(label, 32)
        indices = sorted(self.scheme.levels[level])
        primes = [self.scheme.primes[i] for i in indices]
        rows = [residues(seed, DOMAIN_CIPHERTEXT, i, q, self.n) for i, q in zip(indices, primes)]
        return {"seed": seed.hex()}, from_values(rows, primes)

    def told(self, polynomial, level):
        """A ciphertext, or another uniform value, with a given polynomial."""
        return {"words": self.words(polynomial, level)}, polynomial

    def words(self, polynomial, level):
        return text(to_values(polynomial, [self.scheme.primes[i] for i in sorted(self.scheme.levels[level])]))

    # ---- answers

    def mask(self, domain, prime):
        seed = self.bytes(f"mask {domain} {prime}", 32)
        words = residues(seed, domain, prime, self.scheme.primes[prime], self.n)
        return {"domain": domain, "prime": prime, "seed": seed.hex(), "words": text([words])}

    def transform(self, prime):
        q = self.scheme.primes[prime]
        coefficients = self.uniform(f"transform {prime}", q)
        coefficients[:3] = [0, 1, q - 1]
        return {"coefficients": text([coefficients]), "values": text([forward(coefficients, q)])}

    def part(self, key):
        primes = [self.scheme.primes[i] for i in key.primes]
        return {
            "rows": [
                {"seed": seed.hex(), "body": text(to_values(b, primes))} for seed, (b, _) in zip(key.seeds, key.rows)
            ]
        }

    def operations(self):
        """Each operation, with operands for which no rounding is a tie."""
        top = len(self.scheme.levels) - 1
        for part, key in enumerate(self.keys):
            for level in range(self.given["parts"][part]["level"] + 1):
                if key.element:
                    yield self.retried(self.automorphism, part, level)
                else:
                    yield self.retried(self.product, part, level, max(level - 1, 0), False)
                    if level == 3:
                        yield self.retried(self.product, part, level, 1, False)
                    if level in (1, top):
                        yield self.retried(self.product, part, level, level, True)
        for level, to, factor in [(1, 0, 1), (2, 1, 1), (3, 2, 1), (3, 2, 2**100 + 7), (2, 0, 3), (3, 1, 1), (3, 0, 1)]:
            yield self.retried(self.rescaling, level, to, factor)
        yield self.product_with_plain(top)
        for factor in (-3, 2**127 - 1, -(2**127)):
            yield self.product_with_integer(1, factor)

    @staticmethod
    def retried(make, *arguments):
        for attempt in itertools.count():
            try:
                return make(f"{make.__name__} {arguments} {attempt}", *arguments)
            except Tie:
                continue

    def product(self, label, part, level, to, edged):
        a0, a1, b0, b1 = (self.drawn(f"{label} {name}", level) for name in ("a0", "a1", "b0", "b1"))
        key = self.keys[part]
        if edged:
            # a1 times b1 is a1, whose digits have edge values
            a1 = self.told(self.edges(label, self.digits(level, key)), level)
            b1 = self.told([1] + [0] * (self.n - 1), level)
        a, b = (a0[1], a1[1]), (b0[1], b1[1])
        result = self.scheme.multiply(a, b, level, to, key)
        lost, gained = self.scheme.step(level, to)
        wanted = divided(times(multiply(self.phase(a), self.phase(b)), gained), lost)
        self.check_noise(result, wanted, level, to, key)
        answer = {"op": "multiply", "level": level, "part": part, "to": to}
        return {**answer, "a": [a0[0], a1[0]], "b": [b0[0], b1[0]], **self.result(result, to)}

    def automorphism(self, label, part, level):
        key = self.keys[part]
        a0 = self.drawn(f"{label} a0", level)
        a1 = self.told(self.edges(label, self.digits(level, key)), level)
        a = a0[1], a1[1]
        result = self.scheme.automorphism(a, level, key)
        self.check_noise(result, substitute(self.phase(a), key.element), level, level, key)
        answer = {"op": "automorphism", "level": level, "part": part}
        return {**answer, "a": [a0[0], a1[0]], **self.result(result, level)}

    def rescaling(self, label, level, to, factor):
        scheme = self.scheme
        a0, a1 = self.drawn(f"{label} a0", level), self.drawn(f"{label} a1", level)
        if factor == 1:
            # the part that is rounded away has edge values: modulo the lost primes, it is x times the gained primes
            lost, gained = scheme.step(level, to)
            kept = scheme.modulus(level) // lost
            inverse = pow(gained, -1, lost) * kept * pow(kept, -1, lost)
            edges = add(times(self.edges(label, [lost]), inverse), times(self.uniform(f"{label} kept", kept), lost))
            a1 = self.told(reduce(edges, scheme.modulus(level)), level)
        result = [scheme.rescale(x, level, to, factor) for x in (a0[1], a1[1])]
        answer = {"op": "rescale", "level": level, "to": to, "factor": str(factor)}
        return {**answer, "a": [a0[0], a1[0]], **self.result(result, to)}

    def product_with_plain(self, level):
        a0, a1, plain = (self.drawn(f"plain {name}", level) for name in ("a0", "a1", "plain"))
        result = [reduce(multiply(x, plain[1]), self.scheme.modulus(level)) for x in (a0[1], a1[1])]
        answer = {"op": "multiply_plain", "level": level}
        return {**answer, "a": [a0[0], a1[0]], "plain": [plain[0]], **self.result(result, level)}

    def product_with_integer(self, level, factor):
        a0, a1 = (self.drawn(f"integer {factor} {name}", level) for name in ("a0", "a1"))
        result = [reduce(times(x, factor), self.scheme.modulus(level)) for x in (a0[1], a1[1])]
        answer = {"op": "multiply_integer", "level": level, "factor": str(factor)}
        return {**answer, "a": [a0[0], a1[0]], **self.result(result, level)}

    def encodings(self):
        """Real slots, complex slots, one slot alone, and large slots, at the scales of the highest and the lowest
        level."""
        count = self.n // 2
        for level in (len(self.scheme.levels) - 1, 0):
            draw = self.bytes(f"slots {level}", 8 * self.n)
            numbers = [x / 2**62 for (x,) in struct.iter_unpack("<q", draw)]
            yield self.encoding(level, numbers[:count])
            yield self.encoding(level, numbers[:count], numbers[count:])
            yield self.encoding(level, [0.0] * 3 + [1.0] + [0.0] * (count - 4))
            yield self.encoding(level, [16.0 * x for x in numbers[count:]])

    def encoding(self, level, real, imaginary=None):
        imaginary = imaginary or [0.0] * len(real)
        scale = Decimal(float(self.given["levels"][level]["scale"]))
        slots = [(Decimal(x), Decimal(y)) for x, y in zip(real, imaginary)]
        coefficients = [int(x.to_integral_value()) for x in ckks_encode.encode(slots, scale, self.n)]
        decoded = ckks_encode.decode(coefficients, scale)
        # each coefficient is rounded by at most half a unit
        for slot, back in zip(slots, decoded):
            assert all(abs(x - y) * scale <= Decimal(self.n) / 2 for x, y in zip(slot, back))
        return {
            "level": level,
            "slots": [[repr(x), repr(y)] for x, y in zip(real, imaginary)],
            "coefficients": coefficients,
            "decoded": [[repr(float(x)), repr(float(y))] for x, y in decoded],
        }

    # ---- of results

    def result(self, polynomials, level):
        return {"result": [self.words(x, level) for x in polynomials]}

    def digits(self, level, key):
        held = (self.scheme.levels[level] & set(digit) for digit in key.digits)
        return [self.scheme.product(digit) for digit in held if digit]

    def phase(self, ciphertext):
        """The decrypted numbers."""
        return add(ciphertext[0], multiply(ciphertext[1], self.secret))

    def check_scales(self):
        """The rescaled product of two ciphertexts with a level's scale has the scale of the level below."""
        scales = [float(level["scale"]) for level in self.given["levels"]]
        for level in range(1, len(scales)):
            lost, gained = self.scheme.step(level, level - 1)
            assert math.isclose(scales[level] ** 2 * gained / lost, scales[level - 1], rel_tol=1e-14)

    def check_noise(self, result, wanted, level, to, key):
        """The definitions are an encryption scheme: the result decrypts to the wanted numbers, with some noise."""
        modulus = self.scheme.modulus(to)
        noise = [(x - y + modulus // 2) % modulus - modulus // 2 for x, y in zip(self.phase(result), wanted)]
        lost, gained = self.scheme.step(level, to)
        switched = sum(self.n * digit // 2 * NOISE_MAX for digit in self.digits(level, key)) // self.scheme.p
        bound = switched * gained // lost + self.n + 4
        assert max(map(abs, noise)) <= bound < modulus // 4


def text(rows):
    """Words in base64."""
    return base64.b64encode(b"".join(struct.pack(f"<{len(row)}I", *row) for row in rows)).decode()


if __name__ == "__main__":
    main()
