package main

import (
	"bufio"
	"strings"
	"testing"
)

func TestRedis_IsKnownByWhatItsInfoSays(t *testing.T) {
	for answer, want := range map[string]struct{ version, problem string }{
		"$120\r\n# Server\r\nredis_version:7.0.15\r\nredis_git_sha1:0\r\n": {"Redis 7.0.15", ""},
		"-NOAUTH Authentication required.\r\n":                             {"", "NOAUTH"},
		"":                                                                 {"", "version"},
	} {
		version, err := readRedisVersion(bufio.NewScanner(strings.NewReader(answer)))
		if version != want.version || (err == nil) != (want.problem == "") || err != nil && !strings.Contains(err.Error(), want.problem) {
			t.Errorf("%q: %q, %v", answer, version, err)
		}
	}
}
