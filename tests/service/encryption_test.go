package service

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/aesgcm"
	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// carried is in the addresses, headers, bodies and labels of tasks. It is in no table.
const carried = "rutabaga-and-chervil"

// encrypted has a service encrypt with the first of some keys.
func encrypted(t *testing.T, ids ...string) func(*service.Config) {
	t.Helper()
	var keys []aesgcm.Key
	for _, id := range ids {
		keys = append(keys, aesgcm.Key{ID: id, Secret: bytes.Repeat([]byte(id[len(id)-1:]), 32)})
	}
	codec, err := aesgcm.New(keys[0], keys[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return func(cfg *service.Config) { cfg.Codec = codec }
}

// storedValues calls a function with each value of each table.
func storedValues(t *testing.T, d dbtest.Database, each func(where, value string)) {
	t.Helper()
	names := "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
	switch d.Name {
	case "SQLite":
		names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
	case "PostgreSQL":
		names = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
	}
	var tables []string
	read := func(query string, row func(columns []string, values []sql.RawBytes)) {
		rows, err := d.DB.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		columns, err := rows.Columns()
		values, places := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
		for i := range values {
			places[i] = &values[i]
		}
		for rows.Next() {
			err = errors.Join(err, rows.Scan(places...))
			row(columns, values)
		}
		if err = errors.Join(err, rows.Err()); err != nil {
			t.Fatal(err)
		}
	}
	read(names, func(_ []string, values []sql.RawBytes) { tables = append(tables, string(values[0])) })
	for _, table := range tables {
		read("SELECT * FROM "+table, func(columns []string, values []sql.RawBytes) {
			for i, value := range values {
				each(table+"."+columns[i], string(value))
			}
		})
	}
}

// addHidden adds a task in each way there is, and returns one that waits for tomorrow.
func addHidden(i *instance, to string) (waiting string) {
	i.t.Helper()
	of := func(more string) string {
		return fmt.Sprintf(`{"url":"%[1]s/%[2]s?q=%[2]s","headers":{"X-Hidden":"%[2]s"},"labels":{"%[2]s":"%[2]s"},"body":{"carried":"%[2]s"}%[3]s}`,
			to, carried, more)
	}
	i.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", of(""))
	i.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", of(""), "Idempotency-Key: once")
	i.send(http.StatusOK, "PUT", "/v1/topics/orders", `{"retry":{"waits":["1s"],"max_attempts":2}}`)
	waiting = i.send(http.StatusCreated, "PUT", "/v1/topics/orders/tasks/waits", of(`,"delay":"24h"`)).id()
	i.send(http.StatusOK, "PUT", "/v1/topics/orders/tasks/waits", of(`,"delay":"25h"`)) // it is replaced
	task := of(`,"topic":"orders"`)
	i.send(http.StatusOK, "POST", "/v1/batch", `{"tasks":[`+task+`,`+task+`]}`)
	i.send(http.StatusOK, "POST", "/v1/batch", task+"\n", "Content-Type: application/x-ndjson")
	i.send(http.StatusCreated, "PUT", "/v1/schedules/nightly", `{"cron":"* * * * *","topic":"orders","task":`+of("")+`}`)
	failing := of(fmt.Sprintf(`,"on_failure":{"url":"%s/told?q=%s"}`, to, carried))
	i.send(http.StatusCreated, "POST", "/v1/topics/failing/tasks", strings.Replace(failing, to+"/", to+"/fails/", 1))
	return waiting
}

func TestNoTableHasWhatTasksCarryIfTheServiceEncryptsIt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		got := receive(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/fails/") {
				w.WriteHeader(http.StatusGone)
			}
		})
		first := start(t, d, encrypted(t, "key-1"))
		waiting := addHidden(first, got.URL)
		await(t, "six callbacks come, one that fails, and what tells of it", func() bool { return len(got.all()) >= 7 })
		for _, call := range got.all() {
			if call.path != "/told" && (call.header.Get("X-Hidden") != carried || call.body != `{"carried":"`+carried+`"}`) {
				t.Errorf("a callback came with %q and %v", call.body, call.header)
			}
		}
		sealed := 0
		storedValues(t, d, func(where, value string) {
			if sealed += strings.Count(value, "pq:codec:key-1:"); strings.Contains(value, carried) {
				t.Errorf("%s: %s", where, value)
			}
		})
		if sealed < 9 {
			t.Errorf("%d values are encrypted", sealed)
		}

		// The next process has another key, and sends what was encrypted with the one before. Whoever asks is told what the task carries.
		next := start(t, d, encrypted(t, "key-2", "key-1"))
		if url := next.send(http.StatusOK, "GET", "/v1/tasks/"+waiting, "").json("url"); url != got.URL+"/"+carried+"?q=…" {
			t.Errorf("the task's address is %v", url)
		}
		if body := next.send(http.StatusOK, "GET", "/v1/tasks/"+waiting+"/body", "").json("body_text"); body != `{"carried":"`+carried+`"}` {
			t.Errorf("the task's body is %v", body)
		}
		before := len(got.all())
		next.send(http.StatusOK, "POST", "/v1/tasks/"+waiting+"/run", "")
		next.awaitStatus(waiting, "succeeded")
		if n := len(got.all()); n <= before {
			t.Errorf("%d callbacks, as before", n)
		}
	})
}

func TestTasksFromBeforeTheServiceEncryptedAreSentAndOnesThatBecomeTooLongAreRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		got := receive(t, nil)
		plain := start(t, d, func(cfg *service.Config) { cfg.WithoutDelivery = true })
		id := plain.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", fmt.Sprintf(`{"url":"%s","body":%q}`, got.URL, carried)).id()
		i := start(t, d, encrypted(t, "key-1"))
		i.awaitStatus(id, "succeeded")
		long := fmt.Sprintf(`{"url":"%s","body_text":"%s"}`, got.URL, strings.Repeat(`\u0001`, 150_000)) // each has six bytes in the table, too
		plain.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", long)
		for path, body := range map[string]string{"/v1/topics/orders/tasks": long, "/v1/batch": `{"tasks":[` + strings.Replace(long, "{", `{"topic":"orders",`, 1) + `]}`} {
			if a := i.send(http.StatusRequestEntityTooLarge, "POST", path, body); !strings.Contains(string(a.text), "encoded") {
				t.Errorf("%s: %s", path, a.text)
			}
		}
	})
}
