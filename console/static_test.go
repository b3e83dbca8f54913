package console

import (
	"io/fs"
	"testing"
)

func TestAllJavaScriptTogetherHasLessThanTwentyKilobytes(t *testing.T) {
	files, err := fs.Glob(staticFiles, "static/*.js")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	size := 0
	for _, name := range files {
		text, err := staticFiles.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		size += len(text)
	}
	if size >= 20_000 {
		t.Errorf("%q have %d bytes together", files, size)
	}
}
