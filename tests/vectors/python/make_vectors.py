"""Writes the known answers beside this folder. Nothing is random: the same bytes at every run."""

import base64
import hashlib
import json
import pathlib

import numpy as np

from ango_client import (
    DOMAIN_BOOTSTRAP,
    DOMAIN_CIPHERTEXT,
    DOMAIN_KEY_SWITCH,
    PRESETS,
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
from ango_evaluate import Evaluator

FOLDER = pathlib.Path(__file__).resolve().parent.parent
SEED = bytes(range(32))
SEEDED_BITS = [True, False, False, True, True]
GATES = [
    {"op": "NAND", "operands": [1, 0]},
    {"op": "AND", "operands": [1, 1]},
    {"op": "OR", "operands": [0, 0]},
    {"op": "XOR", "operands": [1, 1]},
    {"op": "NOR", "operands": [0, 1]},
    {"op": "XNOR", "operands": [0, 1]},
    {"op": "NOT", "operands": [1]},
    {"op": "MUX", "operands": [1, 0, 0]},
]


def main():
    write("masks.json", [mask_answers(preset) for preset in PRESETS])
    write("gate_keys.json", [key_answers(preset) for preset in PRESETS])


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


def key_answers(preset):
    """A secret key; the hash of an evaluation key whose noise is a formula; ciphertexts; what gates make of them."""
    secret = fixed_secret_key(preset)
    key = EvaluationKey.generate(
        secret,
        seed=hashlib.sha256(b"seed of " + preset.name.encode()).digest(),
        ring_noise=formula_noise(preset.bootstrap_rows * preset.N, 6),
        lwe_noise=formula_noise(preset.key_switch_rows, 19),
    )
    evaluation_key = key.to_bytes()
    ciphertexts = [fixed_ciphertext(secret, bit) for bit in (False, True)]
    seeded = fixed_seeded_ciphertexts(secret)
    operands = [read_ciphertext(ciphertext)[1] for ciphertext in ciphertexts]
    evaluator = Evaluator(key)
    gates = []
    for gate in GATES:
        words = evaluator.gate(gate["op"], *(operands[bit] for bit in gate["operands"]))
        result = write_ciphertext(preset, secret.fingerprint, words)
        answer = {"bit": secret.decrypt(result), "phase": secret.phase(result), "sha256": sha256(result)}
        gates.append(gate | {"result": answer})
    return {
        "preset": preset.name,
        "secret_key": text(secret.to_bytes()),
        "seed": key.seed.hex(),
        "evaluation_key": {"bytes": len(evaluation_key), "sha256": sha256(evaluation_key)},
        "ciphertexts": [
            {"bit": bool(bit), "phase": secret.phase(ciphertext), "ciphertext": text(ciphertext)}
            for bit, ciphertext in enumerate(ciphertexts)
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


def fixed_ciphertext(secret, bit):
    mask = fixed_bytes(secret.preset, f"mask of {bit}", 4 * secret.preset.n).view("<u4")
    return secret.encrypt(bit, mask=mask, noise=-12345 if bit else 54321)


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
