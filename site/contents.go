package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// chapter is a part of the table of contents.
type chapter struct {
	Title string
	Items []item
}

// item leads to a page, and says in a sentence what it is about.
type item struct {
	Title, Summary, Address string
	Foreign                 bool // the page is in another language than the table
}

// readContents reads a table of contents: each heading is a chapter, and each entry of its list "[title](page): what it is about". An entry
// that begins with other links has what they say for its sentence.
func (s *site) readContents(l *language) (chapters []chapter, err error) {
	p := s.bySource[l.contents]
	if p == nil {
		return nil, fmt.Errorf("no %s", l.contents)
	}
	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 2 {
				chapters = append(chapters, chapter{Title: textOf(n, p.text)})
			}
		case *ast.List:
			for entry := n.FirstChild(); entry != nil && len(chapters) > 0; entry = entry.NextSibling() {
				i, err := s.readItem(p, entry)
				if err != nil {
					return nil, err
				}
				if last := &chapters[len(chapters)-1]; !i.Foreign || l != english { // there is much that is English alone
					last.Items = append(last.Items, i)
				}
			}
		}
	}
	return slices.DeleteFunc(chapters, func(c chapter) bool { return len(c.Items) == 0 }), nil
}

func (s *site) readItem(p *page, entry ast.Node) (item, error) {
	link := firstLinkIn(entry)
	if link == nil {
		return item{}, fmt.Errorf("%s: an entry without a link: %s", p.source, textOf(entry, p.text))
	}
	title, says := textOf(link, p.text), textOf(entry, p.text)
	_, summary, found := strings.Cut(strings.Replace(says, "：", ": ", 1), ": ")
	to := s.bySource[path.Join(path.Dir(p.source), string(link.Destination))]
	if !found || to == nil {
		return item{}, fmt.Errorf("%s: no page, or nothing is said of it: %s", p.source, says)
	}
	summary = strings.Join(strings.Fields(summary), " ")
	if to.summary == "" || to.language == p.language {
		to.summary = summary
	}
	return item{title, summary, to.address, to.language != p.language}, nil
}

// neighbours are what stands before and after a page in the table of contents.
func (s *site) neighbours(p *page) (before, after *item) {
	var all []item
	for _, c := range s.contents[p.language] {
		all = append(all, c.Items...)
	}
	for i := range all {
		if all[i].Address != p.address {
			continue
		}
		if i > 0 {
			before = &all[i-1]
		}
		if i+1 < len(all) {
			after = &all[i+1]
		}
	}
	return before, after
}

// llms says to programs that read for people what there is: https://llmstxt.org.
func (s *site) llms() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# persistent-queue\n\n> %s\n", s.bySource["README.md"].summary)
	for _, l := range languages {
		for _, c := range s.contents[l] {
			title := "\n## " + c.Title + "\n\n"
			for _, i := range c.Items {
				if !i.Foreign {
					fmt.Fprintf(&b, "%s- [%s](%s): %s\n", title, i.Title, s.address+i.Address, i.Summary)
					title = ""
				}
			}
		}
	}
	return []byte(b.String())
}
