package logins

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhoGuessesTheSharedPasswordWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Shared("correct horse battery", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		ask := func(address, password string) *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", "/jobs", nil)
			r.RemoteAddr = address
			if password != "" {
				r.SetBasicAuth("ann", password)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		for range 100 { // nobody guesses
			if w := ask("10.0.0.1:5", ""); w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" {
				t.Fatalf("without a password: %d", w.Code)
			}
		}
		tries := 0
		for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(time.Second) {
			switch w := ask("10.0.0.1:5", "a guess"); {
			case w.Code == http.StatusUnauthorized:
				tries++
			case w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "":
				t.Fatalf("a guess is answered with %d", w.Code)
			}
			if w := ask("10.0.0.2:5", "correct horse battery"); w.Code != http.StatusOK {
				t.Fatalf("another address is answered with %d", w.Code)
			}
		}
		if tries > 20 {
			t.Errorf("%d guesses in an hour", tries)
		}
		if w := ask("10.0.0.1:5", "correct horse battery"); w.Code != http.StatusTooManyRequests {
			t.Errorf("while it waits, the right password tells itself: %d", w.Code)
		}
		time.Sleep(longestWait)
		if w := ask("10.0.0.1:5", "correct horse battery"); w.Code != http.StatusOK {
			t.Errorf("after the wait: %d", w.Code)
		}
	})
}
