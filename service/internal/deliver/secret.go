package deliver

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Secret is a key that calls are signed with, for a time. To rotate, add the new one and date the old one; as long as both are valid, calls
// have both signatures.
type Secret struct {
	// Key is the text of the key, as Standard Webhooks writes it: whsec_ and 24 to 64 bytes in base64 for HMAC-SHA256 (v1), or whsk_ and
	// the 32 bytes of an Ed25519 seed, or its 64 bytes with the public key (v1a).
	Key string
	// NotBefore and NotAfter bound the time in which the key is used; zero: no bound.
	NotBefore, NotAfter time.Time
}

const (
	prefixSecret  = "whsec_"
	prefixPrivate = "whsk_"
	prefixPublic  = "whpk_"

	secretMin, secretMax = 24, 64 // bytes of an HMAC key
)

// signKey signs a message with one key.
type signKey func(message []byte) []byte

// parseKey reads a key to sign with, and the version that its signatures have. Its errors do not show the key.
func parseKey(text string) (version string, sign signKey, err error) {
	if encoded, found := strings.CutPrefix(text, prefixPrivate); found {
		key, err := decodeKey(encoded)
		if err != nil {
			return "", nil, err
		}
		var private ed25519.PrivateKey
		switch len(key) {
		case ed25519.SeedSize:
			private = ed25519.NewKeyFromSeed(key)
		case ed25519.PrivateKeySize:
			if private = ed25519.NewKeyFromSeed(key[:ed25519.SeedSize]); !private.Equal(ed25519.PrivateKey(key)) {
				return "", nil, errors.New("has a public half that does not belong to its private half; make a new key")
			}
		default:
			return "", nil, fmt.Errorf("has %d bytes; an Ed25519 key has 32, or 64 with its public half", len(key))
		}
		return "v1a", func(message []byte) []byte { return ed25519.Sign(private, message) }, nil
	}
	key, err := parseShared(text)
	if err != nil {
		return "", nil, err
	}
	return "v1", func(message []byte) []byte { return sum(key, message) }, nil
}

func parseShared(text string) ([]byte, error) {
	encoded, found := strings.CutPrefix(text, prefixSecret)
	if !found {
		return nil, errors.New("begins neither with whsec_ nor with whsk_; make a key by: openssl rand -base64 32, and put whsec_ before it")
	}
	key, err := decodeKey(encoded)
	switch {
	case err != nil:
		return nil, err
	case len(key) < secretMin || len(key) > secretMax:
		return nil, fmt.Errorf("has %d bytes; use %d to %d random ones", len(key), secretMin, secretMax)
	case strings.Count(string(key), string(key[:1])) == len(key):
		return nil, errors.New("is one byte, repeated; use random ones")
	}
	return key, nil
}

// decodeKey reads base64 with or without = at its end.
func decodeKey(encoded string) ([]byte, error) {
	key, err := base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return nil, errors.New("is not base64; copy the whole key")
	}
	return key, nil
}

func sum(key, message []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(message)
	return mac.Sum(nil)
}
