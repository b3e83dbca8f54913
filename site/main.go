// Command site makes a website of the documents, in English and Chinese: README is its front page, docs/README.md its table of contents.
//
//	go run ./site                          writes site/dist; "make site" does the same
//	go run ./site -serve 127.0.0.1:8090    shows it, made anew for each page that is asked for
//
// What it makes works below any path, needs no server but one of files, and takes nothing from elsewhere. It is not made if a link leads
// nowhere.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	root := flag.String("root", ".", "the `folder` of the repository")
	to := flag.String("to", "", "the `folder` to write; what was in it is deleted (default: site/dist in the repository)")
	address := flag.String("address", "https://create-info.github.io/persistent-queue/", "where the site will be; llms.txt names it")
	serve := flag.String("serve", "", "show the site on this `address`, such as 127.0.0.1:8090, and write nothing")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if *to == "" {
		*to = filepath.Join(*root, "site", "dist")
	}
	var err error
	if *serve != "" {
		err = preview(*root, *serve)
	} else {
		err = write(*root, *to, *address)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func write(root, to, address string) error {
	made, err := build(root, address)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	for name, content := range made.files {
		file := filepath.Join(to, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%d pages, %d files: %s\n", len(made.pages), len(made.files), filepath.Join(to, "index.html"))
	return nil
}

// preview shows the documents as they are when a page is asked for.
func preview(root, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	here := "http://" + listener.Addr().String() + "/"
	fmt.Println("the site is on", here)
	return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" || strings.HasSuffix(name, "/") {
			name += "index.html"
		}
		made, err := build(root, here)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		content, ok := made.files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	}))
}
