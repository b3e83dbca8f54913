package persistent_queue_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	codeBlock    = regexp.MustCompile("(?ms)^ *```.*?^ *```")
)

// anchorOf is the anchor that GitHub gives a heading.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

func TestTheLinksOfTheDocumentsLeadSomewhere(t *testing.T) {
	anchors := map[string]map[string]bool{}
	links := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		plain := codeBlock.ReplaceAllString(string(text), "")
		anchors[path] = map[string]bool{}
		for _, h := range heading.FindAllStringSubmatch(plain, -1) {
			anchors[path][anchorOf(h[1])] = true
		}
		for _, l := range markdownLink.FindAllStringSubmatch(plain, -1) {
			links[path] = append(links[path], l[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for path, list := range links {
		for _, link := range list {
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			n++
			file, anchor, _ := strings.Cut(link, "#")
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: there is no %s", path, link)
			} else if anchor != "" && filepath.Ext(to) == ".md" && !anchors[to][anchor] {
				t.Errorf("%s: %s has no heading for #%s", path, to, anchor)
			}
		}
	}
	if n < 100 {
		t.Errorf("%d links were looked at", n)
	}
}
