"""Changes the requests of the schema-driven tester: each gets another client address, other wrong credentials and another
Idempotency-Key.

The tester sends wrong credentials on purpose, like a brute-force attack. From one address it would be locked out after
twenty attempts, and with one key after ten. The node under test trusts the tester as a proxy. The change is made where all
requests are sent, because the tester's probes of the authorisation call no hook. The tester also sends one Idempotency-Key
with many bodies, which the node must refuse. So each valid key is made unique, and an invalid key stays as it is.
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
