"""Gates on a running node: run_gates.py URL API_KEY [PRESET].

Makes a key, opens a session with it, runs every input combination of NAND, XOR and MUX, one gate a request, then
all in one batch, then all as seeded octets, and decrypts the answers. Prints a line for each gate. Exits with 1 if an
answer is wrong or refused.
"""

import base64
import itertools
import json
import struct
import sys
import urllib.error
import urllib.request

import numpy as np

from ango_client import PRESETS, EvaluationKey, SecretKey, read_seeded_ciphertexts, write_ciphertext

GATES = {
    "NAND": (("a", "b"), lambda a, b: not (a and b)),
    "XOR": (("a", "b"), lambda a, b: a != b),
    "MUX": (("a", "b", "sel"), lambda a, b, sel: a if sel else b),
}
OCTETS = "application/octet-stream"
TIMEOUT_S = 120


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    node = Node(sys.argv[1], sys.argv[2])
    name = sys.argv[3] if len(sys.argv) == 4 else "fast_128"
    preset = next((preset for preset in PRESETS if preset.name == name), None) or sys.exit(f"no preset {name}")

    secret = SecretKey.generate(preset)
    key = EvaluationKey.generate(secret).to_bytes()
    session = node.ask("POST", "tfhe/eval-session", key, "application/octet-stream")
    print(f"session of {session['preset']}, n {session['n']}, N {session['big_n']}, key of {len(key)} bytes")
    right = [check("session", (session["preset"], session["n"], session["is_blind"]) == (name, preset.n, True))]

    inputs = {op: itertools.product((False, True), repeat=len(names)) for op, (names, _) in GATES.items()}
    cases = [(op, bits) for op in GATES for bits in inputs[op]]
    gates = []
    for op, bits in cases:
        gate = {"op": op} | {name: text(secret.encrypt(bit)) for name, bit in zip(GATES[op][0], bits)}
        gates.append(gate)
        answer = node.ask_json("tfhe/gate", gate | {"session_id": session["session_id"]})
        right.append(check_gate("gate ", secret, op, bits, answer["result_b64"]))
    answer = node.ask_json("tfhe/batch", {"session_id": session["session_id"], "gates": gates})
    right.append(check("batch", len(answer["results_b64"]) == len(cases)))
    for (op, bits), result in zip(cases, answer["results_b64"]):
        right.append(check_gate("batch", secret, op, bits, result))
    for (op, bits), result in zip(cases, seeded_batch(node, session["session_id"], secret, cases)):
        right.append(check_gate("words", secret, op, bits, result))
    node.ask("DELETE", f"tfhe/session/{session['session_id']}")
    sys.exit(0 if all(right) else 1)


def seeded_batch(node, session, secret, cases):
    """The results of a batch whose operands share one seed: behind the head, each operand is one body."""
    preset = secret.preset
    frame = secret.encrypt_seeded([bit for _, bits in cases for bit in bits])
    _, seed, bodies = read_seeded_ciphertexts(frame)
    seeds = [{"seed": seed.hex(), "ciphertexts": len(bodies)}]
    head = json.dumps({"session_id": session, "gates": [op for op, _ in cases], "seeds": seeds}).encode()
    body = struct.pack("<I", len(head)) + head + bodies.astype("<u4").tobytes()
    answer = node.ask_bytes("POST", "tfhe/batch", body, OCTETS, OCTETS)
    start = 4 + struct.unpack_from("<I", answer)[0]
    words = np.frombuffer(answer[start:], dtype="<u4").reshape(-1, preset.n + 1)
    return [text(write_ciphertext(preset, secret.fingerprint, row)) for row in words]


def check_gate(request, secret, op, bits, result):
    expected = GATES[op][1](*bits)
    found = secret.decrypt(base64.b64decode(result, validate=True))
    operands = " ".join(f"{name}={bit:d}" for name, bit in zip(GATES[op][0], bits))
    return check(f"{request} {op:4} {operands}", found == expected)


def check(what, right):
    print(f"{'ok   ' if right else 'WRONG'} {what}")
    return right


def text(data):
    return base64.b64encode(data).decode()


class Node:
    """A node's base address and the API key to use it with."""

    def __init__(self, url, api_key):
        self.base = url.rstrip("/") + "/api/v1/"
        self.api_key = api_key

    def ask_json(self, path, body):
        return self.ask("POST", path, json.dumps(body).encode(), "application/json")

    def ask(self, method, path, body=None, content_type=None):
        answer = self.ask_bytes(method, path, body, content_type)
        return json.loads(answer) if answer else None

    def ask_bytes(self, method, path, body=None, content_type=None, accept="application/json"):
        request = urllib.request.Request(self.base + path, data=body, method=method)
        request.add_header("Authorization", f"Bearer {self.api_key}")
        request.add_header("Accept", accept)
        if content_type:
            request.add_header("Content-Type", content_type)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                return response.read()
        except urllib.error.HTTPError as refusal:
            sys.exit(f"{method} {path.split('/session/')[0]}: {refusal.code} {refusal.read().decode(errors='replace')}")


if __name__ == "__main__":
    main()
