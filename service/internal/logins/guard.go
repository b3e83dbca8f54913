package logins

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/service/internal/tables"
)

const (
	cookieName = "pqueue_session"
	sessionMax = 12 * time.Hour
	knownFor   = 10 * time.Second // then a session is looked up again
	lookMax    = 5 * time.Second
	formMax    = 10 << 10 // bytes

	sessionsMax = 10_000 // that are remembered
)

// Table is what a guard needs of the tables. *tables.Tables has it.
type Table interface {
	User(ctx context.Context, name string) (*tables.User, error)
	UserOfSession(ctx context.Context, hash string, now time.Time) (*tables.User, error)
	AddSession(ctx context.Context, hash, name string, now, expires time.Time) error
	DropSession(ctx context.Context, hash string) error
}

// Guard lets those pass who have logged in, and shows the others a page to do so.
type Guard struct {
	table    Table
	throttle throttle

	mu    sync.Mutex
	known map[string]seen // sessions, by hash
}

type seen struct {
	user *tables.User
	at   time.Time
}

// New makes a guard of the users in a table.
func New(table Table) *Guard { return &Guard{table: table, known: map[string]seen{}} }

type contextKey struct{}

// UserOf is who has sent a request that a guard let pass.
func UserOf(r *http.Request) *tables.User {
	user, _ := r.Context().Value(contextKey{}).(*tables.User)
	return user
}

// Protect puts the guard before a handler. It has /login and /logout for itself; what is below /static/ passes, for the page to log in uses
// it.
func (g *Guard) Protect(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		page(w, http.StatusOK, form{To: pathOf(r.FormValue("to"))})
	})
	mux.HandleFunc("POST /login", g.login)
	mux.HandleFunc("POST /logout", g.logout)
	mux.Handle("GET /static/", next)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		user, err := g.user(r)
		switch {
		case err != nil:
			http.Error(w, "the database does not answer, so nobody knows who you are", http.StatusServiceUnavailable)
		case user != nil:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), contextKey{}, user)))
		case r.Method == http.MethodGet:
			http.Redirect(w, r, "/login?to="+template.URLQueryEscaper(r.URL.RequestURI()), http.StatusSeeOther)
		default:
			http.Error(w, "log in again: your session is over", http.StatusUnauthorized)
		}
	})
	return http.NewCrossOriginProtection().Handler(mux) // nobody's page can log you in or out
}

// user is who has a request's session; nil: nobody. A session is looked up once in some seconds.
func (g *Guard) user(r *http.Request) (*tables.User, error) {
	hash, given := sessionOf(r)
	if !given {
		return nil, nil
	}
	now := time.Now()
	g.mu.Lock()
	was, known := g.known[hash]
	g.mu.Unlock()
	if known && now.Sub(was.at) < knownFor {
		return was.user, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookMax)
	defer cancel()
	user, err := g.table.UserOfSession(ctx, hash, now)
	if err == nil {
		g.remember(hash, user, now)
	}
	return user, err
}

func (g *Guard) remember(hash string, user *tables.User, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) >= sessionsMax {
		clear(g.known)
	}
	if user == nil {
		delete(g.known, hash)
		return
	}
	g.known[hash] = seen{user, now}
}

// sessionOf is the hash of the session that a request shows.
func sessionOf(r *http.Request) (hash string, given bool) {
	cookie, err := r.Cookie(cookieName)
	if err != nil || cookie.Value == "" {
		return "", false
	}
	return hashOf(cookie.Value), true
}

// hashOf needs no salt: a session's secret has 260 bits of chance.
func hashOf(secret string) string {
	hash := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(hash[:])
}

func (g *Guard) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, formMax)
	f := form{Name: r.PostFormValue("name"), To: pathOf(r.PostFormValue("to"))}
	now, keys := time.Now(), []string{"name " + f.Name, "address " + networkOf(r.RemoteAddr)}
	if wait := g.throttle.wait(now, keys...); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		f.Wrong = fmt.Sprintf("That went wrong too often. Try again in %v.", wait.Round(time.Second)+time.Second)
		page(w, http.StatusTooManyRequests, f)
		return
	}
	g.throttle.note(now, false, keys...) // until it is known to be right: those who guess side by side are counted
	ctx, cancel := context.WithTimeout(r.Context(), lookMax)
	defer cancel()
	user, err := g.table.User(ctx, f.Name)
	hash := nobody
	if user != nil {
		hash = user.Hash
	}
	switch right := fits(r.PostFormValue("password"), hash); {
	case err != nil:
		f.Wrong = "The database does not answer. Try again."
		page(w, http.StatusServiceUnavailable, f)
		return
	case user == nil || !right:
		f.Wrong = "The name or the password is wrong."
		page(w, http.StatusUnauthorized, f)
		return
	}
	g.throttle.note(now, true, keys...)
	secret := rand.Text() + rand.Text() // a new one: whoever knew an old one knows nothing
	if err := g.table.AddSession(ctx, hashOf(secret), user.Name, now, now.Add(sessionMax)); err != nil {
		f.Wrong = "The database does not answer. Try again."
		page(w, http.StatusServiceUnavailable, f)
		return
	}
	http.SetCookie(w, cookie(r, secret, int(sessionMax/time.Second)))
	http.Redirect(w, r, f.To, http.StatusSeeOther)
}

func (g *Guard) logout(w http.ResponseWriter, r *http.Request) {
	if hash, given := sessionOf(r); given {
		ctx, cancel := context.WithTimeout(r.Context(), lookMax)
		defer cancel()
		if err := g.table.DropSession(ctx, hash); err != nil {
			http.Error(w, "the database does not answer, so your session goes on; try again", http.StatusServiceUnavailable)
			return
		}
		g.remember(hash, nil, time.Now())
	}
	http.SetCookie(w, cookie(r, "", -1))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// cookie is for this site's own requests, and out of the reach of scripts.
func cookie(r *http.Request, value string, seconds int) *http.Cookie {
	secure := r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
	return &http.Cookie{Name: cookieName, Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode}
}

// pathOf is where to go after a login: to a page of ours, wherever the text leads.
func pathOf(text string) string {
	if !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || strings.ContainsAny(text, "\\\r\n\t") {
		return "/"
	}
	return text
}

// networkOf is the address of a client, or with IPv6 its network: whoever has one address there has all.
func networkOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	ip := net.ParseIP(host)
	if ip == nil || ip.To4() != nil {
		return host
	}
	const networkBits, bits = 64, 128
	return ip.Mask(net.CIDRMask(networkBits, bits)).String()
}

// form is what the page to log in shows.
type form struct{ Name, To, Wrong string }

//go:embed login.html
var loginPage string

var login = template.Must(template.New("login").Parse(loginPage))

func page(w http.ResponseWriter, status int, f form) {
	var text bytes.Buffer
	if err := login.Execute(&text, f); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // whoever asked may be gone
}
