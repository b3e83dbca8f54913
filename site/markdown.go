package main

import (
	"bytes"
	"fmt"
	"html/template"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown reads what GitHub reads. HTML within a document is left out. The end of a line is a blank, or nothing between Chinese characters.
var (
	markdown        = markdownWith()
	markdownChinese = markdownWith(html.WithEastAsianLineBreaks(html.EastAsianLineBreaksCSS3Draft))
)

func markdownWith(options ...renderer.Option) goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Linkify),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(append(options, renderer.WithNodeRenderers(util.Prioritized(coloured{}, 100)))...),
	)
}

// parse reads a document up to its links, which wait until all pages are known.
func (p *page) parse(source []byte) {
	p.text = source
	ids := anchors{}
	p.tree = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(ids))))
	p.anchors = ids
	if first, ok := p.tree.FirstChild().(*ast.Heading); ok {
		p.title = textOf(first, source)
	}
}

// anchors gives headings the anchors that they have on GitHub.
type anchors map[string]bool

func (a anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	anchor := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(heading)))
	free := anchor
	for n := 1; a[free]; n++ {
		free = anchor + "-" + strconv.Itoa(n)
	}
	a[free] = true
	return []byte(free)
}

func (a anchors) Put(value []byte) { a[string(value)] = true }

// render makes HTML of a page.
func (s *site) render(p *page) error {
	front := p.address == p.language.folder+"index.html"
	if front {
		p.prepareFront()
	}
	if err := s.rewrite(p); err != nil {
		return err
	}
	p.collect()
	to := markdown
	if p.language == chinese {
		to = markdownChinese
	}
	var b bytes.Buffer
	if err := to.Renderer().Render(&b, p.text, p.tree); err != nil {
		return err
	}
	body := polish(b.String())
	if front {
		var err error
		if body, err = s.enliven(p, body); err != nil {
			return err
		}
	}
	p.body = template.HTML(body)
	return nil
}

// prepareFront takes away the row of links to other documents, which the site's frame has.
func (p *page) prepareFront() {
	links := p.tree.FirstChild().NextSibling()
	p.summary = textOf(links.NextSibling(), p.text)
	p.tree.RemoveChild(p.tree, links)
}

var (
	emptyHead = regexp.MustCompile(`<th[^>]*></th>`)
	tables    = regexp.MustCompile(`(?s)<table>.*?</table>`)
	headings  = regexp.MustCompile(`<(h[2-4]) id="([^"]+)">(.*?)</h`)
	darkToo   = regexp.MustCompile(`<img ([^>]*) data-dark="([^"]+)"([^>]*)>`)
)

// polish lets tables scroll by themselves, gives headings a link to themselves, and pictures one for dark screens.
func polish(body string) string {
	body = darkToo.ReplaceAllString(body, `<picture><source srcset="$2" media="(prefers-color-scheme: dark)"><img $1$3></picture>`)
	body = emptyHead.ReplaceAllString(body, "<td></td>") // above the names of lines; a heading that says nothing is read out as one
	body = tables.ReplaceAllString(body, `<div class="wide" tabindex="0">$0</div>`)
	return headings.ReplaceAllString(body, `<$1 id="$2">$3 <a class="anchor" href="#$2" aria-label="#">#</a></h`)
}

// enliven puts the animation in the place of the picture of a job's way, and plots behind the figures.
func (s *site) enliven(p *page, body string) (string, error) {
	picture := regexp.MustCompile(`<p><img src="[^"]*way-of-a-job\.svg"[^>]*></p>`)
	heading := regexp.MustCompile(`(?s)(<h2[^>]*>` + p.language.AfterHeading + ` .*?)(<h2)`)
	if len(picture.FindAllString(body, -1)) != 1 || !heading.MatchString(body) {
		return "", fmt.Errorf("the picture of a job's way, or the heading %q, is not there", p.language.AfterHeading)
	}
	alive, err := p.language.Way.html()
	if err != nil {
		return "", err
	}
	plots, err := s.front(p.language)
	body = picture.ReplaceAllLiteralString(body, alive)
	at := heading.FindStringSubmatchIndex(body)[4]
	return body[:at] + plots + body[at:], err
}

// collect takes down the headings, and what stands under each.
func (p *page) collect() {
	current := section{title: p.title}
	var words []string
	flush := func() {
		if current.text = strings.Join(strings.Fields(strings.Join(words, " ")), " "); current.text != "" {
			p.sections = append(p.sections, current)
		}
		words = nil
	}
	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok {
			words = append(words, textOf(n, p.text))
			continue
		}
		if h.Level == 1 {
			continue
		}
		flush()
		id, _ := h.AttributeString("id")
		anchor := string(id.([]byte))
		current = section{title: textOf(h, p.text), anchor: anchor}
		if h.Level <= 3 {
			p.outline = append(p.outline, entry{h.Level, current.title, "#" + anchor})
		}
	}
	flush()
}

// From here on, characters are Chinese: no space stands between them and the next line.
const firstWide = '\u2e80'

// textOf is what a reader sees of a part of a document.
func textOf(n ast.Node, source []byte) string {
	var b strings.Builder
	ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(source))
			if last, _ := utf8.DecodeLastRuneInString(b.String()); (n.SoftLineBreak() || n.HardLineBreak()) && last < firstWide {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.AutoLink:
			b.Write(n.Label(source))
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				b.Write(line.Value(source))
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}
