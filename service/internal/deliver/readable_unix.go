//go:build unix

package deliver

import (
	"errors"
	"syscall"
)

// isReadable reports whether a socket has something to read, which may be its end. It does not wait, and takes nothing.
func isReadable(socket syscall.RawConn) (readable bool) {
	err := socket.Control(func(fd uintptr) { // Read would wait for the reader that net/http has on it
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		readable = !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	})
	return readable || err != nil
}
