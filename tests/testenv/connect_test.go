package main

import "testing"

func TestAServerIsKnownByWhatItSaysOfItself(t *testing.T) {
	for says, want := range map[string]struct{ name, version string }{
		"10.11.19-MariaDB-0+deb12u1":                                     {"MariaDB", "10.11.19"},
		"mysqld  Ver 9.7.4 for Linux on x86_64 (MySQL Community Server)": {"MySQL", "9.7.4"},
		"9.7.4": {"MySQL", "9.7.4"},
		"PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu":   {"PostgreSQL", "15.18"},
		"Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64": {"Redis", "7.0.15"},
		"postgres (PostgreSQL) 18beta1":                                      {"PostgreSQL", "18"},
	} {
		if name, version := kindOf(says), versionNumber.FindString(says); name != want.name || version != want.version {
			t.Errorf("%q is taken for %s %s", says, name, version)
		}
	}
}
