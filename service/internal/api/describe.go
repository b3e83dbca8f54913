package api

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.json
var openAPI []byte

//go:embed docs.html
var docsPage []byte

// describe serves the description of the interface: for programs, and for people.
func describe(mux *http.ServeMux) {
	for path, file := range map[string]struct {
		media string
		text  []byte
	}{"GET /openapi.json": {"application/json", openAPI}, "GET /docs": {"text/html; charset=utf-8", docsPage}} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.media)
			w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'")
			_, _ = w.Write(file.text) // whoever asked may be gone
		})
	}
}
