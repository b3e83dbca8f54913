package main

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
)

// html is the animation of a job's way: a drawing whose parts say in which steps they are seen, and what each step says.
func (w way) html() (string, error) {
	t, err := template.New("way.html").Funcs(template.FuncMap{"in": seenIn}).ParseFS(theme, "theme/way.html")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, w)
	return b.String(), err
}

// seenIn has a part of the drawing seen in some of the steps. Without scripts, the first is all there is.
func seenIn(steps string) template.HTMLAttr {
	attributes := fmt.Sprintf(`data-in="%s"`, steps)
	if slices.Contains(strings.Fields(steps), "1") {
		attributes += " data-seen"
	}
	return template.HTMLAttr(attributes)
}
