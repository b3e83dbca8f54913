package deliver

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Signer signs calls by the rules of Standard Webhooks. It may be used by any number of goroutines.
type Signer struct {
	keys []datedKey
}

type datedKey struct {
	Secret
	version string
	sign    signKey
}

const secretsMax = 8 // so that the header stays short

// NewSigner makes a Signer of one to eight secrets. A secret that is empty, short or not random is refused: it would sign, and protect
// nobody.
func NewSigner(secrets ...Secret) (*Signer, error) {
	if len(secrets) == 0 || len(secrets) > secretsMax {
		return nil, fmt.Errorf("there are %d secrets to sign with; use 1 to %d, or no Signer to send calls without a signature", len(secrets), secretsMax)
	}
	s := &Signer{}
	for i, secret := range secrets {
		version, sign, err := parseKey(secret.Key)
		if err != nil {
			return nil, fmt.Errorf("secret %d %w", i+1, err)
		}
		if !secret.NotAfter.IsZero() && !secret.NotAfter.After(secret.NotBefore) {
			return nil, fmt.Errorf("secret %d is never valid: it ends before it begins; correct not_before or not_after", i+1)
		}
		s.keys = append(s.keys, datedKey{secret, version, sign})
	}
	return s, nil
}

// errNoKey means that a call would go out without the signature that its receiver expects.
var errNoKey = errors.New("no secret of the topic is valid now; add one, or correct not_before and not_after")

// Sign returns the header webhook-signature of a body that is sent at a moment, with a signature of each secret that is valid then.
// It returns an error if none is.
func (s *Signer) Sign(id string, at time.Time, body []byte) (string, error) {
	message := signed(id, at, body)
	var header strings.Builder
	for i := range s.keys {
		k := &s.keys[i]
		if at.Before(k.NotBefore) || !k.NotAfter.IsZero() && !at.Before(k.NotAfter) {
			continue
		}
		if header.Len() > 0 {
			header.WriteByte(' ')
		}
		header.WriteString(k.version)
		header.WriteByte(',')
		header.WriteString(base64.StdEncoding.EncodeToString(k.sign(message)))
	}
	if header.Len() == 0 {
		return "", errNoKey
	}
	return header.String(), nil
}

// signed is what a signature is about: the id and the moment are covered, so that nobody can send the body again as something new.
func signed(id string, at time.Time, body []byte) []byte {
	message := make([]byte, 0, len(id)+len(body)+22)
	message = append(append(message, id...), '.')
	message = append(strconv.AppendInt(message, at.Unix(), 10), '.')
	return append(message, body...)
}
