package main

import (
	"bytes"
	"fmt"
	"image"
	_ "image/png" // for the size of a picture
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark/ast"
)

func (p *page) firstLink() string {
	if link := firstLinkIn(p.tree); link != nil {
		return string(link.Destination)
	}
	return ""
}

func firstLinkIn(within ast.Node) (found *ast.Link) {
	ast.Walk(within, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.Link); ok && entering {
			found = link
			return ast.WalkStop, nil
		}
		return ast.WalkContinue, nil
	})
	return found
}

// rewrite leads links to pages within the site, those to other files to GitHub, and takes pictures along.
func (s *site) rewrite(p *page) error {
	return ast.Walk(p.tree, func(n ast.Node, entering bool) (status ast.WalkStatus, err error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			n.Destination, err = s.target(p, string(n.Destination), textOf(n, p.text))
		case *ast.Image:
			err = s.takeAlong(p, n)
		}
		return ast.WalkContinue, err
	})
}

// target is where a link leads on the site.
func (s *site) target(p *page, link, says string) ([]byte, error) {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return []byte(link), nil
	}
	file, anchor, _ := strings.Cut(link, "#")
	fragment := strings.TrimPrefix(link, file)
	if file == "" {
		p.links = append(p.links, linked{p, anchor})
		return []byte(link), nil
	}
	source := path.Join(path.Dir(p.source), file)
	if to := s.bySource[source]; to != nil {
		p.links = append(p.links, linked{to, anchor})
		return []byte(relative(p.address, to.address) + fragment), nil
	}
	info, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(source)))
	switch {
	case err != nil:
		return nil, fmt.Errorf("a link leads nowhere: %w", err)
	case info.IsDir():
		return []byte(repository + "/tree/main/" + source), nil
	case fragment == "" && strings.HasSuffix(source, ".go"):
		fragment = s.lineOf(source, says)
	}
	return []byte(repository + "/blob/main/" + source + fragment), nil
}

// lineOf finds the function that a link to Go code names, so that the reader need not.
func (s *site) lineOf(source, function string) (fragment string) {
	code, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(source)))
	before, _, found := bytes.Cut(code, []byte("\nfunc "+function+"("))
	if err != nil || !found {
		return ""
	}
	return fmt.Sprintf("#L%d", bytes.Count(before, []byte("\n"))+2)
}

// takeAlong puts a picture beside the pages. If there is one for dark screens, named so, browsers choose.
func (s *site) takeAlong(p *page, n *ast.Image) error {
	source := path.Join(path.Dir(p.source), string(n.Destination))
	content, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(source)))
	if err != nil {
		return err
	}
	address := strings.TrimPrefix(source, "docs/")
	s.files[address] = content
	n.Destination = []byte(relative(p.address, address))
	n.SetAttributeString("loading", []byte("lazy"))
	if size, _, err := image.DecodeConfig(bytes.NewReader(content)); err == nil {
		n.SetAttributeString("width", fmt.Append(nil, size.Width))
		n.SetAttributeString("height", fmt.Append(nil, size.Height))
	}
	ext := path.Ext(source)
	dark := strings.TrimSuffix(source, ext) + "-dark" + ext
	if content, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(dark))); err == nil {
		address := strings.TrimPrefix(dark, "docs/")
		s.files[address] = content
		n.SetAttributeString("data-dark", []byte(relative(p.address, address)))
	}
	return nil
}
