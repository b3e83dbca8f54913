package console

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strings"
)

// secret are the names whose values [MaskSecrets] masks.
var secret = regexp.MustCompile(`(?i)pass(word|wd|phrase|code)?$|secret|token|api_?key|private_?key|authorization|credential|cookie|session|\b(cvv|cvc|pan|iban|ssn|pin)\b|card_?number`)

const masked = `"•••"`

// MaskSecrets replaces, in a JSON text, the values of names that sound like a secret: password, token, api_key, authorization, iban
// and the like, at any depth. Everything else stays as it is, each digit of a number, too. A text that is no JSON stays as it is.
func MaskSecrets(text string) string {
	in := json.NewDecoder(strings.NewReader(text))
	in.UseNumber()
	var out strings.Builder
	var objects []bool // of each object or array that is open: it is an object
	copied, nameNext := 0, false
	for {
		token, err := in.Token()
		if err == io.EOF && len(objects) == 0 {
			return out.String() + text[copied:]
		}
		if err != nil {
			return text
		}
		name, isText := token.(string)
		switch delim, _ := token.(json.Delim); {
		case nameNext && isText && secret.MatchString(name):
			begin := afterColon(text, int(in.InputOffset()))
			if in.Decode(new(json.RawMessage)) != nil {
				return text
			}
			out.WriteString(text[copied:begin] + masked)
			copied = int(in.InputOffset())
			continue // a name follows
		case nameNext && isText:
			nameNext = false
			continue
		case delim == '{' || delim == '[':
			objects = append(objects, delim == '{')
		case delim != 0:
			objects = objects[:len(objects)-1]
		}
		nameNext = len(objects) > 0 && objects[len(objects)-1]
	}
}

// afterColon is where the value begins whose name ends at an offset.
func afterColon(text string, offset int) int {
	value := strings.TrimLeft(text[offset:], " \t\r\n:")
	return len(text) - len(value)
}

// pretty indents a JSON text. What is no JSON stays as it is.
func pretty(text string) string {
	var out bytes.Buffer
	if json.Indent(&out, []byte(text), "", "  ") != nil {
		return text
	}
	return out.String()
}
