package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

const nginxConfig = `daemon off; master_process off; error_log stderr; pid {dir}/pid;
events {}
http { access_log off; client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c; uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e;
server { listen {at}; location / { {more} proxy_pass http://{to}; } } }
`

const haproxyConfig = `defaults
 mode {mode}
 timeout connect 5s
 timeout client 9s
 timeout server 9s
frontend f
 bind {at}
 default_backend b
backend b
 {more}
 server s {to}
`

// frontProxies are nginx and HAProxy with no more in their configuration than they need, in the ways in which one writes it.
var frontProxies = []struct{ name, variable, config, mode, more string }{
	{"nginx, HTTP/1.0", "PQ_TEST_NGINX", nginxConfig, "", "proxy_http_version 1.0;"},
	{"nginx, HTTP/1.1", "PQ_TEST_NGINX", nginxConfig, "", `proxy_http_version 1.1; proxy_set_header Connection "";`},
	{"nginx, as it comes", "PQ_TEST_NGINX", nginxConfig, "", ""},
	{"HAProxy", "PQ_TEST_HAPROXY", haproxyConfig, "http", ""},
	{"HAProxy, Host set", "PQ_TEST_HAPROXY", haproxyConfig, "http", "http-request set-header Host {to}"},
	{"HAProxy, TCP", "PQ_TEST_HAPROXY", haproxyConfig, "tcp", ""},
}

// A proxy on the same machine looks like a program there. Whoever comes through it must have a token all the same.
func TestNoProxyAsItComesOpensTheAPIOrTheConsole(t *testing.T) {
	t.Parallel()
	commands := map[string][]string{}
	for _, p := range frontProxies {
		if commands[p.variable] == nil {
			commands[p.variable] = readProgram(t, p.variable)
		}
	}
	oneServerInShort(t, func(x *trial) {
		v := x.serve()
		closed := 0
		for _, p := range frontProxies {
			at := x.startProxy(commands[p.variable], p.config, p.mode, p.more, v.host)
			x.await(time.Minute, p.name+" passes nothing on", func() bool {
				status, _, err := v.ask(at, "", "GET", "/readyz", "")
				return err == nil && status == http.StatusOK
			})
			for _, request := range []struct{ method, path, body string }{
				{"GET", "/", ""}, {"GET", "/jobs", ""}, {"GET", "/v1/topics", ""}, {"GET", "/v1/tokens", ""}, {"GET", "/v1/tasks", ""},
				{"POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`},
				{"POST", "/v1/topics/pay/tasks", `{"url":"http://127.0.0.1/"}`},
				{"POST", "/v1/topics/pay/pause", ""},
				{"PUT", "/v1/topics/pay", `{"concurrency":1}`},
			} {
				status, text, err := v.ask(at, "", request.method, request.path, request.body)
				if err != nil || status != http.StatusUnauthorized {
					x.Errorf("%s: %s %s without a token: %d %.200s %v", p.name, request.method, request.path, status, text, err)
				}
				closed++
			}
			if status, text, err := v.ask(at, v.token, "GET", "/v1/topics", ""); err != nil || status != http.StatusOK {
				x.Errorf("%s: with the token: %d %.200s %v", p.name, status, text, err)
			}
		}
		if n := x.number("SELECT COUNT(*) FROM async_job_tab"); n > 0 {
			x.Errorf("%d tasks were added", n)
		}
		x.tell("nginx and HAProxy as they come in front of pqueue serve", len(frontProxies), outcome{}, 0, 0, "%d requests without a token, all answered with 401", closed)
	})
}

// startProxy starts a proxy before an address, until the test ends, and returns its own.
func (x *trial) startProxy(command []string, config, mode, more, to string) (at string) {
	x.Helper()
	dir, err := os.MkdirTemp("", "proxy-")
	if err != nil {
		x.Fatal(err)
	}
	at = fmt.Sprintf("127.0.0.1:%d", dbtest.FreePort(x.T))
	file := filepath.Join(dir, "config")
	config = strings.NewReplacer("{more}", more).Replace(config)
	if err := os.WriteFile(file, []byte(strings.NewReplacer("{dir}", dir, "{at}", at, "{to}", to, "{mode}", mode).Replace(config)), 0o600); err != nil {
		x.Fatal(err)
	}
	flags := []string{"-f", file}
	if mode == "" { // nginx
		flags = []string{"-p", dir, "-c", file}
	}
	cmd := exec.Command(command[0], append(command[1:len(command):len(command)], flags...)...)
	var said lines
	cmd.Stdout, cmd.Stderr = &said, &said
	x.Cleanup(func() { // when it has ended
		os.RemoveAll(dir)
		if x.Failed() {
			x.Log(said.String())
		}
	})
	startUntilTheEnd(x.T, cmd)
	return at
}

// startUntilTheEnd starts a program and kills it when the test ends. The channel is closed when the program has ended.
func startUntilTheEnd(t *testing.T, cmd *exec.Cmd) <-chan struct{} {
	t.Helper()
	endWithParent(cmd)
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // as in server.start
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	return ended
}

// readProgram reads how to start a program, as testenv tells.
func readProgram(t *testing.T, variable string) (command []string) {
	t.Helper()
	const remedy = `"make faults" sets it, and so does "go run ./tests/testenv -private -- go test ./tests/faults"`
	text := os.Getenv(variable)
	switch {
	case runtime.GOOS != "linux":
		t.Skip("left out: testenv provides it on Linux only")
	case text != "":
		if err := json.Unmarshal([]byte(text), &command); err != nil || len(command) == 0 {
			t.Fatalf("%s: %v; %s", variable, err, remedy)
		}
	case os.Getenv("PQ_TEST_ALL") != "":
		t.Fatalf("%s is not set: %s", variable, remedy)
	default:
		t.Skipf("left out: %s is not set; %s", variable, remedy)
	}
	return command
}
