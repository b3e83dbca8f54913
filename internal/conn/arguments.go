package conn

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jmoiron/sqlx"
)

// Arguments collects what a statement is called with. Its methods write a value into the text, or a question mark whose
// value goes to the end of the list, so call them in the order in which the text is written.
type Arguments struct {
	dialect *Dialect
	List    []any
}

func (d *Dialect) Arguments() *Arguments { return &Arguments{dialect: d} }

// bound reports whether numbers are arguments, too.
func (a *Arguments) bound() bool { return a.dialect.bindsNumbers }

// Number writes a number that differs from one sending to the next.
func (a *Arguments) Number(n int64) string {
	if !a.bound() {
		return strconv.FormatInt(n, 10)
	}
	a.List = append(a.List, n)
	return "?"
}

// ID writes an id to look for. On MySQL an id may need all 64 bits, which number does not take. PostgreSQL has no such ids, and refuses to
// compare with one: there it is the largest that a row could have.
func (a *Arguments) ID(id uint64) string {
	if a.bound() {
		id = min(id, math.MaxInt64)
	}
	return a.NewID(id)
}

// NewID writes an id that a row gets.
func (a *Arguments) NewID(id uint64) string {
	if !a.bound() {
		return strconv.FormatUint(id, 10)
	}
	a.List = append(a.List, id)
	return "?"
}

// Value writes a value that is an argument on every database.
func (a *Arguments) Value(v any) string {
	a.List = append(a.List, v)
	return "?"
}

// OrNull writes a text; an empty one is NULL.
func (a *Arguments) OrNull(text string) string {
	if text == "" {
		return "NULL"
	}
	return a.Value(text)
}

// Evened repeats the last of a list until there are 1, 2, 4, 8 … With bound arguments, each number of them would be
// another text to prepare.
func Evened[T any](a *Arguments, list []T) []T {
	if !a.bound() || len(list) == 0 {
		return list
	}
	list = slices.Clone(list)
	for len(list)&(len(list)-1) != 0 {
		list = append(list, list[len(list)-1])
	}
	return list
}

// In writes the condition that the id is one of these.
func (a *Arguments) In(ids []uint64) string {
	if !a.bound() {
		return a.dialect.IDIn(ids)
	}
	return a.OneOf("id", ids)
}

// OneOf writes the condition that a column has one of these numbers. For the id there is in.
func (a *Arguments) OneOf(column string, numbered []uint64) string {
	if !a.bound() {
		return column + " IN (" + Numbers(numbered) + ")"
	}
	numbered = slices.DeleteFunc(slices.Clone(numbered), func(n uint64) bool { return n > math.MaxInt64 }) // no row can have it
	a.List = append(a.List, "{"+Numbers(numbered)+"}")
	return column + " = ANY(CAST(? AS bigint[]))"
}

// Among writes the condition that the column has one of these texts. With bound arguments, each number of texts would be
// another statement to prepare, so there are 1, 2, 4, 8 … of them.
func (a *Arguments) Among(column string, texts []string) string {
	texts = slices.Clone(texts)
	for a.bound() && len(texts)&(len(texts)-1) != 0 {
		texts = append(texts, texts[len(texts)-1])
	}
	for _, text := range texts {
		a.List = append(a.List, text)
	}
	return column + " IN (?" + strings.Repeat(", ?", len(texts)-1) + ")"
}

// Numbers writes a list of numbers, with commas between them.
func Numbers[N int16 | int32 | int64 | uint64](list []N) string {
	text := make([]byte, 0, 12*len(list))
	for i, n := range list {
		if i > 0 {
			text = append(text, ',')
		}
		if n < 0 {
			text = strconv.AppendInt(text, int64(n), 10)
		} else {
			text = strconv.AppendUint(text, uint64(n), 10)
		}
	}
	return string(text)
}

// Cut makes text fit its column: it shortens it to max characters, and replaces bytes that are not UTF-8, and zeros,
// which PostgreSQL accepts in no text.
func Cut(text string, max int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if runes := []rune(text); len(runes) > max {
		return string(runes[:max-1]) + "…"
	}
	return text
}

// In writes a question mark for each element of a list that is an argument, and makes arguments of the elements.
func In(query string, args ...any) (string, []any, error) { return sqlx.In(query, args...) }
