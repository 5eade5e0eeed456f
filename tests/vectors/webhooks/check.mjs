// Does the work of check.py. The snippet of docs/webhooks.md lies beside this file's copy as snippet.mjs.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { isGenuine, verified } from "./snippet.mjs";

const folder = process.argv[2];
const secret = readFileSync(`${folder}/secret`, "utf8");
const body = readFileSync(`${folder}/body`, "utf8");
const headers = JSON.parse(readFileSync(`${folder}/headers.json`, "utf8"));
const other = body.replace("{", "{ ");

assert.equal(verified(secret, headers, body).event_type, headers["x-service-event-type"]);
assert.throws(() => verified(secret, headers, other));
assert(isGenuine(secret, body, headers["x-service-signature"]));
assert(!isGenuine(secret, other, headers["x-service-signature"]));
assert(!isGenuine(secret + "x", body, headers["x-service-signature"]));
console.log("JavaScript: genuine, and refused when changed");
