<?php
// Receives callbacks: WEBHOOK_SECRET=whsec_… php -S 127.0.0.1:9000 receiver.php

declare(strict_types=1);

// Whatever dies below is answered with 500, so the task comes again. Without these lines, PHP may answer 200, with the error as a page.
http_response_code(500);
ini_set('display_errors', '0');

/** Whether a request was signed with the secret, within five minutes of now. */
function isOurs(string $secret, array $headers, string $body, int $now): bool
{
    $id = $headers['webhook-id'] ?? '';
    $at = $headers['webhook-timestamp'] ?? '';
    if (!preg_match('/^[0-9]{1,12}\z/', $at) || abs($now - (int) $at) > 300) {
        return false; // it is not signed, or somebody sends an old one again
    }
    $key = base64_decode(preg_replace('/^whsec_/', '', $secret), true);
    $want = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$at.$body", $key, true));
    foreach (explode(' ', $headers['webhook-signature'] ?? '') as $signature) { // two while a secret is being replaced
        if (hash_equals($want, $signature)) {
            return true;
        }
    }
    return false;
}

$headers = array_change_key_case(getallheaders());
$ours = isOurs(getenv('WEBHOOK_SECRET'), $headers, file_get_contents('php://input'), time());
if ($ours) {
    // The work goes here. A callback may come twice: keep its webhook-id in the transaction that does the work.
}
http_response_code($ours ? 204 : 401);
