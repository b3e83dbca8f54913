package cli

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"

	"github.com/create-info/persistent-queue/service"
)

// sayFirstToken makes the first token, if there is none, and shows it.
func (a *app) sayFirstToken(ctx context.Context, tasks *service.Service, s *server) error {
	if s.open {
		a.sayf(
			"programs on this machine may do everything until there is a token, and so may everybody behind a proxy on this machine that does not say that " +
				"it is one")
		return nil
	}
	if !s.firstToken {
		a.sayf("each call needs a token; %s makes one", a.makesToken())
		return nil
	}
	text, err := tasks.FirstToken(ctx)
	if err == nil && text == "" {
		a.sayf("each call needs a token, of which there are some; %s makes another one", a.makesToken())
	}
	if err == nil && text != "" {
		a.sayf(`each call needs a token. There was none, so here is one that may do everything. It is not shown again:

  export PQ_TOKEN=%s

and in each call: -H "Authorization: Bearer $PQ_TOKEN". %s makes others, and pqueue token revoke first ends this one`, text, a.makesToken())
	}
	return err
}

// makesToken is how to make a token that may do everything, with the flags that name the same database. A DSN may have a password, and is
// left out; so is the file that both commands use if none is named.
func (a *app) makesToken() string {
	command := "pqueue token create --scope admin"
	if a.dsnFile != "" {
		command += " --dsn-file " + a.dsnFile
	}
	if a.prefix != "" {
		command += " --prefix " + a.prefix
	}
	return command
}

// keyed lets those see the console who have the link that this start has shown. The link says the key once; a cookie says it from then on,
// until the process ends.
type keyed struct {
	key    string
	cookie string // its name: consoles on other ports of this machine have their own
	next   http.Handler
}

func newKey() string { return rand.Text() }

func withKey(key string, next http.Handler) http.Handler {
	hash := sha256.Sum256([]byte(key))
	return http.NewCrossOriginProtection().Handler(&keyed{key, "pqueue_" + hex.EncodeToString(hash[:4]), next})
}

func (k *keyed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Has("key") && k.fits(query.Get("key")) && r.Method == http.MethodGet {
		http.SetCookie(w, &http.Cookie{Name: k.cookie, Value: k.key, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
		query.Del("key")
		w.Header().Set("Location", "?"+query.Encode()) // the same page; a proxy may have taken a part of its path away
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	if c, err := r.Cookie(k.cookie); err != nil || !k.fits(c.Value) {
		http.Error(w, "open the console by the link that pqueue serve has shown at its start; --login asks for users instead", http.StatusUnauthorized)
		return
	}
	k.next.ServeHTTP(w, r)
}

func (k *keyed) fits(key string) bool {
	return subtle.ConstantTimeCompare([]byte(key), []byte(k.key)) == 1
}
