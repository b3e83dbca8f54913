package console

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strings"
)

// secret are the names whose values [MaskSecrets] masks, after a _ was put between their words. Short ones count only as whole words.
var secret = regexp.MustCompile(`(?i)passw(or)?d|pass_?(phrase|code)|pass$|pwd|secret|token|api_?key|private_?key|authorization|` +
	`credential|cookie|session|(^|[^a-z])(cvv|cvc|pan|iban|ssn|pin)([^a-z]|$)|card_?number`)

// Words begin with a capital, as in cardPin and IBANNumber.
var wordBegins = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)

func isSecret(name string) bool {
	return secret.MatchString(wordBegins.ReplaceAllString(name, "${1}${3}_${2}${4}"))
}

const masked = `"•••"`

// MaskSecrets replaces, in a JSON text, the values of names that sound like a secret: password, token, api_key, authorization, iban
// and the like, at any depth, and also if a value is a text that is JSON itself. Everything else stays as it is, each digit of a number,
// too. A text that is no JSON stays as it is.
func MaskSecrets(text string) string {
	in := json.NewDecoder(strings.NewReader(text))
	in.UseNumber()
	var out strings.Builder
	var objects []bool // of each object or array that is open: it is an object
	copied, nameNext := 0, false
	for {
		before := int(in.InputOffset())
		token, err := in.Token()
		if err == io.EOF && len(objects) == 0 {
			return out.String() + text[copied:]
		}
		if err != nil {
			return text
		}
		name, isText := token.(string)
		switch delim, _ := token.(json.Delim); {
		case nameNext && isText && isSecret(name):
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
		case isText:
			if inner := MaskSecrets(name); inner != name {
				begin := before + strings.IndexByte(text[before:], '"')
				out.WriteString(text[copied:begin] + jsonOf(inner))
				copied = int(in.InputOffset())
			}
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

// jsonOf writes something that can be written as JSON. The letters that HTML needs to escape stay as they are.
func jsonOf(what any) string {
	var out strings.Builder
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	_ = to.Encode(what)
	return strings.TrimSuffix(out.String(), "\n")
}

// pretty indents a JSON text. What is no JSON stays as it is.
func pretty(text string) string {
	var out bytes.Buffer
	if json.Indent(&out, []byte(text), "", "  ") != nil {
		return text
	}
	return out.String()
}
