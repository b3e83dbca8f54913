"""Receives callbacks: WEBHOOK_SECRET=whsec_… PORT=9000 python3 receiver.py"""

import base64
import hashlib
import hmac
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def is_ours(secret, headers, body, now):
    """Whether a request was signed with the secret, within five minutes of now."""
    id, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not at.isdecimal() or abs(now - int(at)) > 300:
        return False  # it is not signed, or somebody sends an old one again
    text = f"{id}.{at}.".encode() + body
    want = base64.b64encode(hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), text, hashlib.sha256))
    given = headers.get("webhook-signature", "").encode().split(b" ")  # two while a secret is being replaced
    return any(hmac.compare_digest(b"v1," + want, signature) for signature in given)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        ours = is_ours(os.environ["WEBHOOK_SECRET"], self.headers, body, time.time())
        if ours:
            pass  # The work goes here. A callback may come twice: keep its webhook-id in the transaction that does the work.
        self.send_response(204 if ours else 401)
        self.end_headers()


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver).serve_forever()
