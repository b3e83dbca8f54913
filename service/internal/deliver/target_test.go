package deliver

import (
	"bufio"
	"io"
	"net"

	"net/url"
	"regexp"
	"strings"
	"testing"
)

// strictTarget is what Node and Java take for the target of a request; other servers cut it, or answer 400.
var strictTarget = regexp.MustCompile(`^/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*(?:\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9A-Fa-f]{2})*)?$`)

func TestAURLGoesOutAsEachServerReadsIt(t *testing.T) {
	for given, want := range map[string]string{
		"/ok?name=José&x=你":                 "/ok?name=Jos%C3%A9&x=%E4%BD%A0",
		"/müller/ok":                        "/m%C3%BCller/ok",
		"/a%2Fb|c":                          "/a%2Fb%7Cc", // what was encoded stays so
		"/[a]?b[]=1&c[d]=2":                 "/%5Ba%5D?b[]=1&c[d]=2",
		`/"<>^{|}` + "`" + `?"<>^{|}` + "`": "/%22%3C%3E%5E%7B%7C%7D%60?%22%3C%3E%5E%7B%7C%7D%60",
		"/?off=100%&x=%zz%4&y=%41":          "/?off=100%25&x=%25zz%254&y=%41",
		"/100%/x":                           "/100%25/x",
		"?x=ü":                              "/?x=%C3%BC",
		"/?":                                "/?",
		"/a?b?c=/":                          "/a?b?c=/",
		"":                                  "/",
		"/😀":                                "/%F0%9F%98%80",
	} {
		got := sentTarget(t, given)
		if got != want || !strictTarget.MatchString(got) {
			t.Errorf("%q goes out as %q, want %q", given, got, want)
		}
	}
}

// sentTarget calls a receiver, and returns the target that it reads from the wire.
func sentTarget(t *testing.T, pathAndQuery string) (target string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	line := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		first, _ := bufio.NewReader(c).ReadString('\n')
		line <- first
		io.WriteString(c, okHead+"Content-Length: 0\r\n\r\n")
	}()
	if result := newDeliverer(t, Config{Guard: local(t)}).Deliver(t.Context(), callTo("http://"+l.Addr().String()+pathAndQuery)); result.Outcome != Succeeded {
		t.Fatalf("%q: %+v", pathAndQuery, result)
	}
	parts := strings.Split(<-line, " ")
	if len(parts) != 3 {
		t.Fatalf("%q goes out as %q", pathAndQuery, parts)
	}
	return parts[1]
}

// Whatever is accepted is something that strict servers read, and that means what was given.
func FuzzAURLGoesOutAsEachServerReadsIt(f *testing.F) {
	for _, seed := range []string{"/ok?name=José", "/%41%zz", "?", "/a;b?c;d", "/a%2Fb/%F0?%", "//x/../y", "/\u00a0?\u2028"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		raw := "http://127.0.0.1/" + rest
		to, err := parseTarget(raw)
		if err != nil {
			return
		}
		target := to.url.RequestURI()
		if !strictTarget.MatchString(target) || to.origin != "http://127.0.0.1" {
			t.Fatalf("%q goes out as %q to %s", raw, target, to.origin)
		}
		path, query, _ := strings.Cut(target, "?")
		givenPath, givenQuery, _ := strings.Cut("/"+rest, "?")
		if lenient(path) != lenient(givenPath) || lenient(query) != lenient(givenQuery) {
			t.Fatalf("%q goes out as %q, which means something else", raw, target)
		}
	})
}

// lenient decodes what is encoded, and leaves the rest.
func lenient(text string) string {
	return regexp.MustCompile(`%[0-9A-Fa-f]{2}`).ReplaceAllStringFunc(text, func(escape string) string {
		decoded, _ := url.PathUnescape(escape)
		return decoded
	})
}

func TestAnAddressIsShownWithoutWhatMayBeASecret(t *testing.T) {
	for given, want := range map[string]string{
		"http://h/a":                      "http://h/a",
		"http://h/a?":                     "http://h/a?",
		"http://h/a?b=1&c&d=":             "http://h/a?b=…&c=…&d=…",
		"https://ann:pw@h:8443/a@b?c=@":   "https://ann:…@h:8443/a@b?c=…",
		"https://ann@h":                   "https://ann@h",
		"https://ann:p@w@h":               "https://ann:…@h",
		"//h/a?b=1":                       "//h/a?b=…",
		"/login?to=1#access_token=secret": "/login?to=…#…",
		"?b=1":                            "?b=…",
		"http://h/%zz?b=1":                "http://h/%zz?b=…",
		"":                                "",
	} {
		if got := WithoutValues(given); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}
