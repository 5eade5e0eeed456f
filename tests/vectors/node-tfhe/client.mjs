// Runs gates on a running node with a client that knows nothing of Ango: node-tfhe makes the keys, encrypts and
// decrypts.
//
//   npm ci
//   node client.mjs http://127.0.0.1:8080 svc_live_...       (or ANGO_URL and ANGO_API_KEY)
//
// Sends every input combination of NAND, XOR and MUX, one gate a request and then all in one batch. Prints a line for
// each gate. Exits with 1 if an answer is wrong or refused.

import tfhe from "node-tfhe";

const { Boolean: Tfhe, BooleanEncryptionKeyChoice } = tfhe;

const [url = process.env.ANGO_URL, apiKey = process.env.ANGO_API_KEY] = process.argv.slice(2);
if (!url || !apiKey) {
  console.error("usage: node client.mjs URL API_KEY   (or ANGO_URL and ANGO_API_KEY)");
  process.exit(2);
}

// The dimensions of fast_128, with a power of two as key-switch base, because tfhe-rs has no other kind.
const parameters = Tfhe.new_parameters(
  636, 1, 1024,
  Tfhe.new_gaussian_from_std_dev(2 ** -13.65), Tfhe.new_gaussian_from_std_dev(2 ** -24.8),
  8, 2, 2, 6,
  BooleanEncryptionKeyChoice.Small,
);

const GATES = {
  NAND: { operands: ["a", "b"], plain: ({ a, b }) => !(a && b) },
  XOR: { operands: ["a", "b"], plain: ({ a, b }) => a !== b },
  MUX: { operands: ["a", "b", "sel"], plain: ({ a, b, sel }) => (sel ? a : b) },
};

const clientKey = Tfhe.new_client_key(parameters);
const serverKey = Tfhe.serialize_compressed_server_key(Tfhe.new_compressed_server_key(clientKey));
const session = await post("eval-session", "application/octet-stream", serverKey);
console.log(`session ${session.preset}, n ${session.n}, N ${session.big_n}, key of ${serverKey.length} bytes`);
check("session", session.preset === "fast_128" && session.n === 636 && session.is_blind === true);
check("security is the maker's claim", session.imported === true && session.security_claim === "maker");

const cases = Object.keys(GATES).flatMap(everyInput);
for (const { op, bits, operands } of cases) {
  const { result_b64 } = await postJson("gate", { session_id: session.session_id, op, ...operands });
  check(`gate  ${describe(op, bits)}`, decrypt(result_b64) === GATES[op].plain(bits));
}

const gates = cases.map(({ op, operands }) => ({ op, ...operands }));
const { results_b64 } = await postJson("batch", { session_id: session.session_id, gates });
check("batch of " + cases.length, results_b64.length === cases.length);
cases.forEach(({ op, bits }, i) => {
  check(`batch ${describe(op, bits)}`, decrypt(results_b64[i]) === GATES[op].plain(bits));
});

// Fresh encryptions of all combinations of a gate's inputs: the first operand compressed, the others in full.
function everyInput(op) {
  const names = GATES[op].operands;
  return Array.from({ length: 1 << names.length }, (_, combination) => {
    const bits = Object.fromEntries(names.map((name, at) => [name, Boolean((combination >> at) & 1)]));
    const operands = Object.fromEntries(names.map((name, at) => [name, encrypt(bits[name], at === 0)]));
    return { op, bits, operands };
  });
}

function encrypt(bit, compressed) {
  const bytes = compressed
    ? Tfhe.serialize_compressed_ciphertext(Tfhe.encrypt_compressed(clientKey, bit))
    : Tfhe.serialize_ciphertext(Tfhe.encrypt(clientKey, bit));
  return Buffer.from(bytes).toString("base64");
}

function decrypt(base64) {
  return Tfhe.decrypt(clientKey, Tfhe.deserialize_ciphertext(Buffer.from(base64, "base64")));
}

function postJson(path, body) {
  return post(path, "application/json", JSON.stringify(body));
}

async function post(path, contentType, body) {
  const response = await fetch(new URL(`/api/v1/tfhe/${path}`, url), {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, "content-type": contentType },
    body,
  });
  const text = await response.text();
  if (!response.ok) {
    console.error(`${path}: ${response.status} ${text}`);
    process.exit(1);
  }
  return JSON.parse(text);
}

function describe(op, bits) {
  return `${op.padEnd(4)} ${Object.entries(bits).map(([name, bit]) => `${name}=${Number(bit)}`).join(" ")}`;
}

function check(what, right) {
  console.log(`${right ? "ok   " : "WRONG"} ${what}`);
  if (!right) process.exitCode = 1;
}
