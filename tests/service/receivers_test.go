package service

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

const (
	secret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw6ZC1kvFfWHo="
	newSecret = "whsec_bmV3IG5ldyBuZXcgbmV3IG5ldyBuZXcgbmV3IG5ldyE="
)

// receivers are the programs in examples/receivers: what runs each of them at a port, and what makes it before. Where a program is not
// to be had, its receiver is left out.
var receivers = []receiverOf{
	{"Python", nil, func(string) []string { return []string{"python3", "receiver.py"} }, "python3"},
	{"JavaScript", nil, func(string) []string { return []string{"node", "receiver.mjs"} }, "nodejs"},
	{"Java", nil, func(string) []string { return []string{"java", "Receiver.java"} }, "default-jdk-headless"},
	{"PHP", nil, func(port string) []string { // with no settings and no extensions, as a bare image has it
		return []string{"php", "-n", "-S", "127.0.0.1:" + port, "receiver.php"}
	}, "php-cli"},
	{"Ruby", nil, func(string) []string { return []string{"ruby", "receiver.rb"} }, "ruby and ruby-webrick"},
	{"Perl", nil, func(port string) []string {
		return []string{"plackup", "--host", "127.0.0.1", "--port", port, "receiver.pl"}
	}, "libplack-perl"},
	{"C#", []string{"mcs", "-out:Receiver.exe", "Receiver.cs"}, func(string) []string { return []string{"mono", "Receiver.exe"} }, "mono-mcs and mono-runtime"},
}

func TestReceiversInSevenLanguagesTakeOurCallbacksAndNoOthers(t *testing.T) {
	t.Parallel()
	for _, receiver := range receivers {
		t.Run(receiver.name, func(t *testing.T) {
			t.Parallel()
			address, words := startReceiver(t, receiver, nil)
			tryReceiver(t, address)
			if t.Failed() {
				text, _ := os.ReadFile(words)
				t.Logf("it said: %s", text)
			}
		})
	}
}

// dies is a work that dies in each language.
var dies = map[string]string{"Python": "missing()", "JavaScript": "missing();", "Java": "if (ours) throw new IllegalStateException();", "PHP": "missing();", "Ruby": "missing", "Perl": "missing();", "C#": "throw new Exception();"}

// The task of a work that died must come again: its order would be lost.
func TestAReceiverWhoseWorkDiesDoesNotAnswerWithSuccess(t *testing.T) {
	t.Parallel()
	signer, err := service.NewSigner(service.Secret{Key: secret})
	if err != nil {
		t.Fatal(err)
	}
	for _, receiver := range receivers {
		t.Run(receiver.name, func(t *testing.T) {
			t.Parallel()
			work := regexp.MustCompile(`(pass  )?(//|#) The work goes here.*`)
			address, _ := startReceiver(t, receiver, func(text string) string { return work.ReplaceAllLiteralString(text, dies[receiver.name]) })
			for range 20 { // it goes on after the first
				r := request(t, address, "{}")
				signature, err := signer.Sign("pq_1-2-3", time.Now(), []byte("{}"))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Webhook-Id", "pq_1-2-3")
				r.Header.Set("Webhook-Timestamp", strconv.FormatInt(time.Now().Unix(), 10))
				r.Header.Set("Webhook-Signature", signature)
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					if errors.Is(err, syscall.ECONNREFUSED) {
						t.Error("it listens no more")
					}
					continue // no answer is a retry, too
				}
				text, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				if answer.StatusCode < 500 || strings.Contains(string(text), "whsec_") {
					t.Errorf("it was answered with %s: %s", answer.Status, text)
				}
			}
		})
	}
}

// receiverOf is one of the receivers.
type receiverOf struct {
	name  string
	make  []string
	run   func(port string) []string
	needs string // on Debian
}

// startReceiver runs a receiver until the test ends, perhaps with a change of its text, and returns its address and the file with what it says.
func startReceiver(t *testing.T, receiver receiverOf, change func(string) string) (address, words string) {
	t.Helper()
	folder, port := t.TempDir(), strconv.Itoa(dbtest.FreePort(t))
	if err := os.CopyFS(folder, os.DirFS("../../examples/receivers")); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		for _, file := range []string{"receiver.py", "receiver.mjs", "Receiver.java", "receiver.php", "receiver.rb", "receiver.pl", "Receiver.cs"} {
			text, err := os.ReadFile(filepath.Join(folder, file))
			if err == nil {
				err = os.WriteFile(filepath.Join(folder, file), []byte(change(string(text))), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, command := range [][]string{receiver.make, receiver.run(port)} {
		if len(command) == 0 {
			continue
		}
		if _, err := exec.LookPath(command[0]); err != nil {
			t.Skipf("left out: there is no %s on this machine; Debian has it in %s", command[0], receiver.needs)
		}
	}
	if receiver.make != nil {
		if out, err := receiverCommand(t, folder, port, receiver.make).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	program := receiverCommand(t, folder, port, receiver.run(port))
	said, err := os.Create(filepath.Join(folder, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	program.Stdout, program.Stderr = said, said
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = program.Process.Kill() // it may have ended, which the test says
		_ = program.Wait()
	})
	await(t, receiver.name+" listens", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "http://127.0.0.1:" + port + "/cancel", said.Name()
}

func receiverCommand(t *testing.T, folder, port string, command []string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "PORT="+port, "WEBHOOK_SECRET="+secret)
	return cmd
}

// tryReceiver sends a receiver what it has to take, and what it has to refuse.
func tryReceiver(t *testing.T, address string) {
	both, err := service.NewSigner(service.Secret{Key: newSecret}, service.Secret{Key: secret})
	if err != nil {
		t.Fatal(err)
	}
	other, err := service.NewSigner(service.Secret{Key: newSecret})
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"name": "Zoë"}`
	now := time.Now()
	for _, c := range []struct {
		what   string
		signer *service.Signer
		at     time.Time
		body   string
		want   int
	}{
		{"signed with two secrets", both, now, body, http.StatusNoContent},
		{"without a body", both, now, "", http.StatusNoContent},
		{"four minutes old", both, now.Add(-4 * time.Minute), body, http.StatusNoContent},
		{"six minutes old", both, now.Add(-6 * time.Minute), body, http.StatusUnauthorized},
		{"of in six minutes", both, now.Add(6 * time.Minute), body, http.StatusUnauthorized},
		{"signed with another secret", other, now, body, http.StatusUnauthorized},
		{"not signed", nil, now, body, http.StatusUnauthorized},
	} {
		r := request(t, address, c.body)
		if c.signer != nil {
			signature, err := c.signer.Sign("pq_1-2-3", c.at, []byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Webhook-Id", "pq_1-2-3")
			r.Header.Set("Webhook-Timestamp", strconv.FormatInt(c.at.Unix(), 10))
			r.Header.Set("Webhook-Signature", signature)
		}
		wantAnswer(t, c.what, r, c.want)
	}
	for header, value := range map[string]string{"Webhook-Id": "pq_1-2-4", "Webhook-Timestamp": strconv.FormatInt(now.Unix()+1, 10), "Webhook-Signature": "v1,", "": body + " "} {
		signature, err := both.Sign("pq_1-2-3", now, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		sent := body
		if header == "" {
			sent = value
		}
		r := request(t, address, sent)
		r.Header.Set("Webhook-Id", "pq_1-2-3")
		r.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
		r.Header.Set("Webhook-Signature", signature)
		if header != "" {
			r.Header.Set(header, value)
		}
		wantAnswer(t, fmt.Sprintf("with %q for %q", value, header), r, http.StatusUnauthorized)
	}

	signed := func(c *service.Config) { c.SignerOf = func(string) *service.Signer { return both } }
	t.Run("called", func(t *testing.T) {
		dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
			api := start(t, d, signed)
			api.awaitStatus(api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{"url":"`+address+`","body":`+body+`}`).id(), "succeeded")
		})
	})
}

func request(t *testing.T, address, body string) *http.Request {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantAnswer(t *testing.T, what string, r *http.Request, want int) {
	t.Helper()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	answer.Body.Close()
	if answer.StatusCode != want {
		t.Errorf("a request %s was answered with %d, want %d", what, answer.StatusCode, want)
	}
}
