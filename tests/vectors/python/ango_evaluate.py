"""Gates as section 8 of docs/wire-format.md defines them, exact to the word."""

from itertools import product

import numpy as np

from ango_client import EIGHTH, Q, TURN, VERSION_CENTRED, Transformed, nearest, residue_mask, torus_mask

# constant in units of 1/8 and the factors of the operands
LINEAR = {
    "NAND": (1, -1, -1),
    "AND": (-1, 1, 1),
    "OR": (1, 1, 1),
    "NOR": (-1, -1, -1),
    "XOR": (2, 2, 2),
    "XNOR": (-2, -2, -2),
}

PLAIN = {
    "NAND": lambda a, b: not (a and b),
    "AND": lambda a, b: a and b,
    "OR": lambda a, b: a or b,
    "NOR": lambda a, b: not (a or b),
    "XOR": lambda a, b: a != b,
    "XNOR": lambda a, b: a == b,
    "NOT": lambda a: not a,
    "MUX": lambda a, b, sel: a if sel else b,
}


class Evaluator:
    """An evaluation key with its masks written out."""

    def __init__(self, key):
        self.preset = p = key.preset
        self.centred = key.version == VERSION_CENTRED
        rows = np.empty((p.bootstrap_rows, p.k + 1, p.N), dtype=np.int64)
        for row in range(p.bootstrap_rows):
            rows[row, : p.k] = residue_mask(key.seed, row, p.k * p.N).reshape(p.k, p.N)
        rows[:, p.k] = key.bootstrap.reshape(-1, p.N)
        # [n] of [l (k + 1), k + 1, N]
        self.bootstrap = [Transformed(step) for step in rows.reshape(p.n, -1, p.k + 1, p.N)]
        masks = np.stack([torus_mask(key.seed, row, p.n) for row in range(p.key_switch_rows)])
        self.key_switch_rows = np.concatenate([masks, key.key_switch.reshape(-1, 1)], axis=1).astype(np.int64)

    def gate(self, op, *operands):
        """`op` of ciphertexts given and returned as [n + 1] words."""
        values, bits = values_of(operands)
        # the gate as a function of its values
        table = {point: PLAIN[op](*(bit(point) for bit in bits)) for point in product((False, True), repeat=len(values))}
        if len(set(table.values())) == 1:
            words = np.zeros_like(operands[0])
            words[-1] = EIGHTH if table.popitem()[1] else TURN - EIGHTH
            return words
        for at, value in enumerate(values):
            if all(result == point[at] for point, result in table.items()):
                return value
            if all(result != point[at] for point, result in table.items()):
                return negated(value)
        if op == "MUX" and len(values) == 3:
            a, b, sel = operands
            chosen = self.bootstrapped(linear(-1, (1, sel), (1, a)))
            other = self.bootstrapped(linear(-1, (-1, sel), (1, b)))
            bit = self.key_switch(linear(1, (1, chosen), (1, other)))
            return self.key_switch(self.bootstrapped(bit))
        if op != "MUX":
            constant, *factors = LINEAR[op]
            terms = zip(factors, operands)
        elif sum(table.values()) == 2:
            constant, *factors = LINEAR["XNOR"]
            terms = zip(factors, (operands[0], operands[2]))
        else:
            # true at exactly one point, or false at exactly one
            odd = sum(table.values()) == 1
            lone = next(point for point, result in table.items() if result == odd)
            constant = -1 if odd else 1
            terms = [(1 if bit == odd else -1, value) for bit, value in zip(lone, values)]
        return self.key_switch(self.bootstrapped(linear(constant, *terms)))

    def bootstrapped(self, words):
        """Steps 1 to 3, from [n + 1] torus words to [kN + 1]."""
        p = self.preset
        exponents = self.mod_switch([int(x) for x in words])
        accumulator = np.zeros((p.k + 1, p.N), dtype=np.int64)
        accumulator[p.k] = nearest(Q, 8)
        accumulator = rotated(accumulator, -exponents[p.n])
        for exponent, step in zip(exponents[: p.n], self.bootstrap):
            difference = (rotated(accumulator, exponent) - accumulator) % Q
            digits = self.ring_digits(difference)
            product = step.products(digits[:, None, :], sum_axis=0)
            accumulator = (accumulator + product) % Q
        mask = accumulator[: p.k]
        extracted = np.concatenate([mask[:, :1], -mask[:, :0:-1] % Q], axis=1).reshape(-1)
        # 2 x 2^32 + q is just below 2^63
        return nearest(np.append(extracted, accumulator[p.k, 0]) * TURN, Q) % TURN

    def mod_switch(self, words):
        """Step 1: from [n + 1] torus words to [n + 1] exponents below 2N."""
        *mask, body = words
        unit = TURN // (2 * self.preset.N)
        exponents = [nearest(x, unit) for x in mask]
        if self.centred:
            body += sum((exponent * unit - x) // 2 for exponent, x in zip(exponents, mask))
        exponents.append(nearest(body % TURN, unit))
        return [exponent % (2 * self.preset.N) for exponent in exponents]

    def ring_digits(self, polynomials):
        """From [k + 1, N] residues to [l (k + 1), N] digits, level 1 first."""
        p = self.preset
        scaled = 4 * polynomials
        torus = scaled + scaled * ((2**30 - Q) * TURN // Q) // TURN
        return balanced_digits(nearest(torus * 2 ** (p.log_b * p.l), TURN), 2**p.log_b, p.l).reshape(-1, p.N)

    def key_switch(self, sample):
        """Step 4, from [kN + 1] torus words to [n + 1]."""
        p = self.preset
        # from [t, kN] to the order of the rows
        digits = balanced_digits(nearest(sample[:-1] * p.d**p.t, TURN), p.d, p.t).T.reshape(-1)
        result = -(digits[:, None] * self.key_switch_rows % TURN).sum(axis=0)
        result[p.n] += sample[-1]
        return result % TURN


def values_of(operands):
    """The different values among operands, and every operand as a function of their bits."""
    values, bits = [], []
    for words in operands:
        if not words[:-1].any() and words[-1] in (EIGHTH, TURN - EIGHTH):
            bits.append(lambda point, bit=bool(words[-1] == EIGHTH): bit)
            continue
        like = [(at, False) for at, value in enumerate(values) if np.array_equal(words, value)]
        like += [(at, True) for at, value in enumerate(values) if np.array_equal(words, negated(value))]
        if not like:
            like = [(len(values), False)]
            values.append(words)
        bits.append(lambda point, at=like[0][0], opposite=like[0][1]: point[at] != opposite)
    return values, bits


def negated(words):
    return (-words.astype(np.int64) % TURN).astype(words.dtype)


def linear(eighths, *terms):
    """The sum of a constant on the body, in units of 1/8, and of factors times ciphertexts."""
    words = sum(factor * words.astype(np.int64) for factor, words in terms)
    words[-1] += eighths * EIGHTH
    return words % TURN


def rotated(polynomials, exponent):
    """The polynomials times X^exponent, with X^N = -1."""
    N = polynomials.shape[-1]
    places = (np.arange(N) - exponent) % (2 * N)
    return np.where(places < N, polynomials[..., places % N], -polynomials[..., places % N]) % Q


def balanced_digits(values, base, levels):
    """[levels, ...] digits, most significant first, each in -(base // 2) .. (base - 1) // 2; the last carry is lost."""
    digits = []
    for _ in range(levels):
        digit = (values + base // 2) % base - base // 2
        values = (values - digit) // base
        digits.append(digit)
    return np.stack(digits[::-1])
