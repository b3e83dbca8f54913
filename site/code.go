package main

import (
	"strings"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/alecthomas/chroma/v2/styles"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// coloured renders code with classes, to which the style sheet gives colours.
type coloured struct{}

func (c coloured) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, c.code)
}

var classes = html.New(html.WithClasses(true), html.PreventSurroundingPre(true))

func (coloured) code(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	var b strings.Builder
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		b.Write(line.Value(source))
	}
	name := string(n.(*ast.FencedCodeBlock).Language(source))
	w.WriteString(`<pre tabindex="0"><code>`)
	lexer := lexers.Get(name)
	if name == "" || name == "text" || lexer == nil {
		w.Write(util.EscapeHTML([]byte(b.String())))
	} else {
		tokens, err := chroma.Coalesce(lexer).Tokenise(nil, b.String())
		if err == nil {
			err = classes.Format(w, styles.Fallback, tokens)
		}
		if err != nil {
			return ast.WalkStop, err
		}
	}
	w.WriteString("</code></pre>\n")
	return ast.WalkSkipChildren, nil
}
