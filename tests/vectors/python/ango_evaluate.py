"""Gates as section 8 of docs/wire-format.md defines them, exact to the word."""

import numpy as np

from ango_client import EIGHTH, Q, TURN, Transformed, nearest, residue_mask, torus_mask

# constant in units of 1/8 and the factors of the operands
LINEAR = {
    "NAND": (1, -1, -1),
    "AND": (-1, 1, 1),
    "OR": (1, 1, 1),
    "NOR": (-1, -1, -1),
    "XOR": (2, 2, 2),
    "XNOR": (-2, -2, -2),
}


class Evaluator:
    """An evaluation key with its masks written out."""

    def __init__(self, key):
        self.preset = p = key.preset
        rows = np.empty((p.bootstrap_rows, p.k + 1, p.N), dtype=np.int64)
        for row in range(p.bootstrap_rows):
            rows[row, : p.k] = residue_mask(key.seed, row, p.k * p.N).reshape(p.k, p.N)
        rows[:, p.k] = key.bootstrap.reshape(-1, p.N)
        # [n] of [l (k + 1), k + 1, N]
        self.bootstrap = [Transformed(step) for step in rows.reshape(p.n, -1, p.k + 1, p.N)]
        masks = np.stack([torus_mask(key.seed, row, p.n) for row in range(p.key_switch_rows)])
        self.key_switch_rows = np.concatenate([masks, key.key_switch.reshape(-1, 1)], axis=1).astype(np.int64)

    def gate(self, op, a, b=None, sel=None):
        """`op` of ciphertexts given and returned as [n + 1] words."""
        if op == "NOT":
            return -a.astype(np.int64) % TURN
        if op == "MUX":
            chosen = self.bootstrapped(linear(-1, (1, sel), (1, a)))
            other = self.bootstrapped(linear(-1, (-1, sel), (1, b)))
            return self.key_switch(linear(1, (1, chosen), (1, other)))
        constant, factor_a, factor_b = LINEAR[op]
        return self.key_switch(self.bootstrapped(linear(constant, (factor_a, a), (factor_b, b))))

    def bootstrapped(self, words):
        """Steps 1 to 3: [n + 1] torus words to [kN + 1]."""
        p = self.preset
        exponents = [((x << 1) * p.N + TURN // 2) // TURN % (2 * p.N) for x in map(int, words)]
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
        # 2 x 2^32 + q stays below 2^63, just
        return nearest(np.append(extracted, accumulator[p.k, 0]) * TURN, Q) % TURN

    def ring_digits(self, polynomials):
        """[k + 1, N] residues to [l (k + 1), N] digits, level 1 first."""
        p = self.preset
        scaled = 4 * polynomials
        torus = scaled + scaled * ((2**30 - Q) * TURN // Q) // TURN
        return balanced_digits(nearest(torus * 2 ** (p.log_b * p.l), TURN), 2**p.log_b, p.l).reshape(-1, p.N)

    def key_switch(self, sample):
        """Step 4: [kN + 1] torus words to [n + 1]."""
        p = self.preset
        # [t, kN] to the order of the rows
        digits = balanced_digits(nearest(sample[:-1] * p.d**p.t, TURN), p.d, p.t).T.reshape(-1)
        result = -(digits[:, None] * self.key_switch_rows % TURN).sum(axis=0)
        result[p.n] += sample[-1]
        return result % TURN


def linear(eighths, *terms):
    """A constant in units of 1/8 on the body, plus factors times ciphertexts."""
    words = sum(factor * words.astype(np.int64) for factor, words in terms)
    words[-1] += eighths * EIGHTH
    return words % TURN


def rotated(polynomials, exponent):
    """Each times X^exponent, X^N = -1."""
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
