package deliver

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// local is a guard that allows this machine, where the receivers of tests are.
func local(t testing.TB) *Guard {
	t.Helper()
	g, err := NewGuard([]string{"127.0.0.0/8", "::1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func newDeliverer(t testing.TB, cfg Config) *Deliverer {
	t.Helper()
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func receiver(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func callTo(url string) *Call {
	return &Call{Topic: &Topic{Name: "orders"}, URL: url, ID: "pq_1-2-3", Body: []byte(`{"order":4711}`)}
}
