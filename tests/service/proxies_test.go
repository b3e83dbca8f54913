package service

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// A proxy on the same machine, with no more in its configuration than it needs, must not make the whole world a program on this machine.
func TestNoProxyOpensTheAPIOrTheConsole(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		file, err := pqueue()
		if err != nil {
			t.Fatal(err)
		}
		served := exec.Command(file, "serve", "--listen", "127.0.0.1:0", "--driver", d.Driver, "--dsn", d.DSN)
		base := startSaying(t, served, `http://([^/\s]+)/\?key=`)
		for name, c := range map[string]struct {
			config  string
			command []string
		}{
			"nginx": {"daemon off;\nerror_log stderr;\npid %[1]s/nginx.pid;\nevents {}\nhttp { access_log off; client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;\n" +
				"server { listen %[2]s; location / { proxy_pass http://%[3]s; } } }\n", []string{"nginx", "-p", "%[1]s", "-c", "%[1]s/config"}},
			"nginx with HTTP/1.1": {"daemon off;\nerror_log stderr;\npid %[1]s/nginx.pid;\nevents {}\nhttp { access_log off; client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;\n" +
				"server { listen %[2]s; location / { proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_pass http://%[3]s; } } }\n", []string{"nginx", "-p", "%[1]s", "-c", "%[1]s/config"}},
			"HAProxy": {"defaults\n mode http\n timeout connect 5s\n timeout client 9s\n timeout server 9s\nfrontend f\n bind %[2]s\n default_backend b\nbackend b\n http-request set-header Host %[3]s\n server s %[3]s\n",
				[]string{"haproxy", "-f", "%[1]s/config"}},
		} {
			t.Run(name, func(t *testing.T) {
				program, err := exec.LookPath(c.command[0])
				if err != nil {
					if program, err = exec.LookPath("/usr/sbin/" + c.command[0]); err != nil {
						t.Skipf("left out: there is no %s on this machine; Debian has it in %[1]s", c.command[0])
					}
				}
				folder := t.TempDir()
				free, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				at := free.Addr().String()
				free.Close()
				if err := os.WriteFile(filepath.Join(folder, "config"), fmt.Appendf(nil, c.config, folder, at, base), 0o600); err != nil {
					t.Fatal(err)
				}
				var arguments []string
				for _, a := range c.command[1:] {
					arguments = append(arguments, strings.ReplaceAll(a, "%[1]s", folder))
				}
				proxy := exec.Command(program, arguments...)
				proxy.WaitDelay = time.Second // a child may keep what it writes to
				proxy.Stdout, proxy.Stderr = t.Output(), t.Output()
				if err := proxy.Start(); err != nil {
					t.Fatal(err)
				}
				defer proxy.Wait()
				defer proxy.Process.Signal(syscall.SIGTERM)
				through := &instance{t: t, base: "http://" + at}
				await(t, "it passes requests on", isReady(through.base))
				for _, path := range []string{"/", "/jobs", "/v1/topics", "/v1/tokens", "/v1/tasks"} {
					through.send(http.StatusUnauthorized, "GET", path, "")
				}
				through.send(http.StatusUnauthorized, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`)
				through.send(http.StatusUnauthorized, "POST", "/v1/topics/pay/pause", "")
			})
		}
	})
}

// startSaying starts a command until the test ends, and returns what a pattern finds in what it says.
func startSaying(t *testing.T, command *exec.Cmd, pattern string) string {
	t.Helper()
	words, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	lines := bufio.NewScanner(words)
	for lines.Scan() {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(lines.Text()); found != nil {
			go func() {
				for lines.Scan() {
				}
			}()
			return found[1]
		}
	}
	t.Fatalf("it does not say %s", pattern)
	return ""
}
