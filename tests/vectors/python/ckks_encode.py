"""Slots to coefficients and back, in decimal arithmetic of 60 digits.

Slot i is the value at zeta^(5^i), zeta = exp(i pi / N), for i below N / 2; the other odd powers of zeta are their
conjugates. A complex number is a pair of decimals.
"""

from decimal import Decimal, getcontext

getcontext().prec = 60


def pi():
    """Machin: 16 atan(1/5) - 4 atan(1/239)."""

    def atan_of_inverse(x):
        total, power, k = Decimal(0), Decimal(1) / x, 0
        while abs(power) > Decimal(10) ** -65:
            total += power / (2 * k + 1) * (-1) ** k
            power /= x * x
            k += 1
        return total

    return 16 * atan_of_inverse(5) - 4 * atan_of_inverse(239)


def unit(angle):
    """cos and sin by their series."""
    parts, term, k = [Decimal(0), Decimal(0)], Decimal(1), 0
    while abs(term) > Decimal(10) ** -65:
        parts[k % 2] += term * (-1) ** (k // 2)
        k += 1
        term *= angle / k
    return tuple(parts)


def product(x, y):
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def roots(n):
    """zeta^k for k below 2 N."""
    zeta, power, result = unit(pi() / n), (Decimal(1), Decimal(0)), []
    for _ in range(2 * n):
        result.append(power)
        power = product(power, zeta)
    assert abs(power[0] - 1) + abs(power[1]) < Decimal(10) ** -50
    return result


def encode(slots, scale, n):
    """Coefficients, before they are rounded, of the polynomial with these slots times the scale.

    Coefficient k is 2 / N times the real part of the sum of slot i times zeta^(-5^i k).
    """
    zeta = roots(n)
    result = []
    for k in range(n):
        terms = (product(slot, zeta[-pow(5, i, 2 * n) * k % (2 * n)])[0] for i, slot in enumerate(slots))
        result.append(2 * sum(terms) / n * scale)
    return result


def decode(coefficients, scale):
    n = len(coefficients)
    zeta = roots(n)
    slots = []
    for i in range(n // 2):
        values = [zeta[pow(5, i, 2 * n) * k % (2 * n)] for k in range(n)]
        slots.append(tuple(sum(c * value[part] for c, value in zip(coefficients, values)) / scale for part in (0, 1)))
    return slots
