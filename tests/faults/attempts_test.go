package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// cutting is a receiver that keeps connections open, and cuts them at a point of a request to a path that names the point, or of its answer.
type cutting struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	requests map[string]int // on the wire, by path
}

const (
	pathWarm     = "/warm"
	cutAnswer    = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	warmHandling = 100 * time.Millisecond // so long that many run at a time, each on a connection of its own
)

func (x *trial) cutting() *cutting {
	x.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		x.Fatal(err)
	}
	c := &cutting{listener: listener, conns: map[net.Conn]bool{}, requests: map[string]int{}}
	c.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			c.conns[conn] = true
			c.mu.Unlock()
			c.serving.Go(func() { c.serve(conn.(*net.TCPConn)) })
		}
	})
	x.Cleanup(func() {
		listener.Close()
		c.mu.Lock()
		for conn := range c.conns {
			conn.Close()
		}
		c.mu.Unlock()
		c.serving.Wait()
	})
	return c
}

func (c *cutting) serve(conn *net.TCPConn) {
	defer func() {
		conn.Close()
		c.mu.Lock()
		delete(c.conns, conn)
		c.mu.Unlock()
	}()
	for in := bufio.NewReader(conn); ; {
		first, err := in.ReadString('\n')
		if err != nil {
			return
		}
		path := strings.Fields(first)[1]
		c.mu.Lock()
		c.requests[path]++
		c.mu.Unlock()
		point, end := "", ""
		if path != pathWarm {
			parts := strings.Split(path, "/") // /cut/how/at which point/number
			end, point = parts[2], parts[3]
		}
		if point == "line" {
			cutOff(conn, end)
			return
		}
		r, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(first), in)))
		if err != nil {
			return
		}
		switch point {
		case "headers":
			cutOff(conn, end)
			return
		case "body":
			io.CopyN(io.Discard, r.Body, r.ContentLength/2)
			cutOff(conn, end)
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if path == pathWarm {
			time.Sleep(warmHandling)
			if _, err := io.WriteString(conn, cutAnswer); err != nil {
				return
			}
			in = bufio.NewReader(conn) // its next request; nobody sends two at a time
			continue
		}
		n, _ := strconv.Atoi(point)
		io.WriteString(conn, cutAnswer[:n])
		cutOff(conn, end)
		return
	}
}

// cutOff ends a connection by a FIN, a RST, or in one direction.
func cutOff(conn *net.TCPConn, how string) {
	switch how {
	case "reset":
		conn.SetLinger(0)
	case "half":
		conn.CloseWrite()
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		io.Copy(io.Discard, conn)
	}
	conn.Close()
}

func (c *cutting) count(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[path]
}

// A receiver may have done what it was asked for when its connection ends. So a task that may be sent once is on the wire once, however many idle
// connections there are on which it could be sent again.
func TestAnAttemptIsOneRequestOnTheWireWhereverItsConnectionIsCut(t *testing.T) {
	t.Parallel()
	oneServerInShort(t, func(x *trial) {
		const idle, atOnce = 32, 8
		to, v := x.cutting(), x.serve()
		base := "http://" + to.listener.Addr().String()
		v.send(http.StatusCreated, "PUT", "/v1/topics/cut", fmt.Sprintf(`{"concurrency":100,"per_destination":%d,"retry":{"max_attempts":1}}`, idle))
		points := []string{"line", "headers", "body"}
		for n := 0; n <= len(cutAnswer); n += repeat(1, 6) {
			points = append(points, strconv.Itoa(n))
		}
		var tasks, paths []string
		for _, end := range []string{"close", "reset", "half"} {
			for _, method := range []string{"POST", "PUT", "GET"} {
				for _, point := range points {
					if method == "GET" && point == "body" {
						continue
					}
					path := fmt.Sprintf("/cut/%s/%s/%d", end, point, len(paths))
					body := ""
					if method != "GET" {
						body = `,"body":{"charge":1}`
					}
					paths = append(paths, path)
					tasks = append(tasks, fmt.Sprintf(`{"topic":"cut","method":%q,"url":%q%s}`, method, base+path, body))
				}
			}
		}
		warm := strings.Split(strings.TrimSpace(strings.Repeat(fmt.Sprintf(`{"topic":"cut","url":%q}`+"\n", base+pathWarm), idle)), "\n")
		for len(tasks) > 0 {
			before := to.count(pathWarm)
			v.addTasks(warm)
			x.await(time.Minute, "not all connections are warm", func() bool { return to.count(pathWarm) >= before+idle })
			x.awaitDone(time.Minute)
			some := min(atOnce, len(tasks))
			v.addTasks(tasks[:some])
			x.awaitDone(time.Minute)
			tasks = tasks[some:]
		}
		wrong := 0
		for _, path := range paths {
			if n := to.count(path); n != 1 {
				if wrong++; wrong <= auditErrorsMax {
					x.Errorf("%s is on the wire %d times", path, n)
				}
			}
		}
		if wrong > auditErrorsMax {
			x.Errorf("and %d more", wrong-auditErrorsMax)
		}
		if n := x.number("SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2"); n < int64(len(paths))/2 {
			x.Errorf("%d attempts failed: nothing was cut", n)
		}
		x.tell("a receiver cuts its connection at every byte", len(paths), outcome{jobs: len(x.rows())}, 0, 0, "beside %d idle connections; closed, reset and half closed, from the request's line to the last byte of the answer; %d attempts were on the wire more than once", idle, wrong)
	})
}
