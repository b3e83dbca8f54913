package service

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// For the server, a client that has closed its direction is one that is gone. It still reads, and takes what it reads for the truth.
func TestAClientThatHasClosedItsDirectionIsToldNothingThatIsNotSo(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d)
		api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{"url":"http://127.0.0.1/","at":"2100-01-01T00:00:00Z"}`)
		held, err := d.DB.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		if _, err := held.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil { // nobody else can write
			t.Fatal(err)
		}
		status, text := api.halfClosed("POST", "/v1/topics/orders/tasks", `{"url":"http://127.0.0.1/","at":"2100-01-01T00:00:00Z"}`)
		if _, err := held.ExecContext(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		if status != http.StatusServiceUnavailable || !strings.Contains(text, `"code":"outcome-unknown"`) {
			t.Errorf("it was answered with %d, %q", status, text)
		}
	})
}

// halfClosed sends a request, closes its own direction of the connection, and reads the answer.
func (i *instance) halfClosed(method, path, body string) (status int, text string) {
	i.t.Helper()
	host := strings.TrimPrefix(i.base, "http://")
	c, err := net.Dial("tcp", host)
	if err != nil {
		i.t.Fatal(err)
	}
	defer c.Close()
	if _, err = fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, host, len(body), body); err == nil {
		err = c.(*net.TCPConn).CloseWrite()
	}
	if err != nil {
		i.t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		i.t.Fatal(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		i.t.Fatal(err)
	}
	return answer.StatusCode, string(all)
}
