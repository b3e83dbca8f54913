package cli

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// column is a column of a list: its name, and what it shows of an item.
type column[T any] struct {
	name string
	show func(T) string
}

// list writes items as --output says, and returns how many. In JSON, an item is what asJSON makes of it. The first column is its id. An
// item is written as soon as it is there, unless it stands in a table, whose columns are as wide as the widest of all, or in
// a JSON object, which is written if all items could be read.
func list[T any](a *app, items iter.Seq2[T, error], what string, columns []column[T], asJSON func(T) any) (n int, err error) {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	cells := func(item T) []string {
		row := make([]string, len(columns))
		for i, c := range columns {
			row[i] = c.show(item)
		}
		return row
	}
	switch a.output {
	case "json":
		all := []any{}
		if n, err = each(items, func(item T) error { all = append(all, asJSON(item)); return nil }); err == nil {
			err = indented(a.Out, map[string]any{"schema": 1, what: all})
		}
		return n, err
	case "jsonl":
		out := encoder(a.Out)
		return each(items, func(item T) error { return out.Encode(asJSON(item)) })
	case "id":
		return each(items, func(item T) error {
			_, err := fmt.Fprintln(a.Out, columns[0].show(item))
			return err
		})
	case "csv":
		out := csv.NewWriter(a.Out)
		if !a.noHeaders {
			out.Write(names) // an error comes again, from Error
		}
		n, err = each(items, func(item T) error { return out.Write(cells(item)) })
		if out.Flush(); err == nil {
			err = out.Error()
		}
		return n, err
	}
	out := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	line := func(row []string) error {
		_, err := fmt.Fprintln(out, strings.Join(row, "\t"))
		return err
	}
	if !a.noHeaders {
		line([]string{strings.ToUpper(strings.Join(names, "\t"))}) // an error comes again, from Flush
	}
	n, err = each(items, func(item T) error {
		row := cells(item)
		for i := range row {
			row[i] = oneLine(row[i])
		}
		return line(row)
	})
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	return n, err
}

// sayMore says that a list may not be all there is, if it is as long as --limit allows.
func (a *app) sayMore(n, limit int) {
	if n > 0 && n == limit && a.output == "table" {
		a.sayf("there may be more: --limit says how many, --before where to go on")
	}
}

// each passes items on until there is an error, and returns how many it has passed on.
func each[T any](items iter.Seq2[T, error], to func(T) error) (n int, err error) {
	for item, err := range items {
		if err == nil {
			err = to(item)
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// outputs are the values of --output.
var outputs = []string{"table", "json", "jsonl", "csv", "id"}

func badOutput(output string) error {
	return exitf(exitUsage, "--output %s: it is table, json, jsonl, csv or id", output)
}

// all yields the items of a list.
func all[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// encoder writes text as it is: <, > and & are no danger in a shell.
func encoder(to io.Writer) *json.Encoder {
	out := json.NewEncoder(to)
	out.SetEscapeHTML(false)
	return out
}

func indented(to io.Writer, value any) error {
	out := encoder(to)
	out.SetIndent("", "  ")
	return out.Encode(value)
}

// oneLine makes a text fit to stand in a line of a terminal: what would move the cursor or break the line is written as Go writes
// it in a string.
func oneLine(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	var line strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			line.WriteRune(r)
			continue
		}
		quoted := fmt.Sprintf("%q", r)
		line.WriteString(quoted[1 : len(quoted)-1])
	}
	return line.String()
}

// labelled writes a text behind its name, in a line of its own; an empty text is left out.
func labelled(out io.Writer) func(name, text string) {
	return func(name, text string) {
		if text != "" {
			fmt.Fprintf(out, "%s\t%s\n", name, oneLine(text))
		}
	}
}

// shortened cuts a text to a width, and shows that it did.
func shortened(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}

// clock shows a time where the reader is; zero is shown as nothing.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// stamp is a time in JSON; zero is null.
func stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Format(time.RFC3339)
	return &text
}

// span shows a time that has passed, as somebody would say it: 42s, 5m, 3h, 12d.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d/time.Second)))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d/time.Hour))
	}
	return fmt.Sprintf("%dd", int(d/(24*time.Hour)))
}

// isTerminal reports whether somebody may be sitting there.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
