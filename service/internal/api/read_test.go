package api

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/service/internal/intake"
	"github.com/create-info/persistent-queue/service/internal/tokens"
)

func TestABodyIsEmptyIfNothingComes(t *testing.T) {
	for _, c := range []struct {
		length int64 // -1: unknown
		text   string
	}{{0, ""}, {-1, ""}, {2, "{}"}, {-1, "{}"}} {
		r := &call{Request: &http.Request{ContentLength: c.length, Body: io.NopCloser(strings.NewReader(c.text))}}
		if empty := r.isEmpty(); empty != (c.text == "") {
			t.Errorf("%q with length %d is empty: %t", c.text, c.length, empty)
		}
		if text, err := io.ReadAll(r.Body); err != nil || string(text) != c.text {
			t.Errorf("%q with length %d, and %q after the look: %v", c.text, c.length, text, err)
		}
	}
}

// oneConnection is a listener that has one connection, in memory.
type oneConnection chan net.Conn

func (l oneConnection) Accept() (net.Conn, error) {
	if c, open := <-l; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l oneConnection) Close() error {
	close(l)
	return nil
}

func (l oneConnection) Addr() net.Addr { return &net.TCPAddr{} }

// Room may be full for the first bytes already, or for those that follow. In both cases, a sender who goes on slowly is answered, and cut.
func TestASenderForWhomThereIsNoRoomIsAnsweredAndCut(t *testing.T) {
	for name, taken := range map[string]int64{"for its first byte": 16 << 20, "for what follows": 16<<20 - smallTimes*firstBytes} {
		for kind, head := range map[string]string{
			"of unknown length": "Transfer-Encoding: chunked\n\n10000\n" + strings.Repeat("x", 1<<16) + "\n", "of a length": "Content-Length: 200000\n\n" + strings.Repeat("x", 1<<16),
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := &api{Parts: Parts{Intake: intake.New(nil, nil, 0, intake.RoomDefault)}}
					give, full := a.Intake.Rooms().Small.Take(t.Context(), "greedy pipe", taken)
					if full != nil {
						t.Fatal(full)
					}
					defer give()
					web := &http.Server{ReadTimeout: 10 * time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						c := &call{w, r, &tokens.Caller{ID: "greedy"}, a, nil}
						if _, _, err := a.read(c, batchMax); err != nil {
							problemOf(err).Write(w)
						}
					})}
					defer web.Close()
					ours, theirs := net.Pipe()
					defer ours.Close()
					listener := make(oneConnection, 1)
					listener <- theirs
					go web.Serve(listener)
					began := time.Now()
					var sending sync.WaitGroup
					defer sending.Wait()
					defer ours.Close()
					sending.Go(func() {
						_, err := io.WriteString(ours, strings.ReplaceAll("POST / HTTP/1.1\nHost: x\n"+head, "\n", "\r\n"))
						for ; err == nil; time.Sleep(time.Second) {
							_, err = io.WriteString(ours, " ")
						}
					})
					said, _ := io.ReadAll(ours)
					if took := time.Since(began); took > 30*time.Second || !strings.HasPrefix(string(said), "HTTP/1.1 503") {
						t.Errorf("after %v: %.100q", took, said)
					}
				})
			})
		}
	}
}
