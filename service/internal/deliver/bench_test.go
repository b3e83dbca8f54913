package deliver

import (
	"bytes"
	"io"
	"net/http"
	"testing"
)

// BenchmarkDeliver is a call to a receiver on this machine, with keep-alive, and beside it what the same costs with a bare http.Client.
// Compare the two of one run only.
func BenchmarkDeliver(b *testing.B) {
	r := receiver(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
	})
	body := bytes.Repeat([]byte("x"), 300)
	signer, err := NewSigner(Secret{Key: testSecret})
	if err != nil {
		b.Fatal(err)
	}
	d := newDeliverer(b, Config{Guard: local(b)})
	topic := &Topic{Name: "orders", Signer: signer, Limits: Limits{InFlight: 256}}
	b.Run("deliver", func(b *testing.B) {
		b.SetParallelism(16) // 32 calls at a time on two cores: as many as a lane allows at first
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if result := d.Deliver(b.Context(), &Call{Topic: topic, URL: r.URL + "/a", ID: "pq_1-2-3", Body: body}); result.Outcome != Succeeded && result.Outcome != Deferred {
					b.Errorf("%+v", result)
				}
			}
		})
	})
	b.Run("bare", func(b *testing.B) {
		transport := &http.Transport{MaxIdleConnsPerHost: 512}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		b.SetParallelism(16) // 32 calls at a time on two cores: as many as a lane allows at first
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				answer, err := client.Post(r.URL+"/a", "application/json", bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					continue
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
		})
	})
}
