package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// themes are what a page may look like. The first one is as the viewer's system is set.
var themes = []string{"system", "light", "dark"}

// themeCookie has no path, so a browser sends it to whatever lies beside the address that sets it: to all pages of the console, wherever that
// is, and to nothing else.
const themeCookie = "pqueue_theme"

// themeOf is what the sender of a request has chosen.
func themeOf(r *http.Request) string {
	if cookie, err := r.Cookie(themeCookie); err == nil && slices.Contains(themes, cookie.Value) {
		return cookie.Value
	}
	return themes[0]
}

// Themes are what whoever looks may choose from.
func (p *page) Themes() []string { return themes }

// Scheme is what a browser paints before there is a style.
func (p *page) Scheme() string {
	if p.Theme == themes[0] {
		return "light dark"
	}
	return p.Theme
}

// setTheme keeps what a page is to look like in the viewer's browser. It leads back, so it needs no JavaScript.
func (c *console) setTheme(w http.ResponseWriter, r *http.Request) {
	err := readForm(w, r)
	to := r.PostFormValue("theme")
	if err == nil && !slices.Contains(themes, to) {
		err = failed(http.StatusBadRequest, "%q is no theme; there are %s.", to, strings.Join(themes, ", "))
	}
	if err != nil {
		c.writeError(w, c.pageFor(r, "error"), "Nothing was changed", err)
		return
	}
	const year = 365 * 24 * time.Hour
	cookie := &http.Cookie{Name: themeCookie, Value: to, MaxAge: int(year / time.Second), HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if to == themes[0] {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
	w.Header().Set("Location", rootOf(r)+within(r.PostFormValue("back")))
	w.WriteHeader(http.StatusSeeOther)
}

// within returns the address if it is a page of the console, relative to the overview, and else the address of the overview.
func within(address string) string {
	to, err := url.Parse(address)
	if err != nil || to.Scheme != "" || to.Host != "" || strings.HasPrefix(to.Path, "/") || slices.Contains(strings.Split(to.Path, "/"), "..") {
		return ""
	}
	return address
}

// pageAddressOf is the address of a page that a request asks for, relative to the overview. A change has none.
func pageAddressOf(r *http.Request) string {
	if r.Method != http.MethodGet {
		return ""
	}
	address := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	if r.URL.RawQuery != "" {
		address += "?" + r.URL.RawQuery
	}
	return address
}

// goes are the letters that, after a g, lead to the pages of the menu.
var goes = map[string]string{
	"overview": "o", "jobs": "j", "flows": "f", "errors": "e", "schedules": "s", "workers": "w",
	"leases": "l", "health": "h", "retention": "r", "audit": "a",
}

// Go is the letter of a page of the menu; empty: it has none.
func (e entry) Go() string {
	if e.Path == "" {
		return goes["overview"]
	}
	return goes[e.Path]
}
