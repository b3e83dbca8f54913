package cli

import (
	"regexp"

	"github.com/create-info/persistent-queue/console"
)

// queries matches each address in a JSON text with its query, which includes escaped characters.
var queries = regexp.MustCompile(`(https?://[^\s"?\\]*\?)(?:[^\s"\\]|\\.)+`)

// maskTask hides in a task what may be a secret: values whose names say so, and the queries of addresses.
func maskTask(text string) string {
	return console.MaskSecrets(queries.ReplaceAllString(text, "${1}…"))
}
