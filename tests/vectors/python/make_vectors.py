"""Writes the known answers beside this folder. The output has no randomness: every run gives the same bytes."""

import base64
import hashlib
import json
import pathlib

import numpy as np

from ango_client import (
    DOMAIN_BOOTSTRAP,
    DOMAIN_CIPHERTEXT,
    DOMAIN_KEY_SWITCH,
    EIGHTH,
    PRESETS,
    VERSION,
    VERSION_CENTRED,
    EvaluationKey,
    SecretKey,
    ciphertext_mask,
    expand,
    read_ciphertext,
    residue_mask,
    stream_words,
    torus_mask,
    write_ciphertext,
)
from ango_evaluate import Evaluator, negated

FOLDER = pathlib.Path(__file__).resolve().parent.parent
SEED = bytes(range(32))
SEEDED_BITS = [True, False, False, True, True]
# bits of the ciphertexts; then follow the negation of number 1 and a trivial one
BITS = [False, True, False, True]
NOT_1, TRUE = 4, 5
# versions of a preset's evaluation keys; other presets began with the last version
VERSIONS = {name: [VERSION, VERSION_CENTRED] for name in ("fast_128", "standard_128", "conservative_128")}
GATES = [
    ("NAND", [1, 0]),
    ("AND", [1, 3]),
    ("OR", [0, 2]),
    ("XOR", [1, 3]),
    ("NOR", [0, 1]),
    ("XNOR", [0, 1]),
    ("NOT", [1]),
    ("MUX", [1, 0, 2]),
    # gates that fold, with equal, opposite or constant operands
    ("NAND", [1, 1]),
    ("AND", [1, 1]),
    ("OR", [1, NOT_1]),
    ("XOR", [1, 1]),
    ("NOR", [0, 0]),
    ("XNOR", [NOT_1, 1]),
    ("AND", [TRUE, 3]),
    ("XOR", [3, TRUE]),
    ("MUX", [1, 1, 0]),
    ("MUX", [1, 0, TRUE]),
    ("MUX", [1, NOT_1, 3]),
    ("MUX", [1, 0, 1]),
    ("MUX", [1, 0, NOT_1]),
    ("MUX", [0, 1, 1]),
    ("MUX", [0, NOT_1, 1]),
    ("MUX", [TRUE, 0, 1]),
    ("MUX", [0, TRUE, 1]),
]


def main():
    write("masks.json", [mask_answers(preset) for preset in PRESETS])
    keys = [(preset, version) for preset in PRESETS for version in VERSIONS.get(preset.name, [VERSION_CENTRED])]
    write("gate_keys.json", [key_answers(preset, version) for preset, version in keys])


def mask_answers(preset):
    """A row of each domain: first words of the stream, first coefficients of the mask, hash of the whole mask."""
    rows = []
    for domain, row in [
        (DOMAIN_BOOTSTRAP, 0),
        (DOMAIN_BOOTSTRAP, preset.bootstrap_rows - 1),
        (DOMAIN_KEY_SWITCH, 7),
        (DOMAIN_KEY_SWITCH, preset.key_switch_rows - 1),
        (DOMAIN_CIPHERTEXT, 0),
        (DOMAIN_CIPHERTEXT, 65535),
    ]:
        if domain == DOMAIN_BOOTSTRAP:
            mask = residue_mask(SEED, row, preset.k * preset.N)
        else:
            mask = {DOMAIN_KEY_SWITCH: torus_mask, DOMAIN_CIPHERTEXT: ciphertext_mask}[domain](SEED, row, preset.n)
        rows.append(
            {
                "domain": domain,
                "row": row,
                "stream": stream_words(SEED, domain, row, 4).tolist(),
                "mask": mask[:4].tolist(),
                "mask_sha256": hashlib.sha256(mask.astype("<u4").tobytes()).hexdigest(),
            }
        )
    return {"preset": preset.name, "seed": SEED.hex(), "rows": rows}


def key_answers(preset, version):
    """A secret key; the hash of an evaluation key whose noise is a formula; ciphertexts; and the results of gates on them."""
    secret = fixed_secret_key(preset)
    key = EvaluationKey.generate(
        secret,
        seed=hashlib.sha256(b"seed of " + preset.name.encode()).digest(),
        ring_noise=formula_noise(preset.bootstrap_rows * preset.N, 6),
        lwe_noise=formula_noise(preset.key_switch_rows, 19),
        version=version,
    )
    evaluation_key = key.to_bytes()
    seeded = fixed_seeded_ciphertexts(secret)
    ciphertexts = [fixed_ciphertext(secret, number, bit) for number, bit in enumerate(BITS)]
    trivial = np.zeros(preset.n + 1, dtype="<u4")
    trivial[-1] = EIGHTH
    for words in (negated(read_ciphertext(ciphertexts[1])[1]), trivial):
        ciphertexts.append(write_ciphertext(preset, secret.fingerprint, words))
    operands = [read_ciphertext(ciphertext)[1] for ciphertext in ciphertexts]
    evaluator = Evaluator(key)
    gates = []
    for op, numbers in GATES:
        words = evaluator.gate(op, *(operands[number] for number in numbers))
        result = write_ciphertext(preset, secret.fingerprint, words)
        answer = {"bit": secret.decrypt(result), "phase": secret.phase(result), "sha256": sha256(result)}
        gates.append({"op": op, "operands": numbers, "result": answer})
    return {
        "preset": preset.name,
        "version": version,
        "secret_key": text(secret.to_bytes()),
        "seed": key.seed.hex(),
        "evaluation_key": {"bytes": len(evaluation_key), "sha256": sha256(evaluation_key)},
        "ciphertexts": [
            {"bit": secret.decrypt(ciphertext), "phase": secret.phase(ciphertext), "ciphertext": text(ciphertext)}
            for ciphertext in ciphertexts
        ],
        "seeded": {
            "bits": SEEDED_BITS,
            "phases": [secret.phase(ciphertext) for ciphertext in expand(seeded)],
            "container": text(seeded),
        },
        "gates": gates,
    }


def fixed_seeded_ciphertexts(secret):
    seed = hashlib.sha256(b"seed of ciphertexts of " + secret.preset.name.encode()).digest()
    return secret.encrypt_seeded(SEEDED_BITS, seed=seed, noise=[-12345, 54321, 0, 1, -99999])


def fixed_secret_key(preset):
    s = fixed_bytes(preset, "s", preset.n) & 1
    S = fixed_bytes(preset, "S", preset.k * preset.N).astype(np.int64) % 3 - 1
    fingerprint = fixed_bytes(preset, "fingerprint", 8).tobytes()
    return SecretKey(preset, fingerprint, s.astype(np.int64), S.reshape(preset.k, preset.N))


def fixed_ciphertext(secret, number, bit):
    mask = fixed_bytes(secret.preset, f"mask of {number}", 4 * secret.preset.n).view("<u4")
    return secret.encrypt(bit, mask=mask, noise=[54321, -12345, -65432, 23456][number])


def fixed_bytes(preset, label, count):
    return np.frombuffer(hashlib.shake_256(f"{preset.name} {label}".encode()).digest(count), dtype=np.uint8)


def formula_noise(count, bits):
    """Word w of a body has noise (w * 2654435761 mod 2^32) >> (32 - bits), moved to be centred on 0."""
    words = np.arange(count, dtype=np.uint64) * np.uint64(2654435761) & np.uint64(2**32 - 1)
    return (words >> np.uint64(32 - bits)).astype(np.int64) - 2 ** (bits - 1)


def text(data):
    return base64.b64encode(data).decode()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def write(name, value):
    (FOLDER / name).write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    main()
