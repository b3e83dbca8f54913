package service

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/service/deliver"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw6ZC1kvFfWHo="

// recipe is the part of a document that stands in a block of a language, and has a text in it.
func recipe(t *testing.T, document, language, part string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + document)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(block[1], part) {
			return block[1]
		}
	}
	t.Fatalf("%s has no %s with %q", document, language, part)
	return ""
}

// signedCall is a callback that was signed.
func signedCall(t *testing.T) called {
	t.Helper()
	signer, err := deliver.NewSigner(deliver.Secret{Key: "whsec_bmV3IG5ldyBuZXcgbmV3IG5ldyBuZXcgbmV3IG5ldyE="}, deliver.Secret{Key: secret})
	if err != nil {
		t.Fatal(err)
	}
	var call called
	t.Run("call", func(t *testing.T) {
		dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
			to := receive(t, nil)
			api := start(t, d, func(c *service.Config) { c.Signer = signer })
			id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{"url":"`+to.URL+`","body":{"name": "Zoë"}}`).id()
			api.awaitStatus(id, "succeeded")
			call = to.all()[0]
		})
	})
	return call
}

func TestTheRecipeForReceiversInPythonKnowsOurCallbacks(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("left out: the recipe is in Python, and there is no python3 on this machine; install it, for example with apt")
	}
	call := signedCall(t)
	if call.header == nil {
		t.Fatal("no call came")
	}
	headers := fmt.Sprintf("{'webhook-id': %q, 'webhook-timestamp': %q, 'webhook-signature': %q}", call.header.Get("Webhook-Id"), call.header.Get("Webhook-Timestamp"), call.header.Get("Webhook-Signature"))
	program := recipe(t, "callbacks.md", "python", "def is_ours") + fmt.Sprintf(`
import sys
body, headers = sys.stdin.buffer.read(), %s
at = int(headers["webhook-timestamp"])
print(is_ours(%q, headers, body, at), is_ours(%q, headers, body + b" ", at), is_ours(%q, headers, body, at + 301),
      is_ours("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", headers, body, at))
`, headers, secret, secret, secret)
	run := exec.CommandContext(t.Context(), python, "-c", program)
	run.Stdin = strings.NewReader(call.body)
	out, err := run.CombinedOutput()
	if err != nil || string(bytes.TrimSpace(out)) != "True False False False" {
		t.Errorf("%v: %s", err, out)
	}
	if err := deliver.Verify(call.header, []byte(call.body), secret, call.at); err != nil {
		t.Error(err)
	}
}

// The INSERT of docs/service.md, in the own transaction of whoever wants a task.
func TestATaskCanBeAddedByAPlainInsert(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, nil)
		api := start(t, d)
		topic := api.send(http.StatusCreated, "PUT", "/v1/topics/orders", "{}")
		insert := recipe(t, "service.md", "sql", "INSERT INTO async_job_tab")
		now := map[string]string{"PostgreSQL": "EXTRACT(EPOCH FROM now())::bigint", "SQLite": "unixepoch()"}[d.Name]
		if now == "" {
			now = "UNIX_TIMESTAMP()"
		}
		insert = strings.NewReplacer("https://shop.example/cancel", to.URL+"/cancel", "1000000", fmt.Sprint(int(topic.json("job_type").(float64))), "UNIX_TIMESTAMP()", now).Replace(insert)
		tx, err := d.DB.Begin()
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := tx.Exec(strings.TrimSuffix(strings.TrimSpace(insert), ";")); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if tx, err = d.DB.Begin(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := tx.Exec(strings.TrimSuffix(strings.TrimSpace(insert), ";")); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		await(t, "both have come", func() bool { return len(to.all()) >= 2 })
		for _, c := range to.all() {
			if c.body != `{"order":4711}` || c.path != "/cancel" || c.header.Get("Content-Type") != "application/json" {
				t.Errorf("%+v", c)
			}
		}
		await(t, "both have succeeded", func() bool {
			s := api.send(http.StatusOK, "GET", "/v1/tasks?status=succeeded", "")
			return len(s.json("tasks").([]any)) == 2
		})
		if n := len(to.all()); n != 2 {
			t.Errorf("%d calls: one was rolled back", n)
		}
	})
}
