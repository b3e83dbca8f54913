package deliver

// Signer signs calls by the rules of Standard Webhooks.
type Signer struct{}
