package store

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// arguments collects what a statement is called with. Its methods write a value into the text, or a question mark whose
// value goes to the end of the list, so call them in the order in which the text is written.
type arguments struct {
	bound bool
	list  []any
}

func (d dialect) arguments() *arguments { return &arguments{bound: d.bindsNumbers} }

// number writes a number that differs from one sending to the next.
func (a *arguments) number(n int64) string {
	if !a.bound {
		return strconv.FormatInt(n, 10)
	}
	a.list = append(a.list, n)
	return "?"
}

// id writes an id to look for. On MySQL an id may need all 64 bits, which number does not take. PostgreSQL has no such ids, and refuses to
// compare with one: there it is the largest that a row could have.
func (a *arguments) id(id uint64) string {
	if a.bound {
		id = min(id, math.MaxInt64)
	}
	return a.newID(id)
}

// newID writes an id that a row gets.
func (a *arguments) newID(id uint64) string {
	if !a.bound {
		return strconv.FormatUint(id, 10)
	}
	a.list = append(a.list, id)
	return "?"
}

// value writes a value that is an argument on every database.
func (a *arguments) value(v any) string {
	a.list = append(a.list, v)
	return "?"
}

// orNull writes a text; an empty one is NULL.
func (a *arguments) orNull(text string) string {
	if text == "" {
		return "NULL"
	}
	return a.value(text)
}

// evened repeats the last gap until there are 1, 2, 4, 8 … of them. With bound arguments, each number of gaps would be
// another text to prepare.
func (a *arguments) evened(gaps []Gap) []Gap {
	if !a.bound || len(gaps) == 0 {
		return gaps
	}
	gaps = slices.Clone(gaps)
	for len(gaps)&(len(gaps)-1) != 0 {
		gaps = append(gaps, gaps[len(gaps)-1])
	}
	return gaps
}

// in writes the condition that the id is one of these.
func (a *arguments) in(s *Store, ids []uint64) string {
	if !a.bound {
		return s.idIn(ids)
	}
	return a.oneOf("id", ids)
}

// oneOf writes the condition that a column has one of these numbers. For the id there is in.
func (a *arguments) oneOf(column string, numbered []uint64) string {
	if !a.bound {
		return column + " IN (" + numbers(numbered) + ")"
	}
	numbered = slices.DeleteFunc(slices.Clone(numbered), func(n uint64) bool { return n > math.MaxInt64 }) // no row can have it
	a.list = append(a.list, "{"+numbers(numbered)+"}")
	return column + " = ANY(CAST(? AS bigint[]))"
}

// among writes the condition that the column has one of these texts. With bound arguments, each number of texts would be
// another statement to prepare, so there are 1, 2, 4, 8 … of them.
func (a *arguments) among(column string, texts []string) string {
	texts = slices.Clone(texts)
	for a.bound && len(texts)&(len(texts)-1) != 0 {
		texts = append(texts, texts[len(texts)-1])
	}
	for _, text := range texts {
		a.list = append(a.list, text)
	}
	return column + " IN (?" + strings.Repeat(", ?", len(texts)-1) + ")"
}

// numbers writes a list of numbers, with commas between them.
func numbers[N int32 | int64 | uint64](list []N) string {
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
