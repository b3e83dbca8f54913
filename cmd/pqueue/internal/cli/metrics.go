package cli

import (
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/create-info/persistent-queue/internal/bodies"
)

// serveMetrics serves metrics until stop is called, at an address of their own, which clients of the API need not reach.
func serveMetrics(address string, of prometheus.Collector) (at net.Addr, stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nil, exitf(exitError, "--metrics-listen: %w", err)
	}
	all := prometheus.NewRegistry()
	all.MustRegister(of, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(all, promhttp.HandlerOpts{}))
	web := &http.Server{Handler: bodies.Timed(mux), ReadHeaderTimeout: headersMax,
		ReadTimeout: requestMax, WriteTimeout: replyMax, IdleTimeout: quietMax, MaxHeaderBytes: headerMax}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = web.Serve(listener) // it ends with stop
	}()
	return listener.Addr(), func() {
		_ = web.Close() // a scrape that is cut off comes again
		<-ended
	}, nil
}
