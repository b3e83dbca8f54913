package service

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// recipe is the part of a document that stands in a block of a language, and has a text in it.
func recipe(t *testing.T, document, language, part string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/service/" + document)
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

// The INSERT of docs/service/service.md, in the own transaction of whoever wants a task.
func TestATaskCanBeAddedByAPlainInsert(t *testing.T) {
	t.Parallel()
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
