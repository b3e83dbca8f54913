package deliver

import (
	"crypto/ed25519"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	toleranceDefault = 5 * time.Minute
	signaturesMax    = 32 // of a header; a request may come from anybody
)

// Verify reports why a request was not signed with a key, as a receiver does: nil means that it was, at a moment within five minutes of now.
// The key is the whsec_ of HMAC-SHA256 or the whpk_ of a public Ed25519 key, see [PublicKey].
func Verify(header http.Header, body []byte, key string, now time.Time) error {
	id, stamp, signatures := header.Get("webhook-id"), header.Get("webhook-timestamp"), header.Get("webhook-signature")
	if id == "" || stamp == "" || signatures == "" {
		return errors.New("webhook-id, webhook-timestamp or webhook-signature is missing; the request is not signed")
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return errors.New("webhook-timestamp is no number of seconds")
	}
	at := time.Unix(seconds, 0)
	if at.Before(now.Add(-toleranceDefault)) || at.After(now.Add(toleranceDefault)) {
		return fmt.Errorf("webhook-timestamp is not within %v of now; it may be an old request, sent again, or a clock is wrong", toleranceDefault)
	}
	version, verify, err := parseVerifier(key)
	if err != nil {
		return fmt.Errorf("key to verify with %w", err)
	}
	message := signed(id, at, body)
	for _, s := range strings.SplitN(signatures, " ", signaturesMax) {
		encoded, found := strings.CutPrefix(s, version+",")
		if !found {
			continue
		}
		if signature, err := base64.StdEncoding.DecodeString(encoded); err == nil && verify(message, signature) {
			return nil
		}
	}
	return errors.New("no signature was made with the key; the request is forged, or the key is another one")
}

func parseVerifier(text string) (version string, verify func(message, signature []byte) bool, err error) {
	if encoded, found := strings.CutPrefix(text, prefixPublic); found {
		key, err := decodeKey(encoded)
		if err != nil {
			return "", nil, err
		}
		if len(key) != ed25519.PublicKeySize {
			return "", nil, fmt.Errorf("has %d bytes; a public Ed25519 key has 32", len(key))
		}
		return "v1a", func(message, signature []byte) bool { return ed25519.Verify(key, message, signature) }, nil
	}
	key, err := parseShared(text)
	if err != nil {
		return "", nil, err
	}
	return "v1", func(message, signature []byte) bool {
		return subtle.ConstantTimeCompare(sum(key, message), signature) == 1
	}, nil
}

// PublicKey returns the whpk_ that belongs to a whsk_, for receivers.
func PublicKey(private string) (string, error) {
	encoded, found := strings.CutPrefix(private, prefixPrivate)
	key, err := decodeKey(encoded)
	if !found || err != nil || len(key) < ed25519.SeedSize {
		return "", errors.New("private key does not begin with whsk_ or is not whole; copy the whole key")
	}
	public := ed25519.NewKeyFromSeed(key[:ed25519.SeedSize]).Public().(ed25519.PublicKey)
	return prefixPublic + base64.StdEncoding.EncodeToString(public), nil
}
