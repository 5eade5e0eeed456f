#!/usr/bin/env python3
"""Operations on encrypted numbers beside other libraries, in turns, on one thread: a table in Markdown.

    cargo bench --workspace --bench ckks --no-run         # prints where the program is
    RUSTFLAGS="-C target-cpu=native" cargo +nightly build --release --manifest-path benches/peers/poulpy/Cargo.toml
    python3 -m venv venv && venv/bin/pip install -r benches/peers/requirements.txt
    venv/bin/python benches/peers/run.py PROGRAM POULPY [ROUNDS]

PROGRAM is the built bench `ckks`, POULPY the built program of benches/peers/poulpy, which needs AVX-512 with IFMA (`-` leaves
it out). Each round measures each library for a moment; a figure is the fastest of all rounds, and beside it the median. A
set is the degree, bits of the scale, and multiplications in a row. SEAL (by tenseal, which has no rotation) has moduli up to
what 128 bits of security allow, Poulpy as many bits of modulus. desilofhe chooses its parameters by the depth alone.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

SETS = [(8192, 40, 3), (16384, 40, 8), (32768, 50, 14)]
SECONDS = 1.5


def timed(work):
    """Seconds of each run of `work`, for a moment."""
    work()
    runs, end = [], time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(runs) < 3:
        begin = time.perf_counter()
        work()
        runs.append(time.perf_counter() - begin)
    return runs


def ours(program, target):
    """Of a set: what measures our product and our rotation, by instruction set."""

    def measure(set_, operation, isa):
        name = f"ckks_{set_[0]}_{set_[1]}_{set_[2]}/{operation}/{isa}"
        command = [program, "--bench", "--exact", name, "--warm-up-time", "0.5", "--measurement-time", str(SECONDS)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        folder = re.sub(r'[?"/\\*<>:|^]', "_", f"ckks_{set_[0]}_{set_[1]}_{set_[2]}")
        sample = target / folder / re.sub(r'[?"/\\*<>:|^]', "_", operation) / isa / "new" / "sample.json"
        found = json.loads(sample.read_text())
        return [total / 1e9 / count for total, count in zip(found["times"], found["iters"])]

    isas = ["avx2"] + (["avx512"] if "avx512dq" in pathlib.Path("/proc/cpuinfo").read_text() else [])
    work = {}
    for isa in isas:
        for operation, name in [("multiply", "multiply, relinearize, rescale"), ("rotate", "rotate")]:
            work[operation, f"ango {isa}"] = lambda set_, name=name, isa=isa: measure(set_, name, isa)
    return work


def seal():
    import tenseal

    made = {}

    def multiply(set_):
        degree, scale, depth = set_
        if set_ not in made:
            # the first prime and the special one; their largest bits where the sum is bounded
            bound = {8192: 218, 16384: 438, 32768: 881}[degree]
            outer = min(60, (bound - depth * scale) // 2)
            bits = [outer] + [scale] * depth + [outer]
            context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, degree, -1, bits, n_threads=1)
            context.global_scale = 2.0**scale
            context.generate_relin_keys()
            vector = [0.5] * (degree // 2)
            made[set_] = [tenseal.ckks_vector(context, vector) for _ in range(2)]
        a, b = made[set_]
        return timed(lambda: a * b)

    return {("multiply", "SEAL 4 (tenseal)"): multiply}


def poulpy(program):
    def measure(operation, set_):
        text = subprocess.run([program, operation, str(set_[0])], check=True, capture_output=True, text=True).stdout
        return [float(run) for run in text.split()]

    if program == "-":
        return {}
    operations = ["multiply", "rotate"]
    return {(operation, "Poulpy"): lambda set_, operation=operation: measure(operation, set_) for operation in operations}


def desilo():
    import desilofhe
    import numpy

    made = {}

    def of(set_):
        depth = set_[2]
        if depth not in made:
            engine = desilofhe.Engine(max_level=depth, mode="cpu", thread_count=1)
            secret = engine.create_secret_key()
            public = engine.create_public_key(secret)
            keys = engine.create_relinearization_key(secret), engine.create_fixed_rotation_key(secret, 1)
            numbers = numpy.full(engine.slot_count, 0.5)
            made[depth] = engine, keys, [engine.encrypt(numbers, public) for _ in range(2)]
        return made[depth]

    def multiply(set_):
        engine, (relinearization, _), (a, b) = of(set_)
        return timed(lambda: engine.multiply(a, b, relinearization))

    def rotate(set_):
        engine, (_, rotation), (a, _) = of(set_)
        return timed(lambda: engine.rotate(a, rotation))

    return {("multiply", "desilofhe"): multiply, ("rotate", "desilofhe"): rotate}


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    os.environ["OMP_NUM_THREADS"] = "1"
    target = pathlib.Path(tempfile.mkdtemp())
    os.environ["CRITERION_HOME"] = str(target)
    peers = {**ours(program, target), **poulpy(sys.argv[2]), **seal(), **desilo()}
    runs = {}
    for round_ in range(rounds):
        for set_ in SETS:
            for (operation, peer), measure in peers.items():
                runs.setdefault((operation, set_, peer), []).extend(measure(set_))
                print(f"round {round_ + 1} of {rounds}: {operation} {set_} {peer}", file=sys.stderr)
    print("| operation | set | library | fastest ms | median ms | of ours |")
    print("|---|---|---|---|---|---|")
    for operation in ["multiply", "rotate"]:
        for set_ in SETS:
            libraries = [peer for of, peer in peers if of == operation]
            of_ours = min(min(runs[operation, set_, peer]) for peer in libraries if peer.startswith("ango "))
            for peer in libraries:
                found = runs[operation, set_, peer]
                fastest, median = 1e3 * min(found), 1e3 * statistics.median(found)
                ratio = min(found) / of_ours
                print(f"| {operation} | {set_} | {peer} | {fastest:.2f} | {median:.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
