//go:build !unix

package main

import (
	"os"
	"os/exec"
)

func setGroup(*exec.Cmd) {}

// signalGroup kills, because nothing else can be sent here.
func signalGroup(leader *os.Process, _ os.Signal) {
	leader.Kill()
}
