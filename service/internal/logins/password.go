// Package logins says who looks at a page: users with passwords, sessions that end, and delays for whoever guesses.
package logins

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// What a password costs whoever checks it, as OWASP advises for Argon2id: 19 MiB and two passes.
const (
	memory  = 19 << 10 // KiB
	passes  = 2
	threads = 1

	saltLength, keyLength = 16, 32

	// PasswordMin is how many bytes a password must have. It need not have anything else.
	PasswordMin = 12
	passwordMax = 1000
)

// hashing limits how many passwords are checked at a time, and so the memory that takes.
var hashing = make(chan struct{}, 2)

func key(password string, salt []byte) []byte {
	hashing <- struct{}{}
	defer func() { <-hashing }()
	return argon2.IDKey([]byte(password), salt, passes, memory, threads, keyLength)
}

// Hash is what the table has of a password.
func Hash(password string) (string, error) {
	if len(password) < PasswordMin || len(password) > passwordMax {
		return "", fmt.Errorf("a password has %d to %d bytes, and this one has %d", PasswordMin, passwordMax, len(password))
	}
	salt := make([]byte, saltLength)
	if _, err := rand.Read(salt); err != nil {
		return "", err
	}
	text := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, memory, passes, threads, text(salt), text(key(password, salt))), nil
}

// nobody is the hash of a password that nobody knows: for users that are not there, so that they take as long.
const nobody = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// fits reports whether a password has a hash that Hash made.
func fits(password, hash string) bool {
	var version, m, t, p int
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || len(password) > passwordMax {
		return false
	}
	if n, err := fmt.Sscanf(parts[2]+" "+parts[3], "v=%d m=%d,t=%d,p=%d", &version, &m, &t, &p); n != 4 ||
		err != nil || m != memory || t != passes || p != threads {
		return false
	}
	salt, errSalt := base64.RawStdEncoding.DecodeString(parts[4])
	want, errWant := base64.RawStdEncoding.DecodeString(parts[5])
	return errSalt == nil && errWant == nil && subtle.ConstantTimeCompare(key(password, salt), want) == 1
}
