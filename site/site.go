package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// repository is where links to what is no page of the site lead.
const repository = "https://github.com/create-info/persistent-queue"

// site is all that is made, before it is written anywhere.
type site struct {
	root, address string
	pages         []*page
	bySource      map[string]*page // by the path in the repository
	contents      map[*language][]chapter
	figures       *figures
	files         map[string][]byte // by the address below that of the site
}

//go:embed theme
var theme embed.FS

// build reads the documents where they stand.
func build(root, address string) (*site, error) {
	s := &site{root: root, address: address, bySource: map[string]*page{}, contents: map[*language][]chapter{}, files: map[string][]byte{}}
	if err := s.read(); err != nil {
		return nil, err
	}
	var err error
	if s.figures, err = readFigures(root); err != nil {
		return nil, err
	}
	for _, l := range languages {
		if s.contents[l], err = s.readContents(l); err != nil {
			return nil, err
		}
		if err := s.addFigures(l); err != nil {
			return nil, err
		}
	}
	for _, p := range s.pages {
		if p.source != "" && p.movedTo == nil {
			if err := s.render(p); err != nil {
				return nil, fmt.Errorf("%s: %w", p.source, err)
			}
		}
	}
	err = errors.Join(s.checkAnchors(), s.writePages(), s.writeSearch(), s.copyTheme())
	s.files["llms.txt"] = s.llms()
	return s, err
}

// read finds the pages. A page of docs keeps its path: docs/guide/adding.md becomes guide/adding.html.
func (s *site) read() error {
	sources := map[string]string{"README.md": "index.html", "README.zh-CN.md": "zh/index.html", "ARCHITECTURE.md": "inside/architecture.html",
		"docs/README.md": "contents.html", "docs/zh/README.md": "zh/contents.html"}
	order := []string{"README.md", "README.zh-CN.md", "ARCHITECTURE.md"}
	err := filepath.WalkDir(filepath.Join(s.root, "docs"), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".md" {
			return err
		}
		below, err := filepath.Rel(s.root, file)
		source := filepath.ToSlash(below)
		if sources[source] == "" {
			sources[source] = strings.TrimSuffix(strings.TrimPrefix(source, "docs/"), ".md") + ".html"
		}
		order = append(order, source)
		return err
	})
	if err != nil {
		return err
	}
	for _, source := range order {
		text, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(source)))
		if err != nil {
			return err
		}
		p := &page{source: source, address: sources[source], language: languageOf(sources[source])}
		p.parse(text)
		s.pages = append(s.pages, p)
		s.bySource[source] = p
	}
	return s.followMoves()
}

// followMoves finds the pages of docs itself, which have no heading and only lead on.
func (s *site) followMoves() error {
	for _, p := range s.pages {
		if p.title != "" {
			continue
		}
		to := p.firstLink()
		if p.movedTo = s.bySource[path.Join(path.Dir(p.source), to)]; p.movedTo == nil {
			return fmt.Errorf("%s has no heading, and leads to no page: %q", p.source, to)
		}
		p.title = p.movedTo.title
	}
	return nil
}

// checkAnchors holds the links between pages to the headings that there are.
func (s *site) checkAnchors() (err error) {
	for _, p := range s.pages {
		for _, l := range p.links {
			if l.anchor != "" && !l.to.anchors[l.anchor] {
				err = errors.Join(err, fmt.Errorf("%s: %s has no heading for #%s", p.source, l.to.source, l.anchor))
			}
		}
	}
	return err
}

// copyTheme adds what is the same for all pages.
func (s *site) copyTheme() error {
	for _, name := range []string{"site.css", "site.js", "logo.svg"} {
		content, err := theme.ReadFile("theme/" + name)
		if err != nil {
			return err
		}
		s.files[name] = content
	}
	s.files[".nojekyll"] = nil // on GitHub's pages: files are to be served as they are
	return nil
}

// relative is the way from a page to an address, so that the site works below any path.
func relative(from, to string) string {
	up := strings.Repeat("../", strings.Count(from, "/"))
	if path.Dir(from) == path.Dir(to) {
		return path.Base(to)
	}
	return up + to
}
