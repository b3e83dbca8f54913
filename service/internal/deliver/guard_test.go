package deliver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// fakeNames answers look-ups; each look-up of a host takes the next of its answers, and the last one again and again.
type fakeNames struct {
	answers map[string][][]netip.Addr
	asked   atomic.Int64
}

func (f *fakeNames) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	f.asked.Add(1)
	answers := f.answers[host]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(answers) > 1 {
		f.answers[host] = answers[1:]
	}
	return answers[0], nil
}

func addresses(texts ...string) (addrs []netip.Addr) {
	for _, t := range texts {
		addrs = append(addrs, netip.MustParseAddr(t))
	}
	return addrs
}

// noDial makes a Deliverer whose connections are counted and never made.
func noDial(t *testing.T, cfg Config) (*Deliverer, *atomic.Int64) {
	d := newDeliverer(t, cfg)
	dials := new(atomic.Int64)
	d.dialer.open = func(context.Context, *net.Dialer, netip.AddrPort) (net.Conn, error) {
		dials.Add(1)
		return nil, errors.New("no connection in this test")
	}
	return d, dials
}

// forbiddenAddresses has addresses of each range, at its ends where it matters.
var forbiddenAddresses = strings.Fields(`0.0.0.0 0.1.2.3 127.0.0.1 127.255.255.255 10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1
	100.64.0.1 100.127.255.255 169.254.1.1 169.254.169.254 192.0.0.1 192.0.2.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 192.88.99.1
	224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 100.100.100.200 168.63.129.16
	:: ::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:10.1.2.3 ::ffff:a9fe:a9fe 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b::808:808 64:ff9b:1::a00:1
	2002:7f00:1:: 2002:a9fe:a9fe:: 2001::1 2001:1ff::1 2001:db8::1 100::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fdff::1 fe80::1 febf::1 fec0::1
	ff02::1 4000::1 0:0:0:1::1`)

func TestNoSpecialAddressIsEverDialled(t *testing.T) {
	f := &fakeNames{answers: map[string][][]netip.Addr{}}
	d, dials := noDial(t, Config{Resolver: f})
	for i, a := range forbiddenAddresses {
		host := a
		if strings.Contains(a, ":") {
			host = "[" + a + "]"
		}
		name := fmt.Sprintf("h%d.example", i)
		f.answers[name] = [][]netip.Addr{addresses(a)}
		for _, u := range []string{"http://" + host + "/", "https://" + host + ":8443/", "http://" + name + "/", "https://" + strings.ToUpper(name) + "./"} {
			if result := d.Deliver(t.Context(), callTo(u)); result.Outcome != Retry || result.Code != CodeBlocked {
				t.Errorf("%s (%s): %v %s %q", u, a, result.Outcome, result.Code, result.Detail)
			} else if strings.Contains(u, "example") && strings.Contains(result.Detail, a+" ") {
				t.Errorf("%s: the detail tells the address: %s", u, result.Detail)
			}
		}
	}
	if n := dials.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

func TestPublicAddressesAreDialled(t *testing.T) {
	d, dials := noDial(t, Config{})
	public := strings.Fields("1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 169.253.255.255 192.0.1.1 198.17.255.255 " +
		"198.20.0.0 223.255.255.255 168.63.129.15 [2600::1] [2001:200::1] [2606:4700::1111] [::ffff:8.8.8.8]")
	for _, host := range public {
		d.Deliver(t.Context(), callTo("http://"+host+"/"))
	}
	if n := dials.Load(); n != int64(len(public)) {
		t.Errorf("%d of %d were dialled", n, len(public))
	}
}

func TestOneForbiddenAnswerForbidsTheHost(t *testing.T) {
	f := &fakeNames{answers: map[string][][]netip.Addr{"mixed.example": {addresses("8.8.8.8", "::ffff:10.0.0.1")}}}
	d, dials := noDial(t, Config{Resolver: f})
	if result := d.Deliver(t.Context(), callTo("http://mixed.example/")); result.Code != CodeBlocked || dials.Load() != 0 {
		t.Errorf("%+v after %d connections", result, dials.Load())
	}
}

// checkResolved is Check, and looks up the host, too: it may be called if it has no address yet.
func checkResolved(g *Guard, names Resolver, rawURL string) error {
	t, err := g.target(rawURL)
	if err != nil || t.addr.IsValid() {
		return err
	}
	addrs, err := names.LookupNetIP(context.Background(), "ip", t.host)
	if err != nil {
		return nil
	}
	return g.vetted(t.host, addrs, t.port)
}

func TestAnAnswerThatChangesAfterTheTaskWasAddedReachesNobody(t *testing.T) {
	var reached atomic.Int64
	r := receiver(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	port := r.Listener.Addr().(*net.TCPAddr).Port
	f := &fakeNames{answers: map[string][][]netip.Addr{"rebinding.example": {addresses("8.8.8.8"), addresses("127.0.0.1")}}}
	d := newDeliverer(t, Config{Resolver: f})
	call := callTo(fmt.Sprintf("http://rebinding.example:%d/", port))
	if err := checkResolved(d.identities.guard, f, call.URL); err != nil {
		t.Fatalf("the first look: %v", err)
	}
	if result := d.Deliver(t.Context(), call); result.Code != CodeBlocked || reached.Load() != 0 {
		t.Errorf("%+v, and %d requests", result, reached.Load())
	}
}

// The dialer never resolves a second time. Should it ever, the look right before the connection has the last word.
func TestTheLastLookIsAtTheAddressThatIsDialled(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	accepted := make(chan struct{}, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			accepted <- struct{}{}
			_ = c.Close()
		}
		close(accepted)
	}()
	d := newDeliverer(t, Config{})
	d.dialer.open = func(ctx context.Context, dialer *net.Dialer, _ netip.AddrPort) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", l.Addr().String()) // not the address that was vetted
	}
	if result := d.Deliver(t.Context(), callTo("http://8.8.8.8/")); result.Code != CodeBlocked {
		t.Errorf("%+v", result)
	}
	_ = l.Close()
	if _, reached := <-accepted; reached {
		t.Error("the listener was reached")
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	var reached atomic.Int64
	inner := receiver(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	for _, to := range []string{"http://169.254.169.254/latest/meta-data/", inner.URL} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			r := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", to)
				w.WriteHeader(status)
			})
			result := newDeliverer(t, Config{Guard: local(t)}).Deliver(t.Context(), callTo(r.URL))
			if result.Outcome != Retry || result.Code != CodeRedirect || !strings.Contains(result.Detail, "not followed") || reached.Load() != 0 {
				t.Errorf("%d to %s: %+v, and %d requests", status, to, result, reached.Load())
			}
		}
	}
}

func TestURLsThatCannotBeCalledAreRefused(t *testing.T) {
	g := &Guard{}
	for _, u := range []string{
		"", "shop.example", "//shop.example/", "ftp://shop.example/", "file:///etc/passwd", "gopher://shop.example/", "http:shop.example", "http://",
		"http:///a", "http://:80/", "http://user@shop.example/", "http://user:pass@shop.example/", "http://shop.example/#a", "http://shop.example/a#",
		"http://shop.example:0/", "http://shop.example:65536/", "http://shop.example:-1/", "http://shop.example:80x/", "http://[::1/", "http://[1.2.3.4]/",
		"http://[fe80::1%25eth0]/", "http://[shop.example]/", "http://.shop.example/", "http://shop..example/", "http://shop.example../", "http://./",
		"http://127.1/", "http://2130706433/", "http://0177.0.0.1/", "http://0x7f.0.0.1/", "http://0x7f000001/", "http://127.0.0.1.2/", "http://127.0.0.256/",
		"http://127.0.0.0x1/", "http://1.2.3.08/", "http://shop.123/", "http://shop.0x/", "http://①②⑦.⓪.⓪.①/", "http://127。0。0。1:22/", "http://127%2e0%2e0%2e1/",
		"http://shop.example\\@127.0.0.1/", "http://shop.example /", "http://shop.example/\n", "http://shop.example/\x00", "http://shop.example/\xff",
		"http://sh!op.example/", "http://shop.example/" + strings.Repeat("a", urlMax), "http://" + strings.Repeat("a", 64) + ".example/",
		"http://shop.example:22/", "http://shop.example:25/", "http://shop.example:6379/", "http://shop.example:2375/", "http://shop.example:5432/",
		"http://localhost/", "http://LOCALHOST./", "http://a.localhost:8080/", "http://127.0.0.1./", "http://[::FFFF:7F00:1]/",
	} {
		if err := g.Check(u); err == nil {
			t.Errorf("%.80q passes", u)
		}
	}
}

func TestURLsAreReadInOneSpelling(t *testing.T) {
	for raw, want := range map[string]string{
		"http://shop.example":                 "http://shop.example",
		"HTTP://Shop.Example.:80/a?b":         "http://shop.example/a?b",
		"https://shop.example:443/":           "https://shop.example/",
		"https://shop.example:/":              "https://shop.example/",
		"https://shop.example:8443/":          "https://shop.example:8443/",
		"https://münchen.example/ü":           "https://xn--mnchen-3ya.example/%C3%BC",
		"http://my_service:8080/":             "http://my_service:8080/",
		"http://8.8.8.8./":                    "http://8.8.8.8/",
		"http://[2600:0:0::1]:80/":            "http://[2600::1]/",
		"http://[::ffff:8.8.8.8]:8080/":       "http://8.8.8.8:8080/",
		"http://shop.example/a/../b%2f?x=%00": "http://shop.example/a/../b%2f?x=%00",
	} {
		to, err := (&Guard{}).target(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
		} else if to.url.String() != want {
			t.Errorf("%s is read as %s, want %s", raw, to.url, want)
		}
	}
}

func TestTheListAllowsWhatItNamesAndNoMore(t *testing.T) {
	own := netip.MustParseAddrPort("10.1.0.5:3306")
	g, err := NewGuard([]string{"10.1.0.0/16", "192.168.7.7", "192.168.7.8:6379", "shop.internal", "*.svc.cluster.local:9200", "64:ff9b::/96", "[fd12::1]:8080",
		"169.254.0.0/16", "168.63.0.0/16"},
		[]netip.AddrPort{own, netip.MustParseAddrPort("10.1.0.6:0")})
	if err != nil {
		t.Fatal(err)
	}
	for u, allowed := range map[string]bool{
		"http://10.1.2.3/": true, "http://10.1.2.3:8080/": true, "http://10.1.2.3:6379/": false, "http://10.2.0.1/": false, "http://[::ffff:10.1.2.3]/": true,
		"http://192.168.7.7/": true, "http://192.168.7.8/": false, "http://192.168.7.8:6379/": true, "http://[fd12::1]:8080/": true, "http://[fd12::1]/": false,
		"http://[64:ff9b::808:808]/": true, "http://[64:ff9b::a01:203]/": true, "http://[64:ff9b::7f00:1]/": false, "http://[64:ff9b::a9fe:a9fe]/": false,
		"http://10.1.0.5:3306/": false, "http://10.1.0.5/": true, "http://10.1.0.6:8080/": false, "http://[64:ff9b::a01:6]/": false,
		"http://169.254.1.1/": true, "http://169.254.169.254/": false, "http://[::ffff:169.254.169.254]/": false, "http://168.63.129.16/": false,
	} {
		if err := g.Check(u); (err == nil) != allowed {
			t.Errorf("%s: %v, want allowed: %v", u, err, allowed)
		}
	}
	inner := addresses("10.9.9.9")
	f := &fakeNames{answers: map[string][][]netip.Addr{
		"shop.internal": {inner}, "shop.internal.evil.example": {inner}, "evilshop.internal": {inner}, "a.svc.cluster.local": {inner}, "svc.cluster.local": {inner},
		"meta.svc.cluster.local": {addresses("169.254.169.254")}, "db.svc.cluster.local": {addresses("10.1.0.6")},
	}}
	for u, allowed := range map[string]bool{
		"http://shop.internal/": true, "http://SHOP.internal./": true, "http://shop.internal:8080/": true, "http://shop.internal.evil.example/": false,
		"http://evilshop.internal/": false, "http://a.svc.cluster.local:9200/": true, "http://a.svc.cluster.local/": false, "http://svc.cluster.local:9200/": false,
		"http://meta.svc.cluster.local:9200/": false, "http://db.svc.cluster.local:9200/": false, "http://unknown.example/": true,
	} {
		if err := checkResolved(g, f, u); (err == nil) != allowed {
			t.Errorf("%s: %v, want allowed: %v", u, err, allowed)
		}
	}
}

// Whoever reaches a listener of this machine by another of its addresses is, for the API, a program on this machine.
func TestTheListenersOfThisMachineCanNeverBeAllowed(t *testing.T) {
	allow := []string{"127.0.0.0/8", "::1", "0.0.0.0/8", "*.internal", "localhost", "64:ff9b::/96"}
	f := &fakeNames{answers: map[string][][]netip.Addr{"a.internal": {addresses("127.0.0.2")}, "b.internal": {addresses("0.0.0.0")}, "c.internal": {addresses("::")}, "d.internal": {addresses("::1")}}}
	for _, own := range []string{"0.0.0.0:8080", "[::]:8080", "127.0.0.1:8080", "[::1]:8080", "127.0.0.5:8080", "[::ffff:127.0.0.1]:8080", "127.0.0.1:0"} {
		g, err := NewGuard(allow, []netip.AddrPort{netip.MustParseAddrPort(own)})
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"127.0.0.1", "127.0.0.2", "127.255.255.254", "[::1]", "[::ffff:127.0.0.2]", "[64:ff9b::7f00:2]", "0.0.0.0", "[::]", "[::ffff:0.0.0.0]", "a.internal", "b.internal", "c.internal", "d.internal"} {
			err := checkResolved(g, f, "http://"+host+":8080/")
			if blocked := (*BlockedError)(nil); !errors.As(err, &blocked) || blocked.Line() != "" {
				t.Errorf("listening on %s, http://%s:8080/: %v", own, host, err)
			}
		}
		for host, allowed := range map[string]bool{"127.0.0.1": true, "127.0.0.2": true, "[::1]": true, "a.internal": true, "d.internal": true, "0.0.0.0": false, "b.internal": false} {
			if allowed = allowed && own != "127.0.0.1:0"; (checkResolved(g, f, "http://"+host+":8081/") == nil) != allowed {
				t.Errorf("listening on %s, http://%s:8081/, want allowed: %v", own, host, allowed)
			}
		}
	}
	g, err := NewGuard(allow, []netip.AddrPort{netip.MustParseAddrPort("10.1.2.3:8080")})
	if err != nil || g.Check("http://127.0.0.1:8080/") != nil {
		t.Errorf("a database elsewhere says nothing about this machine: %v", err)
	}
}

func TestARefusalSaysWhatToAddToTheConfiguration(t *testing.T) {
	for u, line := range map[string]string{
		"http://10.1.2.3/": "10.1.2.3", "http://10.1.2.3:8080/": "10.1.2.3:8080", "http://127.0.0.1:19003/": "127.0.0.1:19003", "http://[fd12::1]:8080/": "[fd12::1]:8080", "http://[fd12::1]/": "fd12::1", "http://localhost/": "localhost",
		"http://8.8.8.8:6379/": "8.8.8.8:6379", "http://[2600::1]:6379/": "[2600::1]:6379", "http://shop.example:6379/": "shop.example:6379",
	} {
		err := (&Guard{}).Check(u)
		var blocked *BlockedError
		if !errors.As(err, &blocked) || blocked.Line() != line || !strings.Contains(err.Error(), fmt.Sprintf("add %q to --egress-allow", line)) {
			t.Errorf("%s: %v", u, err)
			continue
		}
		g, err := NewGuard([]string{blocked.Line()}, nil)
		if err != nil {
			t.Errorf("%s: the line does not work: %v", u, err)
		} else if err := g.Check(u); err != nil {
			t.Errorf("%s: the line does not help: %v", u, err)
		}
	}
	var blocked *BlockedError
	if err := (&Guard{}).Check("http://169.254.169.254/"); !errors.As(err, &blocked) || blocked.Line() != "" || !strings.Contains(err.Error(), "never") {
		t.Errorf("metadata: %v", err)
	}
}

func TestAListThatAllowsTooMuchIsRefused(t *testing.T) {
	for _, line := range []string{"", "0.0.0.0/0", "::/0", "::ffff:0:0/95", "8.0.0.0/7", "*", "*.", "169.254.169.254", "168.63.129.16", "fd00:ec2::254",
		"::ffff:169.254.169.254", "shop.internal:0", "shop.internal:x", "http://shop.internal", "0177.0.0.1", "10.1", "a..b", "10.0.0.0/33", "*.1"} {
		if _, err := NewGuard([]string{line}, nil); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", line)) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func FuzzNoURLReachesAForbiddenAddress(f *testing.F) {
	for _, u := range []string{"http://shop.example/", "http://[::ffff:7f00:1]:8080/a?b", "http://0x7f.1/", "https://a@b/", "http://①/", "http://1.1.1.1.:65535"} {
		f.Add(u)
	}
	for _, a := range forbiddenAddresses {
		f.Add("http://[" + a + "]/")
		f.Add("http://" + a + "/")
	}
	g := &Guard{}
	f.Fuzz(func(t *testing.T, raw string) {
		to, err := g.target(raw)
		if err != nil {
			return
		}
		again, err := url.Parse(to.url.String()) // what the client connects to is what was checked
		if err != nil || again.Host != to.url.Host || again.User != nil || again.Fragment != "" {
			t.Fatalf("%q becomes %q, which is read as %+v, %v", raw, to.url, again, err)
		}
		if again.Hostname() != to.host {
			t.Fatalf("%q: host %q, and the client's is %q", raw, to.host, again.Hostname())
		}
		addr, err := netip.ParseAddr(again.Hostname())
		if (err == nil) != to.addr.IsValid() || err == nil && notPublic(addr.Unmap()) != "" {
			t.Fatalf("%q reaches %v", raw, addr)
		}
		if ip := net.ParseIP(to.host); ip != nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified()) {
			t.Fatalf("%q reaches %v", raw, ip)
		}
	})
}
