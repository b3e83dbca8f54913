package faults

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Sixty-four sockets of one token send slowly, or do not read what is answered. They hold up nobody else, and are cut when the documentation says.
func TestSlowSocketsHoldUpNobodyElseAndAreCut(t *testing.T) {
	t.Parallel()
	oneServerInShort(t, func(x *trial) {
		const sockets, bound, cut, large = 64, 100 * time.Millisecond, 10 * time.Second, 100_000 // docs/service/service.md, Limits
		v := x.serve()
		token := func() string {
			return v.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["tasks:add","tasks:read","bodies:read"],"topics":["shop.*"]}`)["token"].(string)
		}
		greedy, other := token(), token()
		filler := strings.Repeat(" ", 1<<20)
		v.send(http.StatusCreated, "PUT", "/v1/topics/shop.a/tasks/large", fmt.Sprintf(`{"at":"2100-01-01T00:00:00Z","url":"http://127.0.0.1/","body_text":%q}`, strings.Repeat("x", large)))
		v.send(http.StatusCreated, "POST", "/v1/topics/shop.b/tasks", `{"at":"2100-01-01T00:00:00Z","url":"http://127.0.0.1/"}`)
		single := func() time.Duration {
			var took []time.Duration
			for range 40 {
				began := time.Now()
				status, text, err := v.ask(v.host, other, "POST", "/v1/topics/shop.b/tasks", `{"url":"http://127.0.0.1/","at":"2100-01-01T00:00:00Z"}`)
				took = append(took, time.Since(began))
				if err != nil || status != http.StatusCreated {
					x.Fatalf("a task of another token: %d %s %v", status, text, err)
				}
				time.Sleep(10 * time.Millisecond)
			}
			slices.Sort(took)
			return took[len(took)*95/100]
		}
		single()
		alone := single()
		x.Logf("alone, a task takes %v", alone)
		kinds := []struct {
			name, text string
			waits      time.Duration // for room, before it is cut
		}{
			{"a batch, slowly", "POST /v1/batch HTTP/1.1\nHost: x\nContent-Type: application/json\nContent-Length: 33554432\n\n{" + filler[:1000], 0},
			{"answers that nobody reads", strings.Repeat("GET /v1/topics/shop.a/tasks/large/body HTTP/1.1\nHost: x\n\n", 10), large / (64 << 10) * time.Second},
			{"a task, slowly", "POST /v1/topics/shop.a/tasks HTTP/1.1\nHost: x\nContent-Type: application/json\nContent-Length: 1048576\n\n{" + filler[:1000], 0},
			{"a batch of unknown length, slowly", "POST /v1/batch HTTP/1.1\nHost: x\nContent-Type: application/json\nTransfer-Encoding: chunked\n\n10000\n{" + filler[:1<<16-1] + "\n", 30 * time.Second},
		}
		var worst, longest time.Duration
		kinds = kinds[:repeat(len(kinds), 2)]
		for _, kind := range kinds {
			began := time.Now()
			ends := make(chan error, sockets)
			for range sockets {
				go func() { ends <- slowSocket(v.host, greedy, kind.text, kind.waits+cut+5*time.Second) }()
			}
			time.Sleep(3 * time.Second) // so that they have what they can get, and wait
			beside := single()
			x.withinDuring(window{began, time.Now()}, beside-min(alone, beside), bound, "beside "+kind.name+", a task of another token, compared with alone,")
			worst = max(worst, beside-min(alone, beside))
			errs := map[string]int{}
			for range sockets {
				if err := <-ends; err != nil {
					errs[err.Error()[:min(len(err.Error()), 30)]]++
				}
			}
			took := time.Since(began)
			if len(errs) > 0 {
				x.Errorf("%s: %v", kind.name, errs)
			}
			longest = max(longest, took)
			x.Logf("%s: a task takes %v; all were cut after %v", kind.name, beside, took)
		}
		x.tell("64 slow sockets of one token", len(kinds), outcome{}, worst, bound, "the 95th percentile of single tasks of another token, more than the %v alone; the slow ones were cut within %v", alone.Round(time.Millisecond), longest.Round(time.Second))
	})
}

// slowSocket sends a text and trickles on, or reads nothing of its answers, until it must have been cut. It returns an error if it was not.
func slowSocket(host, token, text string, within time.Duration) error {
	small := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error { // the kernels of both sides keep little that nobody has read
		return raw.Control(func(fd uintptr) {
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 1000)
		})
	}}
	conn, err := small.Dial("tcp", host)
	if err != nil {
		return err
	}
	defer conn.Close()
	began := time.Now()
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\nHost: x\n", "\nHost: x\nAuthorization: Bearer "+token+"\n"), "\n", "\r\n")
	reads := !strings.HasPrefix(text, "GET")
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, text)
		for err == nil && reads {
			time.Sleep(time.Second)
			_, err = io.WriteString(conn, " ")
		}
		sent <- err
	}()
	if reads { // what sends slowly is told why it is cut
		conn.SetReadDeadline(began.Add(within + 15*time.Second))
		_, err := io.Copy(io.Discard, conn)
		if took := time.Since(began); errors.Is(err, os.ErrDeadlineExceeded) || took > within {
			return fmt.Errorf("it was not cut after %v: %v", took, err)
		}
		conn.Close()
		<-sent
		return nil
	}
	<-sent
	for time.Since(began) < within { // a socket that is closed over there answers to what comes in with a reset
		time.Sleep(200 * time.Millisecond)
		if _, err := io.WriteString(conn, "\r\n"); err != nil {
			if took := time.Since(began); took < 8*time.Second {
				return fmt.Errorf("it was cut after %v already", took)
			}
			return nil
		}
	}
	return fmt.Errorf("it is open after %v", time.Since(began))
}
