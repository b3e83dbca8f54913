package cli

import (
	"encoding/base64"
	"os"
	"strings"

	"github.com/create-info/persistent-queue/aesgcm"
	"github.com/create-info/persistent-queue/queue_job"
)

// codec reads the keys that encrypt tasks from their file: an id and a secret, one key a line. The first key encrypts, and each decrypts what
// it has encrypted, so a new key can be added before it is used. Without a file, it returns nil.
func (s *server) codec() (queue_job.Codec, error) {
	if s.encryptionFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(s.encryptionFile)
	if err != nil {
		return nil, exitf(exitUsage, "--encryption-file: %w", err)
	}
	var keys []aesgcm.Key
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 { // an error shows no secret
			return nil, exitf(exitUsage, "--encryption-file: line %d has %d words; write an id, such as 2026-11, and the output of openssl rand -base64 32",
				number, len(fields))
		}
		secret, err := base64.StdEncoding.DecodeString(fields[1])
		if err != nil {
			return nil, exitf(exitUsage, "--encryption-file: line %d: the second word is no base64; openssl rand -base64 32 makes a secret", number)
		}
		keys = append(keys, aesgcm.Key{ID: fields[0], Secret: secret})
	}
	if len(keys) == 0 {
		return nil, exitf(exitUsage, "--encryption-file: %s has no key; write an id, such as 2026-11, and the output of openssl rand -base64 32 into it",
			s.encryptionFile)
	}
	codec, err := aesgcm.New(keys[0], keys[1:]...)
	if err != nil {
		return nil, exitf(exitUsage, "--encryption-file: %w", err)
	}
	return codec, nil
}
