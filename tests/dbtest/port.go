package dbtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// FreePort finds a port for a program that a test starts. It lies below the ports that the kernel gives to clients and to servers that
// name none: nobody shall get it before the program listens, or while the program is down, and least of all a client that dials it and
// would find itself. No port is given out twice in this process: another test's program would have it when this one is started again.
func FreePort(t *testing.T) int {
	t.Helper()
	const from, to, attempts = 10_000, 32_000, 100
	for range attempts {
		port := from + rand.IntN(to-from)
		if _, given := portsGiven.LoadOrStore(port, true); given {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

var portsGiven sync.Map // by number
