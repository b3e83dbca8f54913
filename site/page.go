package main

import (
	"fmt"
	"html/template"
	"path"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// page is a document, or what is made of results.
type page struct {
	source, address string // in the repository, empty if it is made; on the site
	language        *language
	title, summary  string
	text            []byte
	tree            ast.Node
	body            template.HTML
	outline         []entry
	anchors         map[string]bool
	links           []linked
	sections        []section
	movedTo         *page
}

// entry is a heading below the title.
type entry struct {
	Level      int
	Text, Link string
}

// linked is a link to a page of the site.
type linked struct {
	to     *page
	anchor string
}

// section is what a search finds: a heading, and the text up to the next.
type section struct{ title, anchor, text string }

// view is what the template sees of a page.
type view struct {
	*page
	site           *site
	Lang, Other    *language
	Previous, Next *item
}

func (v view) Title() string       { return v.title }
func (v view) Summary() string     { return v.summary }
func (v view) Body() template.HTML { return v.body }
func (v view) Outline() []entry    { return v.outline }
func (v view) Chapters() []chapter { return v.site.contents[v.language] }
func (v view) Repository() string  { return repository }

// Rel leads from this page to an address of the site.
func (v view) Rel(address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	return relative(v.address, address)
}

func (v view) Here(address string) bool { return v.address == address }
func (v view) IsFront() bool            { return v.address == v.language.folder+"index.html" }
func (v view) Home() string             { return v.Rel(v.language.folder + "index.html") }
func (v view) ContentsAt() string       { return v.Rel(v.language.folder + "contents.html") }

// Twin is the page in the other language, or else the front page of that.
func (v view) Twin() string {
	other := v.language.other()
	for _, p := range v.site.pages {
		if p.language == other && p.movedTo == nil && path.Base(p.address) == path.Base(v.address) {
			return v.Rel(p.address)
		}
	}
	return v.Rel(other.folder + "index.html")
}

// Source is where the page can be read and changed on GitHub.
func (v view) Source() string {
	if v.source == "" {
		return repository + "/tree/main/tests"
	}
	return repository + "/blob/main/" + v.source
}

// Index is where the search finds what the pages say: the reader's language first.
func (v view) Index() string {
	return v.Rel("search."+v.language.Code+".json") + " " + v.Rel("search."+v.language.other().Code+".json")
}

func (s *site) writePages() error {
	templates, err := template.ParseFS(theme, "theme/page.html", "theme/moved.html")
	if err != nil {
		return err
	}
	for _, p := range s.pages {
		name := "page.html"
		if p.movedTo != nil {
			name = "moved.html"
		}
		v := view{page: p, site: s, Lang: p.language, Other: p.language.other()}
		v.Previous, v.Next = s.neighbours(p)
		var b strings.Builder
		if err := templates.ExecuteTemplate(&b, name, v); err != nil {
			return fmt.Errorf("%s: %w", p.address, err)
		}
		s.files[p.address] = []byte(b.String())
	}
	return nil
}

func (v view) MovedTo() string { return v.Rel(v.movedTo.address) }
