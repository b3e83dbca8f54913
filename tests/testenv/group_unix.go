//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

func setGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// signalGroup also reaches what is left of a group whose leader has ended.
func signalGroup(leader *os.Process, s os.Signal) {
	syscall.Kill(-leader.Pid, s.(syscall.Signal))
}
