"""Reads ../ckks_params.json and writes ../numbers.json: keys and ciphertexts of numbers as whole containers.

Exact integers and 60 decimals, without a library. The output has no randomness: every run gives the same bytes.
"""

import base64
import hashlib
import json
import pathlib
import struct
from decimal import Decimal

import ckks_containers as containers
import ckks_encode
from ckks_arithmetic import (
    DOMAIN_CIPHERTEXT,
    DOMAIN_KEY,
    DOMAIN_PUBLIC_KEY,
    Key,
    Scheme,
    add,
    centred,
    from_values,
    multiply,
    reduce,
    residues,
    times,
    to_values,
)

FOLDER = pathlib.Path(__file__).resolve().parent.parent
NOISE_MAX = 8
# a product that is not rescaled yet has the scale of both factors
FORMS = [("seeded", 1), ("whole", 1), ("whole", 2)]


def main():
    given = json.loads((FOLDER / "ckks_params.json").read_text())
    sets = [lined(SetAnswers(entry).answers()) for entry in given]
    (FOLDER / "numbers.json").write_text("[\n" + ",\n".join(sets) + "\n]\n")


def lined(answers):
    """One entry of a list on each line."""
    lines = []
    for name, value in answers.items():
        is_list = isinstance(value, list) and isinstance(value[0], dict)
        value = "[\n" + ",\n".join(map(json.dumps, value)) + "\n]" if is_list else json.dumps(value)
        lines.append(f'"{name}": {value}')
    return "{" + ",\n".join(lines) + "}"


class SetAnswers:
    """The answers of a parameter set."""

    def __init__(self, given):
        self.given = given
        self.scheme = Scheme(given)
        self.n = self.scheme.n
        self.name = f"numbers {self.n} {given['scale_bits']} {given['max_depth']}"
        self.block = containers.parameters(self.n, given["scale_bits"], given["max_depth"])
        self.fingerprint = self.bytes("fingerprint", 8)
        self.secret = [byte % 3 - 1 for byte in self.bytes("secret", self.n)]

    def answers(self):
        given, top = self.given, self.given["max_depth"]
        key_rows = [row for part in given["parts"] for row in self.rows(part) if not part["own_digits"]]
        rows = [base64.b64decode(row["row"]) for row in key_rows]
        evaluation_key = containers.evaluation_key(self.block, self.fingerprint, rows)
        return {
            # as a node tells them in a key's `params`
            "params": {
                "poly_degree": self.n,
                "scale_bits": given["scale_bits"],
                "max_depth": top,
                "security_level": "testing",
                "bootstrap": False,
                "modulus_chain": given["primes"],
                "special_primes": given["special"],
                "levels": [{"primes": level["primes"], "scale": float(level["scale"])} for level in given["levels"]],
            },
            "fingerprint": self.fingerprint.hex(),
            "secret": self.secret,
            "secret_key": text(containers.secret_key(self.block, self.fingerprint, self.secret)),
            "packing": [self.packing(prime) for prime in range(len(given["primes"]))],
            "public_key": self.public_key(top),
            # the rows, one after another, and the head before them
            "evaluation_key": {"bytes": len(evaluation_key), "sha256": hashlib.sha256(evaluation_key).hexdigest()},
            "key_rows": key_rows,
            "ciphertexts": [self.ciphertext(level, *form) for level in (top, 1) for form in FORMS],
        }

    # ---- inputs

    def bytes(self, label, count):
        return hashlib.shake_256(f"{self.name} {label}".encode()).digest(count)

    def noise(self, label):
        return [byte % (2 * NOISE_MAX + 1) - NOISE_MAX for byte in self.bytes(f"noise {label}", self.n)]

    def numbers(self, label):
        """A number of 30 bits after the point for each slot, of magnitude below 4; the last two have imaginary parts."""
        count = self.n // 2
        words = struct.unpack(f"<{2 * count}i", self.bytes(f"numbers {label}", 8 * count))
        unit = Decimal(2) ** -29
        parts = [Decimal(word) * unit for word in words]
        return [(parts[2 * i], parts[2 * i + 1] if i >= count - 2 else Decimal(0)) for i in range(count)]

    def mask(self, seed, domain, indices):
        """A polynomial's values under these primes."""
        return [residues(seed, domain, i, self.scheme.primes[i], self.n) for i in indices]

    def primes(self, indices):
        return [self.scheme.primes[i] for i in indices]

    # ---- answers

    def packing(self, prime):
        q = self.scheme.primes[prime]
        data = self.bytes(f"packing {prime}", 4 * self.n)
        values = [word % q for word in struct.unpack(f"<{self.n}I", data)]
        values[:3] = [0, q - 1, 1]
        row = containers.packed(values, q)
        assert containers.unpacked(row, q, self.n) == values
        return {"prime": prime, "values": words([values]), "row": text(row)}

    def public_key(self, level):
        indices = sorted(self.scheme.levels[level])
        primes, seed, noise = self.primes(indices), self.bytes("seed of a public key", 32), self.noise("public key")
        a = from_values(self.mask(seed, DOMAIN_PUBLIC_KEY, indices), primes)
        b = to_values(add(times(multiply(a, self.secret), -1), noise), primes)
        container = containers.public_key(self.block, self.fingerprint, level, seed, containers.rows(b, primes))
        return {"level": level, "noise": noise, "values": words(b), "container": text(container)}

    def rows(self, part):
        """The rows of a part of the evaluation key."""
        element, level, digits = part["element"], part["level"], part["digits"]
        seeds = [self.bytes(f"seed {element} {level} {j}", 32) for j in range(len(digits))]
        noises = [self.noise(f"{element} {level} {j}") for j in range(len(digits))]
        key, primes = Key(self.scheme, part, self.secret, seeds, noises), self.primes(part["primes"])
        kind = containers.GALOIS if element else containers.RELINEARIZATION
        for j, (b, a) in enumerate(key.rows):
            values = to_values(b, primes)
            assert to_values(a, primes) == self.mask(seeds[j], DOMAIN_KEY, part["primes"])
            body = containers.rows(values, primes)
            row = containers.key_row(self.block, kind, level, j, len(digits), element, seeds[j], body)
            yield {
                "kind": kind,
                "level": level,
                "digit": j,
                "digits": len(digits),
                "element": element,
                "noise": noises[j],
                "values": words(values),
                "row": text(row),
            }

    def ciphertext(self, level, form, factors):
        label = f"{level} {form} {factors}"
        indices = sorted(self.scheme.levels[level])
        primes, seed, noise = self.primes(indices), self.bytes(f"seed of {label}", 32), self.noise(label)
        scale = float(self.given["levels"][level]["scale"]) ** factors
        record = (scale, 4.0, 3.2**2 + 1 / 12)
        numbers = self.numbers(label)
        message = [round(x) for x in ckks_encode.encode(numbers, Decimal(scale), self.n)]
        a = self.mask(seed, DOMAIN_CIPHERTEXT, indices)
        c1 = from_values(a, primes)
        c0 = add(add(times(multiply(c1, self.secret), -1), noise), message)
        values = to_values(c0, primes)
        body = containers.rows(values, primes)
        if form == "seeded":
            container = containers.ciphertext(self.block, self.fingerprint, level, record, body, seed)
        else:
            container = containers.ciphertext(self.block, self.fingerprint, level, record, body + containers.rows(a, primes))
        modulus = self.scheme.modulus(level)
        phase = centred(reduce(add(c0, multiply(c1, self.secret)), modulus), modulus)
        assert phase == add(message, noise)
        decoded = ckks_encode.decode([Decimal(x) for x in phase], Decimal(scale))
        return {
            "level": level,
            "scale": repr(scale),
            "form": form,
            "values": words(values + a),
            "container": text(container),
            # without the container's noise, and with it
            "encrypted": [list(map(decimals, slot)) for slot in numbers],
            "coefficients": phase,
            "decoded": [list(map(decimals, slot)) for slot in decoded],
        }


def decimals(number):
    return f"{number:.25f}"


def words(rows):
    """Values as 32-bit words in base64."""
    return text(b"".join(struct.pack(f"<{len(row)}I", *row) for row in rows))


def text(data):
    return base64.b64encode(data).decode()


if __name__ == "__main__":
    main()
