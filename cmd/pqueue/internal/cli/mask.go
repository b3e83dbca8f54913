package cli

import (
	"bytes"
	"encoding/json"
	"regexp"

	"github.com/create-info/persistent-queue/console"
)

var (
	// texts matches each text in a JSON text.
	texts = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	// queries matches an address with its query in a text, and inJSON in what is cut off or no JSON: there, characters may be escaped.
	queries = regexp.MustCompile(`(?i)(https?://[^\s?]*\?)\S+`)
	inJSON  = regexp.MustCompile(`(?i)(https?:(?:\\?/){2}[^\s"?]*\?)(?:[^\s"\\]|\\.)+`)
)

// maskTask hides in a task what may be a secret: values whose names say so, and the queries of addresses.
func maskTask(text string) string {
	if !json.Valid([]byte(text)) {
		return console.MaskSecrets(inJSON.ReplaceAllString(text, "${1}…"))
	}
	return console.MaskSecrets(withoutQueries(text))
}

// withoutQueries hides the queries of addresses in a JSON text, also in texts in it that are JSON themselves. It goes by what a text means: PHP
// escapes each slash.
func withoutQueries(text string) string {
	return texts.ReplaceAllStringFunc(text, func(quoted string) string {
		var plain string
		if json.Unmarshal([]byte(quoted), &plain) != nil {
			return quoted
		}
		masked := ""
		if json.Valid([]byte(plain)) {
			masked = withoutQueries(plain)
		} else {
			masked = queries.ReplaceAllString(plain, "${1}…")
		}
		if masked == plain {
			return quoted
		}
		return quotedAs(masked)
	})
}

// quotedAs is a text as JSON, in which the letters that HTML needs to escape stay as they are.
func quotedAs(text string) string {
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	_ = to.Encode(text) // a text
	return string(bytes.TrimSuffix(out.Bytes(), []byte("\n")))
}
