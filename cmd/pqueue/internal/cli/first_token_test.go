package cli

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// said is what a process has said.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) find(pattern string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := regexp.MustCompile(pattern).FindStringSubmatch(s.text.String()); found != nil {
		return found[1]
	}
	return ""
}

func TestEachCallNeedsATokenAndTheFirstIsShownOnce(t *testing.T) {
	sh, _, _ := newTables(t)
	first := &said{}
	at, end := servedAs(t, sh, first)
	token := ""
	await(t, "it shows a token", func() bool { token = first.find(`export PQ_TOKEN=(pq_first_\S+)`); return token != "" })
	calls := func(token string, want map[string]int) {
		t.Helper()
		for path, want := range want {
			r, err := http.NewRequestWithContext(t.Context(), "GET", at+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("/%s with the token %.6q: %s, want %d", path, token, answer.Status, want)
			}
		}
	}
	public := map[string]int{"livez": 200, "readyz": 200, "docs": 200, "openapi.json": 200}
	closed := map[string]int{"": 401, "jobs": 401, "static/console.css": 401, "v1/topics": 401, "v1/tokens": 401, "v1/tasks": 401}
	calls("", public)
	calls("", closed)
	calls("pq_first_x", map[string]int{"v1/topics": 401})
	calls(token, map[string]int{"v1/topics": 200, "v1/tokens": 200})
	if listed := sh.want("token list", exitDone, "first", "admin"); strings.Contains(listed, token[len(token)-20:]) {
		t.Error("the list shows a secret")
	}
	if code := end(); code != exitDone {
		t.Errorf("exit code %d", code)
	}

	again := &said{}
	at, end = servedAs(t, sh, again)
	awaitReady(t, at)
	calls(token, map[string]int{"v1/topics": 200})
	calls("", closed)
	await(t, "it says how to make another token", func() bool { return again.find(`some; (pqueue token create --scope admin)`) != "" })
	if code := end(); code != exitDone || again.find(`(PQ_TOKEN)`) != "" {
		t.Errorf("exit code %d, and the second start says %s", code, again.text.String())
	}
}

func awaitReady(t *testing.T, at string) {
	t.Helper()
	await(t, "it serves", func() bool {
		answer, err := http.Get(at + "readyz")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

func TestTheFirstTokenIsNotShownWhereLogsAreKept(t *testing.T) {
	sh, _, _ := newTables(t)
	words := &said{}
	at, end := servedAs(t, sh, words, "--first-token=false")
	awaitReady(t, at)
	await(t, "it says how to make a token", func() bool { return words.find(`needs a token; (pqueue token create --scope admin)`) != "" })
	if end(); words.find(`(pq_)`) != "" {
		t.Errorf("it says %s", words.text.String())
	}
	if listed := sh.want("token list", exitDone); strings.Contains(listed, "first") {
		t.Error(listed)
	}
}

func TestTheConsoleIsForWhoeverHasTheLinkOfThisStart(t *testing.T) {
	sh, _, jobs := newTables(t)
	_ = jobs
	words := &said{}
	at, end := servedAs(t, sh, words, "--api=false", "--delivery=false")
	defer end()
	link := words.find(`(http://\S+\?key=\S+)`)
	if link == "" {
		t.Fatalf("it says %s", words.text.String())
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	get := func(client *http.Client, address string, want int) string {
		t.Helper()
		answer, err := client.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != want || strings.Contains(answer.Request.URL.RawQuery, "key=") && want == 200 {
			t.Errorf("%s leads to %s: %s, %v, want %d", address, answer.Request.URL, answer.Status, err, want)
		}
		return string(text)
	}
	get(browser, at, 401)
	get(browser, at+"?key=wrong", 401)
	get(browser, strings.Replace(link, "/?", "/jobs?type=7&", 1), 200)
	get(browser, at, 200)
	get(http.DefaultClient, at, 401)
	r, err := http.NewRequestWithContext(t.Context(), "POST", at+"types/7/pause", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", "http://evil.example")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	answer, err := browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign page's form: %s", answer.Status)
	}
}

// What nginx and HAProxy send as they come, and what others add. None of it may be taken for a program on this machine.
func TestAProxyAsItComesOpensNothing(t *testing.T) {
	sh, _, _ := newTables(t)
	for _, flags := range [][]string{nil, {"--read-only"}, {"--api=false", "--delivery=false"}, {"--console=false"}} {
		at, end := servedAs(t, sh, io.Discard, flags...)
		host := strings.TrimSuffix(strings.TrimPrefix(at, "http://"), "/")
		for what, head := range map[string]string{
			"nginx":               "HTTP/1.0\r\nHost: " + host + "\r\nConnection: close\r\n",
			"a newer nginx":       "HTTP/1.1\r\nHost: " + host + "\r\n",
			"HAProxy":             "HTTP/1.1\r\nHost: localhost\r\n",
			"a proxy that tells":  "HTTP/1.1\r\nHost: " + host + "\r\nX-Forwarded-For: 192.0.2.7\r\n",
			"a callback of ours":  "HTTP/1.1\r\nHost: " + host + "\r\nWebhook-Id: pq_1\r\nPq-Topic: shop.h\r\n",
			"a page of this host": "HTTP/1.1\r\nHost: " + host + "\r\nOrigin: http://" + host + "\r\nSec-Fetch-Site: same-origin\r\n",
		} {
			for _, line := range []string{"GET /", "GET /jobs", "GET /v1/topics", "GET /v1/tokens", "POST /v1/topics/pay/pause", "POST /jobs/1/cancel", "POST /types/1/pause"} {
				c, err := net.Dial("tcp", host)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := fmt.Fprintf(c, "%s %sContent-Length: 0\r\n\r\n", line, head); err != nil {
					t.Fatal(err)
				}
				answer := make([]byte, 12)
				_, err = io.ReadFull(c, answer)
				c.Close()
				if status := string(answer[9:]); err != nil || status != "401" && status != "403" && status != "404" && status != "503" {
					t.Errorf("%v, %s: %s is answered with %q, %v", flags, what, line, answer, err)
				}
			}
		}
		end()
	}
}

func TestAServerIsOpenToItsMachineOnlyWhereNobodyElseCanBeTakenForIt(t *testing.T) {
	sh, _, _ := newTables(t)
	sh.want("serve --open-to-this-machine --console=false --listen 0.0.0.0:0", exitUsage, "listen on 127.0.0.1")
	sh.want("serve --open-to-this-machine --console=false --listen :0", exitUsage, "listen on 127.0.0.1")
	sh.want("serve --open-to-this-machine --trusted-proxy 10.0.0.1 --listen 127.0.0.1:0", exitUsage, "a proxy is in front")
}
