package store_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
)

var update = flag.Bool("update", false, "write testdata anew: what each verb sends to each database")

// The code shows no statement in full, because databases share most of the words. So testdata has each statement as it
// is sent, for readers and reviewers. Of TiDB it has what differs from MySQL's: that is little.
func TestWhatEachVerbSendsIsShownInTestdata(t *testing.T) {
	shown := maps.Clone(verbs)
	first := store.Lanes()[:2] // the others are alike
	shown["Abandoned"] = func(ctx context.Context, s *record.Store) { _, _, _ = s.Abandoned(ctx, 7, first[0], 1000, 500) }
	shown["Page"] = func(ctx context.Context, s *record.Store) {
		_, _ = s.Page(ctx, 7, store.Shard{Of: 4, Number: 2}, []store.Place{{Lane: first[0]}, {Lane: first[1]}}, 3, 100)
	}
	asTo := map[string]conn.Dialect{"TiDB": conn.MySQL}
	for _, d := range []conn.Dialect{conn.MySQL, conn.MariaDB, conn.TiDB, conn.PostgreSQL, conn.SQLite} {
		like, differs := asTo[d.Name]
		unless := ""
		if differs {
			unless = ", unless " + like.Name + " is sent the same"
		}
		var text strings.Builder
		fmt.Fprintf(&text, "-- What each verb of the store sends to %s, when its tables are empty%s.\n-- Written by: go test ./internal/store -run Shown -update\n", d.Name, unless)
		for _, name := range slices.Sorted(maps.Keys(shown)) {
			sent := shownOf(sentBy(t, d, shown[name]))
			if !differs || sent != shownOf(sentBy(t, like, shown[name])) {
				fmt.Fprintf(&text, "\n-- %s\n%s", name, sent)
			}
		}
		file := filepath.Join("testdata", strings.ToLower(d.Name)+".sql")
		if *update {
			if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if there, err := os.ReadFile(file); err != nil || string(there) != text.String() {
			t.Errorf("%s is not what is sent (%v); if that is meant, write it anew: go test ./internal/store -run Shown -update", file, err)
		}
	}
}

// shownOf shows once a statement that is sent again, because it did nothing.
func shownOf(sent []statement) string {
	var text strings.Builder
	seen := map[string]bool{}
	for _, s := range sent {
		if !seen[s.text] {
			fmt.Fprintf(&text, "%s;%s\n", laidOut(s.text), bound(s.args))
		}
		seen[s.text] = true
	}
	return text.String()
}

func bound(args []any) string {
	if len(args) == 0 {
		return ""
	}
	var texts []string
	for _, arg := range args {
		text := strings.TrimPrefix(fmt.Sprintf("%#v", arg), "0x")
		if len(text) > store.ParamsMax {
			text = text[:20] + "…"
		}
		texts = append(texts, text)
	}
	return " -- with " + strings.Join(texts, ", ")
}

var clauses = regexp.MustCompile(` (FROM|WHERE|SET|VALUES|UNION ALL|ORDER BY|GROUP BY|LIMIT|AND|ON CONFLICT|ON DUPLICATE|RETURNING|FOR UPDATE)\b`)

// laidOut begins a line at each clause, deeper by the parentheses that are open. BETWEEN keeps its AND, EXTRACT its FROM.
func laidOut(statement string) string {
	var text strings.Builder
	last, depth := 0, 0
	for _, at := range clauses.FindAllStringIndex(statement, -1) {
		part := statement[last:at[0]]
		text.WriteString(strings.TrimRight(part, " "))
		depth += strings.Count(part, "(") - strings.Count(part, ")")
		word := statement[at[0]+1 : at[1]]
		last = at[0]
		if between := strings.LastIndex(statement[:at[0]], " BETWEEN "); word == "AND" && between >= 0 && !strings.Contains(statement[between:at[0]], " AND ") {
			continue
		}
		if word == "FROM" && strings.HasSuffix(part, "EXTRACT(EPOCH") {
			continue
		}
		indent := 2 * depth
		if word == "AND" {
			indent += 2
		}
		fmt.Fprintf(&text, "\n%s", strings.Repeat(" ", indent))
		last++
	}
	text.WriteString(statement[last:])
	return text.String()
}
