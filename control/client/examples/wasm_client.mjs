// Runs the client that scripts/wasm-client builds: makes keys, and encrypts and decrypts bits and numbers in
// WebAssembly.
import { randomFillSync } from "node:crypto";
import { readFileSync } from "node:fs";
import assert from "node:assert/strict";

const random_fill = (at, length) => randomFillSync(new Uint8Array(wasm.memory.buffer, at, length));
const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), { env: { random_fill } });
const wasm = instance.exports;

// numbers of words of a ciphertext and of an evaluation key, for each preset: docs/wire-format.md
const presets = [[637, 636 * 4 * 1024 + 1024 * 7], [709, 708 * 4 * 1024 + 1024 * 4], [829, 828 * 8 * 512 + 1536 * 6],
  [637, 636 * 6 * 512 + 1024 * 7], [709, 708 * 6 * 512 + 1024 * 4]];
for (const [preset, [ciphertextWords, keyWords]] of presets.entries()) {
  assert.equal(wasm.generate(preset), ciphertextWords);
  assert.equal(wasm.evaluation_key(), keyWords);
  const masks = new Set();
  for (const bit of [0, 1, 1, 0, 1, 0, 0, 1]) {
    masks.add(new Uint32Array(wasm.memory.buffer, wasm.encrypt(bit), ciphertextWords).join());
    assert.equal(wasm.decrypt(), bit);
  }
  assert.equal(masks.size, 8, "every encryption has a mask of its own");
}
console.log("wasm32: keys and bits of all presets");

for (const degree of [64, 256, 8192]) {
  const at = wasm.generate_for_numbers(degree);
  const numbers = Float64Array.from({ length: degree / 2 }, (_, i) => Math.sin(i));
  assert(wasm.relinearization_key() > 4 * degree);
  for (const byPublicKey of [0, 1]) {
    new Float64Array(wasm.memory.buffer, at, degree / 2).set(numbers);
    const bits = wasm.encrypt_and_decrypt(byPublicKey);
    assert(bits > 20 && bits < 40, `${bits} bits`);
    const back = new Float64Array(wasm.memory.buffer, at, degree / 2);
    const error = Math.max(...numbers.map((number, i) => Math.abs(number - back[i])));
    assert(error > 0 && error < 2 ** -bits, `${error} is above 2^-${bits}`);
  }
}
console.log("wasm32: keys and numbers of arithmetic");
