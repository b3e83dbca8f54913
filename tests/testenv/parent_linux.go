package main

import (
	"os/exec"
	"syscall"
)

// setEndWithParent has the kernel kill the process when testenv is killed and can stop nothing any more.
func setEndWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
