package queue_job

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// checkText returns an error if the value has a string that is not UTF-8, and says where. encoding/json does not: it writes other
// characters instead of such bytes, and the handler would get another string than was added.
func checkText(value any, encoded []byte) error {
	if !utf8.Valid(encoded) { // by MarshalJSON; a server that is not strict would cut them, and PostgreSQL would end the caller's transaction
		return errors.New("job parameters are not UTF-8")
	}
	if !bytes.Contains(encoded, replaced) {
		return nil
	}
	if where, found := badText(reflect.ValueOf(value), "", valueDepthMax); found {
		return fmt.Errorf("job parameters are not UTF-8: %s; pass such bytes as []byte, which JSON has in base64", where)
	}
	return nil
}

// replaced is what encoding/json writes for bytes that are not UTF-8. The character U+FFFD itself it writes as it is, so this text stands in
// JSON for no other reason, unless somebody else has written the JSON.
var replaced = []byte(`\ufffd`)

// valueDepthMax is how deep badText looks. Values that encoding/json encodes have an end, but what a type keeps behind its own
// MarshalJSON may be a ring.
const valueDepthMax = 100

// badText finds a string of the value that is not UTF-8. It looks only at what encoding/json encodes, and into types with a MarshalJSON of
// their own, since most of these call encoding/json with something made of their fields.
func badText(v reflect.Value, path string, depth int) (where string, found bool) {
	if !v.IsValid() || depth == 0 {
		return "", false
	}
	text, isText, byItself := marshalled(v)
	if isText {
		return badString(text, path)
	}
	switch v.Kind() {
	case reflect.String:
		return badString(v.String(), path)
	case reflect.Pointer, reflect.Interface:
		return badText(v.Elem(), path, depth-1)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return "", false
		}
		for i := range v.Len() {
			if where, found = badText(v.Index(i), fmt.Sprintf("%s[%d]", path, i), depth-1); found {
				return where, true
			}
		}
	case reflect.Map:
		for entry := v.MapRange(); entry.Next(); {
			key := entry.Key()
			name, isText := "", false
			if key.Kind() == reflect.String {
				name = key.String()
			} else if name, isText, _ = marshalled(key); !isText {
				name = fmt.Sprint(key)
			}
			if where, found = badString(name, "a key of "+named(path)); found {
				return where, true
			}
			if where, found = badText(entry.Value(), fmt.Sprintf("%s[%q]", path, name), depth-1); found {
				return where, true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !byItself && (field.Tag.Get("json") == "-" || !field.IsExported() && !field.Anonymous) {
				continue
			}
			name := field.Name
			if path != "" {
				name = path + "." + name
			}
			if where, found = badText(v.Field(i), name, depth-1); found {
				return where, true
			}
		}
	}
	return "", false
}

// marshalled returns the text that a value makes of itself, if encoding/json would ask it, or reports that the value makes JSON of itself.
func marshalled(v reflect.Value) (text string, isText, byItself bool) {
	if v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer && v.IsNil() || !v.CanInterface() {
		return "", false, false
	}
	is := v.Interface()
	if v.CanAddr() {
		if _, ok := v.Addr().Interface().(json.Marshaler); ok {
			return "", false, true
		}
	}
	if _, ok := is.(json.Marshaler); ok {
		return "", false, true
	}
	m, ok := is.(encoding.TextMarshaler)
	if !ok && v.CanAddr() {
		m, ok = v.Addr().Interface().(encoding.TextMarshaler)
	}
	if !ok {
		return "", false, false
	}
	said, err := m.MarshalText()
	return string(said), err == nil, false
}

// isText reports whether a text can stand in a column of each database.
func isText(text string) bool { return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 }

func badString(text, path string) (where string, found bool) {
	for i, r := range text {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				return fmt.Sprintf("%s has the byte %#x at %d", named(path), text[i], i), true
			}
		}
	}
	return "", false
}

// named is what an error calls the place of a value.
func named(path string) string {
	if path == "" {
		return "the text"
	}
	return path
}
