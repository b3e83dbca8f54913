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
	"net/url"
	"path"
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
	nameMax    = 200      // bytes of a name that are remembered; no user's is longer

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
// it. All addresses are relative, as the console's are.
func (g *Guard) Protect(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		page(w, http.StatusOK, form{To: pathOf(r.URL.Query().Get("to"))}) // FormValue would read a body
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
			lead(w, r, "/login?to="+url.QueryEscape(r.URL.RequestURI()))
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
	if err := r.ParseForm(); err != nil {
		page(w, http.StatusBadRequest, form{Wrong: "The form has not come in whole. Try again."})
		return
	}
	f := form{Name: r.PostFormValue("name"), To: pathOf(r.PostFormValue("to"))}
	now, keys := time.Now(), []string{nameKey + f.Name[:min(len(f.Name), nameMax)], "address " + networkOf(r.RemoteAddr)}
	if wait := g.throttle.wait(now, keys...); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		f.Wrong = fmt.Sprintf("That went wrong too often. Try again in %v.", wait.Round(time.Second)+time.Second)
		page(w, http.StatusTooManyRequests, f)
		return
	}
	g.throttle.note(now, false, keys...) // until it is known to be right: guesses that are made side by side are counted
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
	lead(w, r, f.To)
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
	lead(w, r, "/login")
}

// cookie is for this site's own requests, and out of the reach of scripts. It has no path, so a browser takes that of the root, where /login
// and /logout are, as it sees it: others below the same host get no session of ours, and two consoles there do not end each other's.
func cookie(r *http.Request, value string, seconds int) *http.Cookie {
	secure := r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
	return &http.Cookie{Name: cookieName, Value: value, MaxAge: seconds, HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode}
}

// lead sends a browser on to a path below the root. The address is relative, since a proxy may have taken a part of the path away, and
// it begins with dots, so whatever follows is a path of this host. http.Redirect would make it absolute.
func lead(w http.ResponseWriter, r *http.Request, to string) {
	root := "./"
	if depth := strings.Count(r.URL.EscapedPath(), "/") - 1; depth > 0 { // for a browser, %2F is no slash
		root = strings.Repeat("../", depth)
	}
	w.Header().Set("Location", root+strings.TrimPrefix(to, "/"))
	w.WriteHeader(http.StatusSeeOther)
}

// pathOf is where to go after a login, as a path and query below the root: to a page of ours, wherever the text leads. What a browser or
// a proxy could take for another host, or for a way out of the root, leads to the root.
func pathOf(text string) string {
	const root = "/"
	at, err := url.ParseRequestURI(text) // two slashes in front are a part of the path for it
	if err != nil || !strings.HasPrefix(text, root) ||
		strings.ContainsFunc(text, isStrange) || strings.Contains(at.Path, `\`) || strings.Contains(at.Path, "//") {
		return root
	}
	if clean := path.Clean(at.Path); at.Path != clean && at.Path != clean+"/" { // it has dots, which may be escaped
		return root
	}
	return text
}

// isStrange reports whether no browser sends a character in an address, except for a backslash, which some take for a slash.
func isStrange(c rune) bool { return c <= ' ' || c > '~' || c == '\\' }

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
