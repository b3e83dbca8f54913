// Receives callbacks: WEBHOOK_SECRET=whsec_… PORT=9000 node receiver.mjs

import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

// Whether a request was signed with the secret, within five minutes of now.
function isOurs(secret, headers, body, now) {
  const id = headers["webhook-id"], at = headers["webhook-timestamp"];
  if (!/^\d+$/.test(at) || Math.abs(now - Number(at)) > 300) return false; // it is not signed, or somebody sends an old one again
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const want = Buffer.from("v1," + createHmac("sha256", key).update(`${id}.${at}.`).update(body).digest("base64"));
  const given = (headers["webhook-signature"] ?? "").split(" ").map((s) => Buffer.from(s)); // two while a secret is being replaced
  return given.some((signature) => signature.length === want.length && timingSafeEqual(signature, want));
}

createServer(async (request, response) => {
  try {
    const parts = [];
    for await (const part of request) parts.push(part);
    const ours = isOurs(process.env.WEBHOOK_SECRET, request.headers, Buffer.concat(parts), Date.now() / 1000);
    if (ours) {
      // The work goes here. A callback may come twice: keep its webhook-id in the transaction that does the work.
    }
    response.writeHead(ours ? 204 : 401).end();
  } catch (error) { // or it would end the process, and all other requests with it
    console.error(error);
    response.writeHead(500).end();
  }
}).listen(Number(process.env.PORT), "127.0.0.1");
