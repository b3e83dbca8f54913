package tests

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// A form of which a part has come in says something else than the whole: it would cancel the jobs of a type, and not those of one key.
func TestTheConsoleCarriesOutNoPartOfAForm(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		id, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 7, Delay: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		pages := console.Handler(jobs)
		post := func(path, media string, body io.Reader) int {
			r := httptest.NewRequest("POST", "http://127.0.0.1"+path, body)
			r.RemoteAddr, r.ContentLength = "127.0.0.1:9", 100
			r.Header.Set("Content-Type", media)
			w := httptest.NewRecorder()
			pages.ServeHTTP(w, r)
			return w.Code
		}
		cut := func(text string) io.Reader {
			return io.MultiReader(strings.NewReader(text), iotest.ErrReader(io.ErrUnexpectedEOF))
		}
		const form = "application/x-www-form-urlencoded"
		for path, text := range map[string]string{
			"/operations": "verb=cancel&type=7&why=night", fmt.Sprintf("/jobs/%d/cancel", id): "why=nig", fmt.Sprintf("/jobs/%d/priority", id): "priority=10",
			"/queues/7/pause": "", "/queues/7/limits": "", "/schedules/delete": "name=nightly", "/workers/here/drain": "", "/queues/7/leases/0/break": "",
			"/errors/1/retry": "type=7",
		} {
			if status := post(path, form, cut(text)); status != http.StatusBadRequest {
				t.Errorf("%s with a part of its form: %d", path, status)
			}
			if status := post(path, "multipart/form-data; boundary=x", strings.NewReader("--x\r\nContent-Disposition: form-data; name=\"why\"\r\n\r\nnight\r\n--x--\r\n")); status != http.StatusUnsupportedMediaType {
				t.Errorf("%s in parts: %d", path, status)
			}
			if status := post(path, form, strings.NewReader("why="+strings.Repeat("x", 4<<20))); status != http.StatusRequestEntityTooLarge {
				t.Errorf("%s with a form of four mebibytes: %d", path, status)
			}
		}
		// Whoever asks for a page is not asked for what comes with that.
		r := httptest.NewRequest("GET", "http://127.0.0.1/operations/new?verb=cancel&type=7", iotest.ErrReader(errors.New("somebody reads")))
		r.RemoteAddr, r.ContentLength = "127.0.0.1:9", -1
		r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		w := httptest.NewRecorder()
		if pages.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		acts, err := operate.Operations(t.Context(), jobs, d.DB, 0, 10)
		if job, errJob := jobs.Get(t.Context(), d.DB, queue_job.ID(id)); err != nil || errJob != nil || len(acts) > 0 || !job.Pending() {
			t.Errorf("%v, %v, %d operations, %+v", err, errJob, len(acts), job)
		}
	})
}
