package main

import "testing"

func TestDebianMirror_IsTheMachinesOwn(t *testing.T) {
	tests := []struct{ name, targets, want string }{
		{"the archive, not its security updates", "Third Party https://apt.example/\nDebian-Security http://mirror.example/debian-security/\nDebian http://mirror.example/d/\n", "http://mirror.example/d/"},
		{"none", "Ubuntu http://mirror.example/ubuntu/\n", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := debianMirror(test.targets)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("mirror %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
