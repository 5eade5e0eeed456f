"""Operations on encrypted numbers on a running node: run_numbers.py URL API_KEY [DEGREE ..].

Checks the known answers of ../numbers.json. Then, for each degree (64, 256 and 8192 without arguments): asks the node for its
primes and levels, makes keys, uploads them, runs every operation, and decrypts the answers. Each answer must be right to
the error that the client computes from the answer's public record, and as the node's plan said. Degrees 64, 256 and 32768
bootstrap too.
Prints a line for each operation. Exits with 1 if an answer is wrong or refused.
"""

import base64
import json
import math
import pathlib
import sys
import time

import numpy as np

import ango_numbers as ckks
from run_gates import OCTETS, Node, check, text

ANSWERS = pathlib.Path(__file__).resolve().parent.parent / "numbers.json"
# the parameters of each degree: security level, scale, depth, and whether there are levels of bootstrapping
SETS = {
    64: ("testing", 40, 3, True),
    256: ("testing", 30, 4, True),
    8192: ("128-bit", 40, 3, False),
    32768: ("128-bit", 30, 4, True),
}
# of the degrees that run without arguments
DEGREES = [64, 256, 8192]
BOUND = 4.0


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    node = Node(sys.argv[1], sys.argv[2])
    right = known_answers()
    for degree in map(int, sys.argv[3:] or DEGREES):
        started = time.monotonic()
        right += Run(node, degree).results()
        print(f"      N = {degree}: {time.monotonic() - started:.1f} s")
    sys.exit(0 if all(right) else 1)


def known_answers():
    """This client reads the containers of the exact program (make_numbers_vectors.py), and writes the same bytes."""
    right = []
    for answers in json.loads(ANSWERS.read_text()):
        params = ckks.Params(answers["params"])
        key = ckks.SecretKey(params, answers["secret"], bytes.fromhex(answers["fingerprint"]))
        right.append(key.to_bytes() == data(answers["secret_key"]))
        for answer in answers["packing"]:
            values, row = words(answer["values"]), data(answer["row"])
            q = params.primes[answer["prime"]]
            right.append(ckks.pack(values, q) == row and (ckks.unpack(row, q, params.n) == values).all())
        for answer in answers["ciphertexts"]:
            found, _ = key.decrypt(data(answer["container"]))
            wanted = np.array([complex(float(re), float(im)) for re, im in answer["decoded"]])
            right.append(np.abs(found - wanted).max() < 2.0**-46)
    return [check(f"known answers: {len(right)}", all(right))]


class Run:
    """Keys of one parameter set, and ciphertexts on the node."""

    def __init__(self, node, degree):
        self.node = node
        level, scale_bits, max_depth, self.bootstraps = SETS[degree]
        query = f"security_level={level}&scale_bits={scale_bits}&depth={max_depth}&bootstrap={str(self.bootstraps).lower()}"
        told = node.ask("GET", f"params/suggest?{query}")["arithmetic"]
        told = next(facts for facts in told if facts["poly_degree"] == degree) | {"security_level": level}
        self.params = ckks.Params(told)
        self.secret = ckks.SecretKey(self.params)
        self.public_key = self.secret.public_key()
        parts = ckks.parts_for_bootstrapping if self.bootstraps else ckks.parts_for_operations
        eval_key = self.secret.evaluation_key(parts(self.params))
        key = self.upload_key(eval_key, {name: told[name] for name in ("poly_degree", "scale_bits", "max_depth", "security_level")})
        self.key_id = key["key_id"]
        levels = [{"primes": primes, "scale": scale} for primes, scale in zip(self.params.levels, self.params.scales)]
        self.right = [check(f"keys of N = {degree}, {len(eval_key)} bytes", key["params"]["levels"] == levels)]

    def upload_key(self, eval_key, params):
        """In one request, or by an upload if the evaluation key has more than 10 MB."""
        if len(eval_key) <= 10 << 20:
            body = {"public_key": text(self.public_key), "eval_key": text(eval_key), "params": params}
            return self.node.ask_json("keys/upload", body)
        upload = "keys/uploads/" + self.node.ask_json("keys/uploads", {"params": params})["upload_id"]
        self.node.ask("PUT", f"{upload}/public-key", self.public_key, OCTETS)
        self.node.ask("PUT", f"{upload}/eval-key", eval_key, OCTETS)
        return self.node.ask("POST", f"{upload}/complete")

    def results(self):
        params, slots = self.params, self.params.slots
        generator = np.random.default_rng(1)
        x, y, plain = (generator.uniform(-1, 1, slots) for _ in range(3))
        a = self.upload(self.secret.encrypt(x, BOUND))
        b = self.upload(ckks.encrypt_public(params, self.public_key, y, BOUND))
        self.run("add", [a, b], x + y)
        product = self.run("multiply", [a, b], x * y)
        self.run("rescale", [product], x * y)
        self.run("multiply", [a, b], x * y, scale_stable=True)
        self.run("add-plain", [a], x + plain, plain_operand=plain.tolist())
        self.run("multiply-plain", [a], x * plain, plain_operand=plain.tolist(), scale_stable=True)
        self.run("negate", [a], -x)
        self.run("rescale", [a], x)
        self.run("rotate", [a], np.roll(x, -5), rotation_steps=5)
        d = 1 << (slots.bit_length() - 1) // 2
        matrix, vector = generator.uniform(-1, 1, (d, d)), generator.uniform(-1, 1, d)
        operands = [self.upload(self.secret.encrypt(numbers, 1.0)) for numbers in (matrix.reshape(-1), vector)]
        self.run("matmul", operands, matrix @ vector)
        self.run("matmul-plain", operands[1:], matrix @ vector, plain_operand=matrix.reshape(-1).tolist())
        polynomial = [0.5, -1.0, 0.25, 0.125]
        self.run("poly-eval", [a], np.polynomial.polynomial.polyval(x, polynomial), polynomial_coeffs=polynomial)
        if self.bootstraps:
            self.run("bootstrap", [self.upload(self.secret.encrypt(x, 1.0, level=0))], x)
        self.node.ask("DELETE", f"keys/{self.key_id}")
        return self.right

    def upload(self, ciphertext):
        """The id of a ciphertext. A scale that is not its level's would be answered with a warning."""
        record = json.loads(self.node.ask_bytes("POST", f"ciphertexts?key_id={self.key_id}", ciphertext, OCTETS))
        self.right.append("warnings" not in record)
        return record["ciphertext_id"]

    def run(self, operation, ids, wanted, **more):
        body = {"operation": operation, "key_id": self.key_id, "ciphertext_ids": ids} | more
        plan = self.node.ask_json("compute/plan", body)
        answer = self.node.ask_json("compute", body | {"return_ciphertext": False})
        id = answer["result_ciphertext_id"]
        result = self.node.ask_bytes("GET", f"ciphertexts/{id}", accept=OCTETS)
        found, error = self.secret.decrypt(result)
        off = np.abs(found[: len(wanted)] - wanted).max()
        level, (scale, bound, variance), _, _ = ckks.read_ciphertext(self.params, self.secret.fingerprint, result)
        agrees = (level, scale, bound) == (plan["level"], plan["scale"], plan["value_bound"])
        agrees &= math.isclose(error, plan["error_bound"], rel_tol=1e-9) and plan["cost_units"] == answer["cost_units"]
        bits = -math.log2(max(off, 2.0**-60))
        what = f"{operation:14} level {level}, {bits:.1f} bits right, {plan['precision_bits']} told"
        self.right.append(check(what, off <= error and agrees))
        return id


def data(base64_text):
    return base64.b64decode(base64_text, validate=True)


def words(base64_text):
    return np.frombuffer(data(base64_text), dtype="<u4").astype(np.int64)


if __name__ == "__main__":
    main()
