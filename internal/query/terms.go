package query

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// term is a word of a query, without its quotation marks. Without a colon outside of them, its field is empty.
type term struct {
	text, field, value string
	star               bool // the value ends with a * that is not in quotation marks
}

var errEmpty = errors.New(`"" is empty; write what to look for`)

const (
	textMost  = 2000 // bytes
	termsMost = 50
)

// termsOf divides a text at its blanks. Between quotation marks, a blank is one of the term, and \" and \\ stand for " and \.
func termsOf(text string) (terms []term, err error) {
	switch {
	case len(text) > textMost:
		return nil, fmt.Errorf("the query has %d bytes; there is room for %d", len(text), textMost)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return nil, errors.New("the query is no text in UTF-8")
	}
	for {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		if text == "" {
			return terms, nil
		}
		var t term
		if t, text, err = firstTerm(text); err != nil {
			return nil, err
		}
		if terms = append(terms, t); len(terms) > termsMost {
			return nil, fmt.Errorf("the query has more than %d terms", termsMost)
		}
	}
}

// firstTerm reads a term, and returns what follows it.
func firstTerm(text string) (t term, rest string, err error) {
	var value strings.Builder
	quoted, inQuotes, escaped, end := false, false, false, len(text)
loop:
	for i, r := range text {
		switch {
		case escaped:
			escaped = false
			if r != '"' && r != '\\' {
				value.WriteByte('\\')
			}
			value.WriteRune(r)
		case inQuotes && r == '\\':
			escaped = true
		case r == '"':
			inQuotes, quoted, t.star = !inQuotes, true, false
		case !inQuotes && unicode.IsSpace(r):
			end = i
			break loop
		case !inQuotes && r == ':' && t.field == "" && !quoted && value.Len() > 0:
			t.field = value.String()
			value.Reset()
		default:
			value.WriteRune(r)
			t.star = r == '*' && !inQuotes
		}
	}
	if inQuotes {
		return t, "", fmt.Errorf("%s: a quotation mark opens and none closes", text)
	}
	t.text, t.value = text[:end], value.String()
	if t.field == "" && t.value == "" {
		return t, "", errEmpty
	}
	return t, text[end:], nil
}

// Quote writes a text so that it is one word of a query, which says nothing but itself.
func Quote(text string) string {
	if text != "" && !strings.ContainsAny(text, "\":*") && !strings.ContainsFunc(text, unicode.IsSpace) {
		return text
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
