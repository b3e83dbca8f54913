package persistent_queue_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTheExamplesThatTheDocumentsNameAreThere(t *testing.T) {
	documents, err := filepath.Glob("docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatal(documents, err)
	}
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range regexp.MustCompile(`\[(\w+)\]\(([^)#]+_test\.go)\)`).FindAllStringSubmatch(string(text), -1) {
			name, file := link[1], filepath.Join("docs", link[2])
			code, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(code), "func "+name+"() {") {
				t.Errorf("%s names %s, which is not in %s: %v", document, name, file, err)
			}
		}
	}
}
