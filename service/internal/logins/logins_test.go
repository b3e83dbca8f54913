package logins

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/service/internal/tables"
)

// table has users and sessions in memory.
type table struct {
	mu       sync.Mutex
	users    map[string]tables.User
	sessions map[string]session
	away     bool
	looks    int
}

type session struct {
	name    string
	expires time.Time
}

func (m *table) User(_ context.Context, name string) (*tables.User, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u, there := m.users[name]; there {
		return &u, nil
	}
	return nil, m.err()
}

func (m *table) UserOfSession(_ context.Context, hash string, now time.Time) (*tables.User, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	if s, there := m.sessions[hash]; there && s.expires.After(now) && !m.away {
		u := m.users[s.name]
		return &u, nil
	}
	return nil, m.err()
}

func (m *table) AddSession(_ context.Context, hash, name string, _, expires time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions[hash] = session{name, expires}
	return m.err()
}

func (m *table) DropSession(_ context.Context, hash string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, hash)
	return m.err()
}

func (m *table) err() error {
	if m.away {
		return errors.New("away")
	}
	return nil
}

const right = "correct horse battery"

func newTable(t *testing.T) *table {
	t.Helper()
	hash, err := Hash(right)
	if err != nil {
		t.Fatal(err)
	}
	return &table{users: map[string]tables.User{"ann": {Name: "ann", Hash: hash, Role: "operate"}}, sessions: map[string]session{}}
}

// browser goes to a protected page that says who looks.
type browser struct {
	*testing.T
	http.Client
	base string
}

func browse(t *testing.T, g *Guard) *browser {
	t.Helper()
	return browserOf(t, protected(g))
}

func protected(g *Guard) http.Handler {
	return g.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user := UserOf(r); user != nil {
			fmt.Fprint(w, "hello ", user.Name)
		}
	}))
}

func browserOf(t *testing.T, h http.Handler) *browser {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, http.Client{Jar: jar}, web.URL}
}

func (b *browser) get(path string) (status int, at, text string) {
	b.Helper()
	answer, err := b.Get(b.base + path)
	return b.read(answer, err)
}

func (b *browser) post(path string, values url.Values, headers ...string) (status int, at, text string) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), "POST", b.base+path, strings.NewReader(values.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := b.Do(r)
	return b.read(answer, err)
}

func (b *browser) read(answer *http.Response, err error) (status int, at, text string) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	var all strings.Builder
	if err := answer.Write(&all); err != nil {
		b.Fatal(err)
	}
	return answer.StatusCode, answer.Request.URL.RequestURI(), all.String()
}

// filled is the form, filled in.
func filled(name, password, to string) url.Values {
	return url.Values{"name": {name}, "password": {password}, "to": {to}}
}

func TestWhoeverLogsInSeesThePageThatWasAskedFor(t *testing.T) {
	m := newTable(t)
	b := browse(t, New(m))
	status, at, text := b.get("/jobs?type=7")
	if status != http.StatusOK || !strings.HasPrefix(at, "/login?to=%2Fjobs%3Ftype%3D7") || !strings.Contains(text, `value="/jobs?type=7"`) {
		t.Fatalf("%d %s %s", status, at, text)
	}
	if status, _, text = b.post("/login", filled("ann", "wrong", "/jobs")); status != http.StatusUnauthorized || !strings.Contains(text, "The name or the password is wrong.") || !strings.Contains(text, `value="ann"`) {
		t.Errorf("%d %s", status, text)
	}
	if status, at, text = b.post("/login", filled("ann", right, "/jobs?type=7")); status != http.StatusOK || at != "/jobs?type=7" || !strings.Contains(text, "hello ann") {
		t.Errorf("%d %s %s", status, at, text)
	}
	before := m.looks
	for range 20 {
		b.get("/")
	}
	if n := m.looks - before; n > 1 {
		t.Errorf("twenty pages cost %d looks at the session", n)
	}
	if status, at, _ = b.post("/logout", nil); status != http.StatusOK || at != "/login" {
		t.Errorf("%d %s", status, at)
	}
	if _, at, _ = b.get("/jobs"); !strings.HasPrefix(at, "/login") {
		t.Errorf("after the logout, %s is seen", at)
	}
	if status, _, _ = b.post("/jobs/1/cancel", nil); status != http.StatusUnauthorized {
		t.Errorf("after the logout, a change is answered with %d", status)
	}
	if len(m.sessions) != 0 {
		t.Errorf("%d sessions", len(m.sessions))
	}
}

func TestASessionIsNewAtEachLoginAndOutOfOthersReach(t *testing.T) {
	m := newTable(t)
	b := browse(t, New(m))
	u, err := url.Parse(b.base)
	if err != nil {
		t.Fatal(err)
	}
	b.Jar.SetCookies(u, []*http.Cookie{{Name: cookieName, Value: "planted"}})
	if _, at, _ := b.get("/"); !strings.HasPrefix(at, "/login") {
		t.Errorf("a planted session opens %s", at)
	}
	b.post("/login", filled("ann", right, "/"))
	first := b.Jar.Cookies(u)[0].Value
	b.post("/login", filled("ann", right, "/"))
	second := b.Jar.Cookies(u)[0].Value
	if first == "planted" || second == first || len(second) < 40 {
		t.Errorf("sessions %q and %q", first, second)
	}
	for hash := range m.sessions {
		if strings.Contains(hash, first) || len(hash) != 64 {
			t.Errorf("the table has %q", hash)
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "https://pqueue.example/login", strings.NewReader(filled("ann", right, "/").Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	New(m).Protect(http.NotFoundHandler()).ServeHTTP(w, r)
	if cookie := w.Header().Get("Set-Cookie"); !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "Secure") || !strings.Contains(cookie, "SameSite=Lax") {
		t.Errorf("the cookie is %q", cookie)
	}
}

func TestForeignPagesCannotLogAnybodyIn(t *testing.T) {
	b := browse(t, New(newTable(t)))
	for _, path := range []string{"/login", "/logout"} {
		if status, _, _ := b.post(path, filled("ann", right, "/"), "Sec-Fetch-Site", "cross-site"); status != http.StatusForbidden {
			t.Errorf("%s from a foreign page: %d", path, status)
		}
	}
}

// Below a path and behind a proxy that takes it away, all that is not ours lies beside and above the root.
func TestALoginLeadsToAPageBelowTheRootAndNowhereElse(t *testing.T) {
	g := New(newTable(t))
	for root, b := range map[string]*browser{
		"/":             browse(t, g),
		"/a/b/":         browserOf(t, http.StripPrefix("/a/b", protected(g))),
		"/tools/queue/": browserOf(t, without("/tools/queue", browse(t, g).base)),
	} {
		below := strings.TrimSuffix(root, "/")
		for asked, to := range map[string]string{
			"/":                           "%2F",
			"/jobs?type=7&key=a%2Fb":      "%2Fjobs%3Ftype%3D7%26key%3Da%252Fb",
			"/types/7/what-if?last=1h":    "%2Ftypes%2F7%2Fwhat-if%3Flast%3D1h",
			"/instances/a%2Fb%2Fc":        "%2Finstances%2Fa%252Fb%252Fc", // an escaped slash is none for a browser
			"/jobs?url=https://a.example": "%2Fjobs%3Furl%3Dhttps%3A%2F%2Fa.example",
		} {
			if status, at, _ := b.get(below + asked); status != http.StatusOK || at != below+"/login?to="+to {
				t.Errorf("%s%s leads to %d %s", below, asked, status, at)
			}
			text, err := url.QueryUnescape(to)
			if err != nil {
				t.Fatal(err)
			}
			if _, at, text := b.post(below+"/login", filled("ann", right, text)); at != below+asked || !strings.Contains(text, "hello ann") {
				t.Errorf("from %slogin, to %s: %s, %s", root, asked, at, text)
			}
			if _, at, _ := b.post(below+"/logout", nil); at != below+"/login" {
				t.Errorf("a logout at %s leads to %s", root, at)
			}
		}
		for _, to := range []string{
			"", "jobs", "./jobs", "https://evil.example/", "HTTPS:/evil.example", "//evil.example/", "///evil.example", "//ann@/x", "/jobs//evil.example",
			`\\evil.example`, `/\evil.example`, "/%5Cevil.example", "/%5c/evil.example", "/%2Fevil.example", "/%2F", "/jobs//", "/\t/evil.example", " //evil.example", "/\r\nSet-Cookie: a=b",
			"javascript:alert(1)", "/..", "/../", "/../other", "/jobs/../../other", "/%2e%2E/other", "/.%2e/other", "/jobs/..%2f..%2fother", "/./other", "/%zz", "/\x00", "/\u2028x",
		} {
			if _, at, _ := b.post(below+"/login", filled("ann", right, to)); at != root {
				t.Errorf("from %slogin, to=%q leads to %s", root, to, at)
			}
			if _, _, text := b.get(below + "/login?to=" + url.QueryEscape(to)); !strings.Contains(text, `name="to" value="/"`) {
				t.Errorf("the form keeps to=%q: %s", to, text)
			}
		}
	}
}

func TestTwoConsolesBelowOneHostHaveSessionsOfTheirOwn(t *testing.T) {
	host := http.NewServeMux()
	host.Handle("/tools/one/", without("/tools/one", browse(t, New(newTable(t))).base))
	host.Handle("/tools/two/", without("/tools/two", browse(t, New(newTable(t))).base))
	var strangers []*http.Cookie
	host.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { strangers = r.Cookies() })
	b := browserOf(t, host)
	for _, root := range []string{"/tools/one", "/tools/two"} {
		b.post(root+"/login", filled("ann", right, "/jobs"))
	}
	for _, root := range []string{"/tools/one", "/tools/two"} {
		if _, at, text := b.get(root + "/jobs"); at != root+"/jobs" || !strings.Contains(text, "hello ann") {
			t.Errorf("with two sessions, %s/jobs leads to %s", root, at)
		}
	}
	if b.get("/tools/other"); len(strangers) > 0 {
		t.Errorf("another application gets %v", strangers)
	}
	b.post("/tools/one/logout", nil)
	if _, at, _ := b.get("/tools/one/jobs"); !strings.HasPrefix(at, "/tools/one/login") {
		t.Errorf("after the logout, %s is seen", at)
	}
	if _, at, _ := b.get("/tools/two/jobs"); at != "/tools/two/jobs" {
		t.Errorf("the logout of the other console leads to %s", at)
	}
}

// without is a proxy that takes a prefix away.
func without(prefix, base string) http.Handler {
	to, err := url.Parse(base)
	if err != nil {
		panic(err)
	}
	return http.StripPrefix(prefix, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }})
}

func TestWhoeverGuessesWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var th throttle
		tries := 0
		for began := time.Now(); time.Since(began) < 24*time.Hour; {
			if wait := th.wait(time.Now(), "name ann", "address 10.1.2.3"); wait > 0 {
				time.Sleep(wait)
				continue
			}
			tries++
			th.note(time.Now(), false, "name ann", "address 10.1.2.3")
		}
		if tries > 130 {
			t.Errorf("%d guesses in a day", tries)
		}
		th.note(time.Now(), false, "name ann", "address 10.1.2.3")
		if th.wait(time.Now(), "name ann", "address 10.9.9.9") > 0 {
			t.Error("a stranger keeps ann out")
		}
		for n := range freeOfName + 20 { // from as many addresses
			th.note(time.Now(), false, "name ann", fmt.Sprint("address 10.2.0.", n))
		}
		if wait := th.wait(time.Now(), "name ann", "address 10.9.9.9"); wait == 0 || wait > longestName {
			t.Errorf("with many strangers, ann waits for %v", wait)
		}
		if th.wait(time.Now(), "name bob", "address 10.9.9.9") > 0 {
			t.Error("somebody else has to wait")
		}
		time.Sleep(longestWait + time.Second)
		if wait := th.wait(time.Now(), "name ann"); wait > 0 {
			t.Errorf("later, ann still has to wait for %v", wait)
		}
		th.note(time.Now(), true, "name ann")
		if th.wait(time.Now(), "name ann") > 0 {
			t.Error("after a success, ann has to wait")
		}
		for n := range 3 * knownMax {
			th.note(time.Now(), false, fmt.Sprint("address ", n))
		}
		if n := len(th.failed); n > 2*knownMax+1 {
			t.Errorf("%d failures are remembered", n)
		}
	})
}

func TestGuessesAreThrottledAtThePageToo(t *testing.T) {
	b := browse(t, New(newTable(t)))
	for range freeTries + 1 {
		b.post("/login", filled("ann", "wrong", "/"))
	}
	if status, _, text := b.post("/login", filled("ann", right, "/")); status != http.StatusTooManyRequests || !strings.Contains(text, "Try again in") {
		t.Errorf("%d %s", status, text)
	}
}

func TestWithoutADatabaseNobodyIsLetIn(t *testing.T) {
	m := newTable(t)
	b := browse(t, New(m))
	b.post("/login", filled("ann", right, "/"))
	m.away = true
	other := browse(t, New(m)) // it knows no session yet
	other.Jar = b.Jar
	u, _ := url.Parse(other.base)
	from, _ := url.Parse(b.base)
	other.Jar.SetCookies(u, b.Jar.Cookies(from))
	if status, _, text := other.get("/"); status != http.StatusServiceUnavailable || strings.Contains(text, "hello") {
		t.Errorf("%d %s", status, text)
	}
}

func TestAPasswordFitsItsHashAndNoOther(t *testing.T) {
	one, err := Hash(right)
	if err != nil {
		t.Fatal(err)
	}
	two, _ := Hash(right)
	if one == two || !strings.HasPrefix(one, "$argon2id$v=19$m=19456,t=2,p=1$") || !fits(right, one) || !fits(right, two) {
		t.Errorf("%s, %s", one, two)
	}
	for _, hash := range []string{nobody, "", "$argon2id$", strings.Replace(one, "t=2", "t=1", 1), one + "$", strings.ToUpper(one)} {
		if fits(right, hash) {
			t.Errorf("%q fits", hash)
		}
	}
	for _, wrong := range []string{"", right + " ", strings.ToUpper(right), strings.Repeat("x", 5000)} {
		if fits(wrong, one) {
			t.Errorf("%q fits", wrong)
		}
	}
	for _, bad := range []string{"", "too short", strings.Repeat("x", passwordMax+1)} {
		if _, err := Hash(bad); err == nil {
			t.Errorf("a password of %d bytes is taken", len(bad))
		}
	}
}
