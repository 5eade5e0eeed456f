"""Runs the receiver of docs/webhooks.md in this language against a real delivery.

`check.py python DELIVERY`; check.mjs and rust/ do this for the other languages. A delivery is a folder with `secret`, `body` and `headers.json`. The snippet of the
page lies beside this file's copy as `snippet.py`.
"""

import json
import pathlib
import sys

from snippet import is_genuine, verified

folder = pathlib.Path(sys.argv[1])
secret = (folder / "secret").read_text()
body = (folder / "body").read_bytes()
headers = json.loads((folder / "headers.json").read_text())
other = body.replace(b"{", b"{ ", 1)

assert verified(secret, headers, body)["event_type"] == headers["x-service-event-type"]
try:
    verified(secret, headers, other)
except Exception as error:
    refused = error
assert refused
assert is_genuine(secret, body, headers["x-service-signature"])
assert not is_genuine(secret, other, headers["x-service-signature"])
assert not is_genuine(secret + "x", body, headers["x-service-signature"])
print("Python: genuine, and refused when changed")
