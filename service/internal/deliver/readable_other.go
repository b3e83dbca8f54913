//go:build !unix

package deliver

import "syscall"

// isReadable is false: the system does not tell.
func isReadable(syscall.RawConn) bool { return false }
