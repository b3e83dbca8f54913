package logins

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Shared lets requests through that have one password, which all who look share; their name may be any. Those who guess wait as at a login,
// by their address. Each request brings the password, so a right one does not make earlier failures forgotten: others may have that address.
func Shared(password string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(password))
	var throttle throttle
	var trying sync.Mutex // guesses that are made side by side are counted
	try := func(r *http.Request, given string) (right bool, wait time.Duration) {
		trying.Lock()
		defer trying.Unlock()
		now, key := time.Now(), "address "+networkOf(r.RemoteAddr)
		if wait = throttle.wait(now, key); wait > 0 {
			return false, wait
		}
		got := sha256.Sum256([]byte(given))
		if right = subtle.ConstantTimeCompare(got[:], want[:]) == 1; !right {
			throttle.note(now, false, key)
		}
		return right, 0
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, given, guessed := r.BasicAuth(); guessed { // a browser asks without one first
			switch right, wait := try(r, given); {
			case right:
				next.ServeHTTP(w, r)
				return
			case wait > 0:
				w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
				http.Error(w, fmt.Sprintf("that went wrong too often; try again in %v", wait.Round(time.Second)+time.Second), http.StatusTooManyRequests)
				return
			}
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="pqueue", charset="UTF-8"`)
		http.Error(w, "the password is missing or wrong", http.StatusUnauthorized)
	})
}
