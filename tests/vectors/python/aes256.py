"""AES-256 in counter mode, from FIPS 197 alone: slow, and enough for known answers."""


def _multiply(a, b):
    """In GF(2^8) modulo x^8 + x^4 + x^3 + x + 1."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        a <<= 1
        if a & 0x100:
            a ^= 0x11B
        b >>= 1
    return product


def _substitution():
    inverse = [0] * 256
    for a in range(1, 256):
        for b in range(1, 256):
            if _multiply(a, b) == 1:
                inverse[a] = b
                break
    box = []
    for a in inverse:
        twice = a | a << 8
        box.append((a ^ twice >> 7 ^ twice >> 6 ^ twice >> 5 ^ twice >> 4 ^ 0x63) & 0xFF)
    return box


BOX = _substitution()
DOUBLE = [_multiply(a, 2) for a in range(256)]
ROUNDS = 14


def round_keys(key):
    """15 round keys of 16 bytes."""
    assert len(key) == 32
    words = [list(key[4 * i : 4 * i + 4]) for i in range(8)]
    constant = 1
    for i in range(8, 4 * (ROUNDS + 1)):
        word = words[i - 1]
        if i % 8 == 0:
            word = [BOX[byte] for byte in word[1:] + word[:1]]
            word[0] ^= constant
            constant = DOUBLE[constant]
        elif i % 8 == 4:
            word = [BOX[byte] for byte in word]
        words.append([x ^ y for x, y in zip(words[i - 8], word)])
    return [sum(words[4 * i : 4 * i + 4], []) for i in range(ROUNDS + 1)]


def encrypt_block(keys, block):
    """The state is kept as the block's bytes: byte `r + 4 c` is row r of column c."""
    state = [x ^ y for x, y in zip(block, keys[0])]
    for number in range(1, ROUNDS + 1):
        # bytes substituted, row r moved left by r
        state = [BOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
        if number < ROUNDS:
            mixed = []
            for c in range(0, 16, 4):
                column = state[c : c + 4]
                every = column[0] ^ column[1] ^ column[2] ^ column[3]
                mixed += [column[r] ^ every ^ DOUBLE[column[r] ^ column[(r + 1) % 4]] for r in range(4)]
            state = mixed
        state = [x ^ y for x, y in zip(state, keys[number])]
    return bytes(state)


def key_stream(key, prefix):
    """Bytes of the counter blocks `prefix` (12 bytes) and 0, 1, 2, ... (big-endian), without end."""
    keys = round_keys(key)
    counter = 0
    while True:
        yield from encrypt_block(keys, prefix + counter.to_bytes(4, "big"))
        counter += 1


# FIPS 197, C.3
assert (
    encrypt_block(round_keys(bytes(range(32))), bytes.fromhex("00112233445566778899aabbccddeeff")).hex()
    == "8ea2b7ca516745bfeafc49904b496089"
)
