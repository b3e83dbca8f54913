package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/service"
)

const (
	secretA = "whsec_1+lABmvTCXZqjzeBefIOoVDN3yF5oWwSJD9xHaVHtZU="
	secretB = "whsec_j1DvaAfUxVIFSW1qA5IEU4iRTTA0AQ6K5TK3oIUOhFg="
)

func TestEachTopicIsSignedWithTheSecretsOfTheLongestPatternThatFits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secrets")
	write := func(text string) *server {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return &server{secretFile: file}
	}
	by := func(keys ...string) string {
		t.Helper()
		secrets := make([]service.Secret, len(keys))
		for i, key := range keys {
			secrets[i].Key = key
		}
		signer, err := service.NewSigner(secrets...)
		if err != nil {
			t.Fatal(err)
		}
		return signature(t, signer)
	}
	all, err := write(secretA + "\n").signers()
	if err != nil {
		t.Fatal(err)
	}
	if got := signature(t, all.of("orders")); got != by(secretA) {
		t.Errorf("orders: %s", got)
	}
	some, err := write("# the shop's\nshop.* " + secretA + "\n\nshop.mail\t" + secretB + "\nshop.mail " + secretA + "\n").signers()
	if err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]string{"shop.orders": by(secretA), "shop.mail": by(secretB, secretA)} {
		if got := signature(t, some.of(topic)); got != want {
			t.Errorf("%s: %s, want %s", topic, got, want)
		}
	}
	if some.of("orders") != nil {
		t.Error("orders has a secret")
	}
	for text, want := range map[string]string{
		"":                         "has no secret",
		"# nothing\n":              "has no secret",
		"shop.* " + secretA + " x": "line 1 has 3 words",
		"\n[ " + secretA:           `line 2: "[" is no pattern`,
		"whsec_c2hvcnQ= shop.*":    "line 1 begins with a secret",
		"shop.* whsec_c2hvcnQ=\n":  "of the topics shop.*, secret 1",
		"whsec_c2hvcnQ=\n":         "of all topics, secret 1",
	} {
		if _, err := write(text).signers(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "c2hvcnQ") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func signature(t *testing.T, s *service.Signer) string {
	t.Helper()
	if s == nil {
		return "none"
	}
	text, err := s.Sign("id", time.Unix(1_700_000_000, 0), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
