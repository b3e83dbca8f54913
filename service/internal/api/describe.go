package api

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
)

//go:embed openapi.json
var openAPI []byte

//go:embed docs.html
var docsTemplate string

// docsPage is made of openapi.json, so it cannot say anything else.
var docsPage = func() []byte {
	var page bytes.Buffer
	if err := template.Must(template.New("docs").Parse(docsTemplate)).Execute(&page, documentOf(openAPI)); err != nil {
		panic(err) // of files that are in the binary
	}
	return page.Bytes()
}()

// describe serves the description of the interface: for programs, and for people.
func describe(mux *http.ServeMux) {
	for pattern, file := range map[string]struct {
		media string
		text  []byte
	}{"GET /openapi.json": {"application/json", openAPI}, "GET /docs": {"text/html; charset=utf-8", docsPage}} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.media)
			w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
			_, _ = w.Write(file.text) // whoever asked may be gone
		})
	}
}
