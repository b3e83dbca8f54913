package query

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/queue_job"
)

var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// meaning is what a query asks for, without how it was written.
func meaning(q *Query) Query {
	q.SetNow(now)
	m := *q
	m.created, m.updated, m.due, m.fields, m.terms = Range{}, Range{}, Range{}, nil, nil
	return m
}

func TestAQuerySaysWhichJobs(t *testing.T) {
	failed := []queue_job.JobStatus{queue_job.JobStatusFailed}
	for text, want := range map[string]Query{
		"":                                 {},
		"queue:7,billing":                  {Filter: queue_job.Filter{JobTypes: []int32{7}}, Names: []string{"billing"}},
		"type:7":                           {Filter: queue_job.Filter{JobTypes: []int32{7}}},
		`queue:"night run"`:                {Names: []string{"night run"}},
		"state:failed":                     {Filter: queue_job.Filter{Statuses: failed}}, // an index leads there
		"state:failed,retrying":            {Filter: queue_job.Filter{States: []string{"failed", "retrying"}}},
		"status:failed,init":               {Filter: queue_job.Filter{Statuses: []queue_job.JobStatus{queue_job.JobStatusFailed, queue_job.JobStatusInit}}},
		"state:failed status:failed":       {Filter: queue_job.Filter{States: []string{"failed"}, Statuses: failed}},
		"key:order-47":                     {Filter: queue_job.Filter{Key: "order-47"}},
		"key:order-8*":                     {KeyPrefix: "order-8"},
		`key:"order-8*"`:                   {Filter: queue_job.Filter{Key: "order-8*"}},
		`key:"order 8"*`:                   {KeyPrefix: "order 8"},
		"order-8*":                         {KeyPrefix: "order-8"},
		`"order-8*"`:                       {Word: "order-8*"},
		"key:a:b":                          {Filter: queue_job.Filter{Key: "a:b"}},
		"since:1h":                         {Filter: queue_job.Filter{UpdatedFrom: now.Add(-time.Hour)}},
		"due:..5m":                         {Filter: queue_job.Filter{DueTo: now.Add(-5 * time.Minute)}},
		"created:2d..2026-11-23T10:30":     {Filter: queue_job.Filter{CreatedFrom: now.AddDate(0, 0, -2), CreatedTo: time.Date(2026, 11, 23, 10, 30, 0, 0, time.UTC)}},
		`error:"connection refused"`:       {Error: "connection refused"},
		`error:refused queue:7`:            {Error: "refused", Filter: queue_job.Filter{JobTypes: []int32{7}}},
		`error:"say \"no\" \\ \n"`:         {Error: `say "no" \ \n`},
		"params.Customer:c-28":             {Params: []Param{{[]string{"Customer"}, "c-28"}}},
		"params.a.0.b:1 params.c:true":     {Params: []Param{{[]string{"a", "0", "b"}, "1"}, {[]string{"c"}, "true"}}},
		"attempts:3":                       {AttemptsFrom: 3, AttemptsTo: 4},
		"attempts:>3":                      {AttemptsFrom: 4},
		"attempts:>=3":                     {AttemptsFrom: 3},
		"attempts:<3":                      {AttemptsTo: 3},
		"attempts:<=3":                     {AttemptsTo: 4},
		"tag:urgent tag:eu":                {Tags: []string{"urgent", "eu"}},
		"  order-47\t":                     {Word: "order-47"},
		"4711 state:failed":                {Word: "4711", Filter: queue_job.Filter{Statuses: failed}},
		`"order:47"`:                       {Word: "order:47"},
		`"order 47"`:                       {Word: "order 47"},
		`:47`:                              {Word: ":47"},
		"订单-47":                            {Word: "订单-47"},
		"queue:7 state:failed key:a tag:b": {Filter: queue_job.Filter{JobTypes: []int32{7}, Statuses: failed, Key: "a"}, Tags: []string{"b"}},
	} {
		q, err := Parse(text, time.UTC)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := meaning(q); !reflect.DeepEqual(got, want) {
			t.Errorf("%q is\n%+v\nwant\n%+v", text, got, want)
		}
	}
}

func TestAMistakeInAQueryIsNamedWithWhatIsPossible(t *testing.T) {
	for text, says := range map[string]string{
		"stat:failed":              "stat:failed: no such field; there are queue, state",
		"state:done":               `state:done: no state "done"; there are scheduled, queued`,
		"status:done":              `status:done: no status "done"; there are init`,
		"key:":                     `"key:" has no value`,
		"key:*":                    "key:*: write how the key begins",
		"key:a key:b":              "key: comes twice; write several values as key:a,b",
		"queue:7 type:8":           "type: comes twice",
		"since:1h updated:1d..":    "use one of them",
		"since:yesterday":          `since:yesterday: "yesterday" is no moment; write a time ago`,
		"due:5m":                   "due:5m: it is a range: write 5m..",
		"due:0001-01-01..":         "no job is as old",
		"attempts:many":            `attempts:many: "many" is no number of runs; write 3, >3`,
		"attempts:<0":              "is no number of runs",
		"attempts:=>3":             "is no number of runs",
		"attempts:99999999999":     "is no number of runs",
		"params.:1":                "name the value, as in params.Customer:c-28",
		"params.a..b:1":            "name the value",
		`error:"no route`:          `error:"no route: a quotation mark opens and none closes`,
		"no route":                 `"no" and "route" are two words alone`,
		"order-47 key:a":           "both about the key",
		"a b*":                     "both about the key",
		`""`:                       "is empty",
		"\xff":                     "no text in UTF-8",
		"a\x00":                    "no text in UTF-8",
		strings.Repeat("x", 2001):  "there is room for 2000",
		strings.Repeat("a:b ", 51): "more than 50 terms",
	} {
		if q, err := Parse(text, time.UTC); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %+v; want %q", text, err, q, says)
		}
	}
}

func TestAnArgumentOfAShellIsATermOrSeveral(t *testing.T) {
	for _, of := range []struct {
		arguments []string
		want      Query
	}{
		{[]string{"queue:7", "order-47"}, Query{Word: "order-47", Filter: queue_job.Filter{JobTypes: []int32{7}}}},
		{[]string{"error:connection refused"}, Query{Error: "connection refused"}}, // the shell has taken the quotation marks
		{[]string{"queue:7 state:failed"}, Query{Filter: queue_job.Filter{JobTypes: []int32{7}, Statuses: []queue_job.JobStatus{queue_job.JobStatusFailed}}}},
		{[]string{`error:"no route" since:1h`}, Query{Error: "no route", Filter: queue_job.Filter{UpdatedFrom: now.Add(-time.Hour)}}},
		{[]string{`error:say "no`}, Query{Error: `say "no`}},
		{[]string{`error:"no route"`}, Query{Error: `no route`}},
		{[]string{"night run"}, Query{Word: "night run"}},
	} {
		q, err := ParseArguments(of.arguments, time.UTC)
		if err != nil {
			t.Errorf("%q: %v", of.arguments, err)
		} else if got := meaning(q); !reflect.DeepEqual(got, of.want) {
			t.Errorf("%q is\n%+v\nwant\n%+v", of.arguments, got, of.want)
		}
	}
	if _, err := ParseArguments([]string{""}, time.UTC); err == nil {
		t.Error("an empty argument is a word")
	}
}

func TestAQueryThatOnlyListsJobsSaysWhy(t *testing.T) {
	for text, term := range map[string]string{
		"queue:7 state:failed key:a due:..5m": "", "order-47": "order-47", "key:a*": "key:a*", "queue:7 error:no": "error:", "attempts:>3": "attempts:", "tag:a": "tag:",
		"params.a.b:1": "params.a.b:",
	} {
		q, err := Parse(text, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.OnlyLists(); got != term {
			t.Errorf("%q: %q, want %q", text, got, term)
		}
	}
}

func TestNamesOfQueuesBecomeNumbersAndMistakesNameTheQueues(t *testing.T) {
	types := []queue_job.Type{{JobType: 1, Name: "mail"}, {JobType: 2, Name: "partner"}, {JobType: 3, Name: "twice"}, {JobType: 4, Name: "twice"}}
	for text, want := range map[string]string{"queue:mail,9": "", "queue:mial": "there are mail, partner", "queue:twice": "name one by its number"} {
		q, err := Parse(text, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		switch err := q.SetTypes(types); {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", text, err, want)
		case want == "" && (err != nil || !slices.Equal(q.Filter.JobTypes, []int32{9, 1})):
			t.Errorf("%q: %v, %v", text, q.Filter.JobTypes, err)
		}
	}
}

func TestAJobMatchesByItsParametersAndTags(t *testing.T) {
	job := &queue_job.JobInfo{Key: "order-81", Tags: []string{"eu", "urgent"}}
	const params = `{"Customer":"c-28","lines":[{"sku":47,"big":12345678901234567890}],"paid":false,"note":null,"name":"M\u00fcller"}`
	for text, matches := range map[string]bool{
		"params.Customer:c-28": true, "params.Customer:c-2": false, "params.customer:c-28": false, "params.lines.0.sku:47": true, "params.lines.1.sku:47": false,
		"params.lines.x.sku:47": false, "params.lines:47": false, "params.lines.0.big:12345678901234567890": true, "params.paid:false": true,
		"params.note:null": true, "params.none:null": false, "params.name:Müller": true, "params.Customer.x:c-28": false,
		"tag:eu": true, "tag:eu tag:urgent": true, "tag:us": false, "key:order-8*": true, "key:order-9*": false,
	} {
		q, err := Parse(text, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.matches(job, params); got != matches {
			t.Errorf("%q: %v", text, got)
		}
	}
	q, _ := Parse("params.a:b", time.UTC)
	for _, params := range []string{"", "{", `"a"`, `["a"]`, `{"a":{}}`, "null"} {
		if q.matches(job, params) {
			t.Errorf("%q matches", params)
		}
	}
}

// What is asked of a row beforehand must not leave out a job that matches.
func TestThePartOfAValueThatARowIsAskedForStandsInJSONHoweverThatIsWritten(t *testing.T) {
	for value, part := range map[string]string{
		"c-28": "c-28", "Müller": "ller", `a"bcd`: "bcd", "<b>": "b", "x/yz": "yz", "订单": "", "no route": "no route", "a%b_c": "a%b_c", "+49 30": "49 30",
	} {
		if got := plainPart(value); got != part {
			t.Errorf("%q: %q, want %q", value, got, part)
		}
	}
}

func TestAQueryIsWrittenAsItWasRead(t *testing.T) {
	for _, text := range []string{"", `queue:7 error:"no route" key:"a b"*`, "order-47", `"order:47"`, `state:failed "a \"b\" \\ c"`, "4711"} {
		q, err := Parse(text, time.UTC)
		if err != nil || q.Text() != text {
			t.Errorf("%q is written as %q; %v", text, q.Text(), err)
		}
	}
}

// FuzzParse: whatever somebody writes into the field, it is a query that says what was written, or an error that people can read.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`queue:partner state:failed,retrying error:"connection refused" key:order-8* params.Customer:c-28 since:1h due:..5m attempts:>3 tag:x`,
		`order-47`, `"a\"b" key:"c\\"`, `key:*`, `params.:x`, "\u00a0x\u3000y", `a:b:c`, `""`, `error:"`, `due:..`, "attempts:<=4294967295",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Parse(text, time.UTC)
		if err != nil {
			if message := err.Error(); message == "" || utf8.ValidString(text) && !utf8.ValidString(message) {
				t.Errorf("%q: the error is %q", text, message)
			}
			return
		}
		again, err := Parse(q.Text(), time.UTC)
		if err != nil || again.Text() != q.Text() || again.Word != q.Word || again.KeyPrefix != q.KeyPrefix || again.Error != q.Error {
			t.Errorf("%q is written as %q, which is another query; %v", text, q.Text(), err)
		}
		q.SetNow(now)
		if _, err := q.allRows(false); err != nil && q.Filter.Key == "" && q.Filter.CreatedFrom.IsZero() && q.Filter.CreatedTo.IsZero() &&
			q.Filter.UpdatedFrom.IsZero() && q.Filter.UpdatedTo.IsZero() && q.Filter.DueFrom.IsZero() && q.Filter.DueTo.IsZero() {
			t.Errorf("%q: %v", text, err)
		}
		q.matches(&queue_job.JobInfo{}, text)
		if strings.TrimSpace(text) != "" && q.Empty() {
			t.Errorf("%q asks for every job", text)
		}
		if q.AttemptsFrom < 0 || q.AttemptsTo < 0 || q.AttemptsTo > 0 && q.AttemptsFrom >= q.AttemptsTo {
			t.Errorf("%q: %d to %d runs", text, q.AttemptsFrom, q.AttemptsTo)
		}
	})
}
