"""For the schema-driven tester: every request comes from an address of its own, shows wrong credentials of its own, and has an
Idempotency-Key of its own.

The tester shows wrong credentials on purpose, as a brute-force attack would; from one address it would be locked out after
twenty, with one key after ten. The node under test trusts it as a proxy. This is done where all its requests are sent, since
its probes of the authorisation pass no hook. And it sends one Idempotency-Key with many bodies, which is refused as it should be: a valid
key is made unlike the others, an invalid one stays as it is.
"""

import itertools
import re

import requests

NUMBERS = itertools.count(1)
# the tester's mark for wrong credentials
INVALID = "SCHEMATHESIS-INVALID-VALUE"

send = requests.Session.send


def send_from_elsewhere(session, request, **options):
    number = next(NUMBERS)
    request.headers["X-Forwarded-For"] = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    if INVALID in str(request.headers.get("Authorization", "")):
        request.headers["Authorization"] += f"-{number}"
    key = request.headers.get("Idempotency-Key", "")
    if isinstance(key, bytes):
        key = key.decode("latin-1")
    if re.fullmatch("[!-~]{1,240}", key):
        request.headers["Idempotency-Key"] = f"{key}-{number}"
    return send(session, request, **options)


requests.Session.send = send_from_elsewhere
