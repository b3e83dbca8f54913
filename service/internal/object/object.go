// Package object reads objects of JSON field by field: what is sent has an effect, or it is said what is wrong with it, all at once.
package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/service/internal/problem"
)

// Read reads an object into a struct, whose fields have json tags. Fields that the struct does not have are wrong, and so are those that come
// twice. A field that is null is not given. What is wrong stands below the pointer at.
func Read(text []byte, at string, into any) (wrong []problem.Field) {
	say := func(pointer, format string, args ...any) {
		wrong = append(wrong, problem.Field{Pointer: at + pointer, Detail: fmt.Sprintf(format, args...)})
	}
	members, err := membersOf(text)
	if err != nil {
		say("", "it is no JSON object: %v", err)
		return wrong
	}
	target := reflect.ValueOf(into).Elem()
	places, known := map[string]int{}, []string{}
	for n := range target.NumField() {
		name, _, _ := strings.Cut(target.Type().Field(n).Tag.Get("json"), ",")
		places[name], known = n, append(known, name)
	}
	seen := map[string]bool{}
	for _, m := range members {
		n, there := places[m.name]
		switch pointer := "/" + Escaped(m.name); {
		case !there:
			say(pointer, "there is no such field; there are %s", strings.Join(known, ", "))
		case seen[m.name]:
			say(pointer, "it comes twice; send it once")
		case string(m.value) == "null":
		case target.Field(n).Kind() == reflect.Map:
			wrong = append(wrong, readMap(m.value, at+pointer, target.Field(n), true)...)
		case target.Field(n).Type() != reflect.TypeFor[json.RawMessage]() && IsHalved(m.value):
			say(pointer, "%s", Halved)
		case json.Unmarshal(m.value, target.Field(n).Addr().Interface()) != nil:
			say(pointer, "it is to be %s", kindOf(target.Field(n).Type()))
		}
		seen[m.name] = true
	}
	return wrong
}

// ReadTexts reads an object of texts, whose names may be any. If it is strict, none comes twice, of which one would count, and no text is null.
func ReadTexts(text []byte, at string, strict bool) (texts map[string]string, wrong []problem.Field) {
	wrong = readMap(text, at, reflect.ValueOf(&texts).Elem(), strict)
	return texts, wrong
}

// readMap reads an object into a map.
func readMap(text []byte, at string, into reflect.Value, strict bool) (wrong []problem.Field) {
	say := func(pointer, detail string) {
		wrong = append(wrong, problem.Field{Pointer: at + pointer, Detail: detail})
	}
	switch {
	case json.Unmarshal(text, into.Addr().Interface()) != nil:
		say("", "it is to be "+kindOf(into.Type()))
		return wrong
	case !strict:
		return nil
	case IsHalved(text):
		say("", Halved)
		return wrong
	}
	members, _ := membersOf(text) // it is an object
	seen := map[string]bool{}
	for _, m := range members {
		switch pointer := "/" + Escaped(m.name); {
		case seen[m.name]:
			say(pointer, "it comes twice; send it once")
		case string(m.value) == "null" && into.Type().Elem().Kind() == reflect.String:
			say(pointer, "it is null; send a text, or leave it out")
		}
		seen[m.name] = true
	}
	return wrong
}

// Halved says what is wrong with a text that [IsHalved].
const Halved = `it has half of a surrogate pair, such as \ud83d alone, which is no character; cut texts between characters`

// IsHalved reports whether a text of JSON has half of a surrogate pair. UTF-8 has none, so whoever reads the text puts another character there,
// and two texts become one.
func IsHalved(text []byte) bool {
	unit := func(n int) rune { // that is escaped there; 0: none is
		if n+6 > len(text) || text[n] != '\\' || text[n+1] != 'u' {
			return 0
		}
		is, _ := strconv.ParseUint(string(text[n+2:n+6]), 16, 16)
		return rune(is)
	}
	for n := bytes.IndexByte(text, '\\'); n >= 0 && n < len(text); n++ {
		if text[n] != '\\' {
			continue
		}
		if first := unit(n); utf16.IsSurrogate(first) {
			if utf16.DecodeRune(first, unit(n+6)) == unicode.ReplacementChar {
				return true
			}
			n += 6
		}
		n++ // what is escaped may be a backslash
	}
	return false
}

// Escaped is a name as a part of a JSON pointer.
func Escaped(name string) string { return pointerEscapes.Replace(name[:min(len(name), 100)]) }

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// Names reads the names of an object, each as often as it comes.
func Names(text []byte) (names []string) {
	members, _ := membersOf(text)
	for _, m := range members {
		names = append(names, m.name)
	}
	return names
}

type member struct {
	name  string
	value json.RawMessage
}

func membersOf(text []byte) (members []member, err error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8; send JSON in UTF-8")
	}
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		return nil, errors.New("it begins with a byte order mark; send JSON in UTF-8 without one")
	}
	from := json.NewDecoder(bytes.NewReader(text))
	if token, err := from.Token(); err != nil || token != json.Delim('{') {
		return nil, because(err)
	}
	for from.More() {
		token, err := from.Token()
		if err != nil {
			return nil, because(err)
		}
		m := member{name: token.(string)} // the decoder sees to it
		if err := from.Decode(&m.value); err != nil {
			return nil, because(err)
		}
		members = append(members, m)
	}
	if _, err := from.Token(); err != nil {
		return nil, because(err)
	}
	if _, err := from.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind it; send one object")
	}
	return members, nil
}

func because(err error) error {
	switch {
	case err == nil:
		return errors.New("it is another kind of value")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it ends too early")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// kindOf says what a field takes.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list of texts"
	case reflect.Map:
		if t.Elem().Kind() == reflect.String {
			return "an object of texts"
		}
		return "an object"
	}
	return "another kind of value"
}

// Twice is a name that comes twice in an object that json.Unmarshal has read into a map of so many names; of two equal names, it takes the
// last. It is cheap if there is none.
func Twice(text []byte, names int) (name string, twice bool) {
	if countNames(text) == names {
		return "", false
	}
	seen := map[string]bool{}
	for _, name := range Names(text) {
		if seen[name] {
			return name, true
		}
		seen[name] = true
	}
	return "", false
}

// countNames counts the names of an object that is known to be right: the colons that stand in no text and in no other value.
func countNames(text []byte) (count int) {
	depth := 0
	for n := 0; n < len(text); n++ {
		switch text[n] {
		case '"':
			for n++; n < len(text) && text[n] != '"'; n++ {
				if text[n] == '\\' {
					n++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ':':
			if depth == 1 {
				count++
			}
		}
	}
	return count
}
