package queue_job

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/DATA-DOG/go-sqlmock"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/wake"
)

// inserts is a handle that notes what is inserted.
type inserts struct {
	DB
	query string
	args  []any
	id    int64
	err   error
	noID  error
}

func (h *inserts) Exec(query string, args ...any) (sql.Result, error) {
	h.query, h.args = query, args
	return result{h}, h.err
}

func (*inserts) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	panic("an insert asks for nothing")
}

func (h *inserts) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return h.Exec(query, args...)
}

type result struct{ *inserts }

func (r result) LastInsertId() (int64, error) { return r.id, r.noID }
func (r result) RowsAffected() (int64, error) { return 1, nil }

// jobsOfMySQL are jobs in a MySQL that is not there.
func jobsOfMySQL(t *testing.T, options ...OpenOption) *Jobs {
	t.Helper()
	db, mock, err := sqlmock.New()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	mock.ExpectQuery("SELECT VERSION").WillReturnRows(sqlmock.NewRows([]string{"v"}).AddRow("9.7.4"))
	mock.ExpectQuery("SELECT @@autocommit").WillReturnRows(sqlmock.NewRows([]string{"a"}).AddRow("1"))
	mock.ExpectClose()
	jobs, err := Open(db, options...)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// remember lets AddAsyncJob know the handle already.
func remember(t *testing.T, db *inserts) {
	t.Helper()
	remembered.stores[db] = jobsOfMySQL(t).store.Through(db)
	t.Cleanup(func() { delete(remembered.stores, db) })
}

// added adds a job both ways and returns what stands in params.
func added(t *testing.T, params any) string {
	t.Helper()
	one, other := &inserts{id: 9}, &inserts{}
	remember(t, other)
	id, err := jobsOfMySQL(t).Add(t.Context(), one, AddModelJob{JobType: 7, JobParams: params})
	if err != nil || id != 9 {
		t.Fatal(id, err)
	}
	if err := AddAsyncJob(other, AddModelJob{JobType: 7, JobParams: params}); err != nil {
		t.Fatal(err)
	}
	if one.args[0] != other.args[0] {
		t.Fatalf("Add writes %q, AddAsyncJob %q", one.args[0], other.args[0])
	}
	if long := one.args[len(one.args)-1]; one.args[0] == "see long_params" {
		return long.(string)
	}
	return one.args[0].(string)
}

func TestParametersAreStoredAsJSON(t *testing.T) {
	type order struct {
		ID   int    `json:"id"`
		Note string `json:"note,omitempty"`
	}
	for _, c := range []struct {
		params any
		want   string
	}{
		{nil, `null`},
		{order{ID: 3}, `{"id":3}`},
		{&order{3, `a<b> & "c"`}, `{"id":3,"note":"a<b> & \"c\""}`},
		{"text", `"text"`},
		{map[string]any{"b": 1.5, "a": []int{1, 2}}, `{"a":[1,2],"b":1.5}`},
		{json.RawMessage(`{"big":12345678901234567890}`), `{"big":12345678901234567890}`},
		{"Grüße 世界 😀", `"Grüße 世界 😀"`},
		{"two\nlines\n", `"two\nlines\n"`},
	} {
		if got := added(t, c.params); got != c.want {
			t.Errorf("%v is stored as %s, want %s", c.params, got, c.want)
		}
	}
}

func TestParametersThatAreNoJSONAreRefusedAndNothingIsInserted(t *testing.T) {
	for name, params := range map[string]any{
		"a channel": make(chan int), "a function": func() {}, "not a number": math.NaN(), "broken raw JSON": json.RawMessage(`{"a":`),
	} {
		db := &inserts{}
		remember(t, db)
		if err := AddAsyncJob(db, AddModelJob{JobType: 7, JobParams: params}); err == nil || !strings.Contains(err.Error(), "job of type 7") {
			t.Errorf("%s: %v", name, err)
		}
		if db.query != "" {
			t.Errorf("%s: inserted", name)
		}
	}
}

func TestParametersUpToTheMostBytesPassAndLongerOnesAreRefusedWithBothLengths(t *testing.T) {
	for _, character := range []string{"a", "é", "😀", "<"} {
		if got := added(t, strings.Repeat(character, 4094)); len([]rune(got)) != 4096 {
			t.Errorf("%s: %d characters", character, len([]rune(got)))
		}
		most := (ParamsMax - 2) / len(character)
		if got := added(t, strings.Repeat(character, most)); len(got) != most*len(character)+2 {
			t.Errorf("%s: %d bytes", character, len(got))
		}
		db := &inserts{}
		_, err := jobsOfMySQL(t).Add(t.Context(), db, AddModelJob{JobType: 7, JobParams: strings.Repeat(character, most+1)})
		if !errors.Is(err, ErrParamsTooLong) || !strings.Contains(err.Error(), fmt.Sprint((most+1)*len(character)+2)) || !strings.Contains(err.Error(), "1048576") {
			t.Errorf("%s: %v", character, err)
		}
		if db.query != "" {
			t.Errorf("%s: inserted", character)
		}
	}
}

func TestAJobIsOneRowWithItsTypeAndTimes(t *testing.T) {
	db := &inserts{}
	remember(t, db)
	before := time.Now().Unix()
	if err := AddAsyncJob(db, AddModelJob{JobType: -7, StartTime: 1<<32 - 1}); err != nil {
		t.Fatal(err)
	}
	created := db.args[3].(int64)
	if !strings.HasPrefix(db.query, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time)") || db.args[1] != int32(-7) || db.args[2] != uint32(1<<32-1) || db.args[4] != db.args[3] || created < before || created > time.Now().Unix() {
		t.Fatalf("%s: %v", db.query, db.args)
	}
}

func TestAnErrorOfTheDatabaseReachesTheCaller(t *testing.T) {
	boom := errors.New("boom")
	for name, db := range map[string]*inserts{"insert": {err: boom}, "id": {noID: boom}} {
		if _, err := jobsOfMySQL(t).Add(t.Context(), db, AddModelJob{JobType: 7}); !errors.Is(err, boom) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := jobsOfMySQL(t).Add(ended, &inserts{}, AddModelJob{JobType: 7}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

func TestAnAddedJobWakesTheRunnersOfThisProcessAndARefusedOneDoesNot(t *testing.T) {
	woken, end := wake.Listen()
	defer end()
	heard := func() bool {
		select {
		case <-woken:
			return true
		default:
			return false
		}
	}
	good, bad := &inserts{}, &inserts{err: errors.New("boom")}
	remember(t, good)
	remember(t, bad)
	if err := AddAsyncJob(good, AddModelJob{}); err != nil || !heard() {
		t.Error("nobody was woken", err)
	}
	if err := AddAsyncJob(bad, AddModelJob{}); err == nil || heard() {
		t.Error("woken for nothing", err)
	}
}

func TestOpenRefusesAHandleThatIsNilAndAPrefixThatNoNameBeginsWith(t *testing.T) {
	if _, err := Open((*sql.DB)(nil)); err == nil || !strings.Contains(err.Error(), "pass your *sql.DB") {
		t.Error(err)
	}
	for _, prefix := range []string{"a b", "1st_", "x;--", "a.b.", "`a`.", strings.Repeat("x", 41)} {
		if _, err := Open(&inserts{}, WithTablePrefix(prefix)); err == nil || !strings.Contains(err.Error(), "table prefix") {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

func TestAddWritesIntoTheTableWithThePrefix(t *testing.T) {
	for _, prefix := range []string{"shop_", "Shop2_", "jobs.", "jobs.shop_"} {
		db := &inserts{id: 1}
		if _, err := jobsOfMySQL(t, WithTablePrefix(prefix)).Add(t.Context(), db, AddModelJob{JobType: 7}); err != nil || !strings.HasPrefix(db.query, "INSERT INTO "+prefix+"async_job_tab (") {
			t.Errorf("%q: %v, %v", prefix, db.query, err)
		}
	}
}

func TestTheMemoryOfHandlesHasAnEnd(t *testing.T) {
	m := memory{stores: map[DB]*record.Store{}}
	for range 3 * memoryMax {
		db, mock, err := sqlmock.New()
		if err != nil {
			t.Fatal(err)
		}
		mock.ExpectQuery("SELECT VERSION").WillReturnRows(sqlmock.NewRows([]string{"v"}).AddRow("PostgreSQL 17.2"))
		for range 2 { // the second time it does not ask
			if _, err := m.open(t.Context(), db); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(m.stores) > memoryMax {
		t.Errorf("%d handles", len(m.stores))
	}
}

func TestAddAsyncJobTakesAHandleThatNoMapCanHold(t *testing.T) {
	db, mock, err := sqlmock.New()
	if err != nil {
		t.Fatal(err)
	}
	mock.ExpectQuery("SELECT VERSION").WillReturnRows(sqlmock.NewRows([]string{"v"}).AddRow("9.7.4"))
	mock.ExpectQuery("SELECT @@autocommit").WillReturnRows(sqlmock.NewRows([]string{"a"}).AddRow("1"))
	mock.ExpectExec("INSERT").WillReturnResult(sqlmock.NewResult(1, 1))
	inner := struct {
		*sql.DB
		_ []string
	}{DB: db}
	if err := AddAsyncJob(struct{ DB }{inner}, AddModelJob{JobType: 1}); err != nil {
		t.Error(err)
	}
}

// inTransaction has methods of its own, in addition to the methods of the *sql.DB.
type inTransaction struct {
	*sql.DB
	tx *sql.Tx
}

func (h inTransaction) Exec(query string, args ...any) (sql.Result, error) {
	return h.tx.Exec(query, args...)
}

func TestAddAsyncJobAddsByTheHandlesOwnExec(t *testing.T) {
	db, mock, err := sqlmock.New()
	if err != nil {
		t.Fatal(err)
	}
	mock.MatchExpectationsInOrder(false)
	mock.ExpectQuery("SELECT VERSION").WillReturnRows(sqlmock.NewRows([]string{"v"}).AddRow("9.7.4"))
	mock.ExpectQuery("SELECT @@autocommit").WillReturnRows(sqlmock.NewRows([]string{"a"}).AddRow("1"))
	mock.ExpectBegin()
	mock.ExpectExec("INSERT").WillReturnResult(sqlmock.NewResult(1, 1))
	mock.ExpectRollback()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := AddAsyncJob(inTransaction{db, tx}, AddModelJob{JobType: 1}); err != nil {
		t.Error(err)
	}
	if open := db.Stats().InUse; open != 1 {
		t.Errorf("%d connections are in use, want the transaction's", open)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
}

func TestAJobWhoseTypeWasForgottenIsRefusedButNotByAddAsyncJob(t *testing.T) {
	jobs, forgotten := jobsOfMySQL(t), AddModelJob{Key: "k"}
	for name, add := range map[string]func(Executor) error{
		"Add": func(ex Executor) error { _, err := jobs.Add(t.Context(), ex, forgotten); return err },
		"AddMany": func(ex Executor) error {
			_, err := jobs.AddMany(t.Context(), ex, []AddModelJob{{JobType: 7}, forgotten})
			return err
		},
		"AddUnique": func(ex Executor) error {
			_, err := jobs.AddUnique(t.Context(), ex, forgotten.With(UniqueKey("k", UniqueForever)))
			return err
		},
	} {
		db := &inserts{id: 1}
		if err := add(db); err == nil || !strings.Contains(err.Error(), "JobType is 0; set it to") || db.query != "" {
			t.Errorf("%s: %v, %q", name, err, db.query)
		}
	}
	db := &inserts{id: 1}
	remember(t, db)
	if err := AddAsyncJob(db, AddModelJob{}); err != nil || db.args[1] != int32(0) {
		t.Error(err, db.args)
	}
}

func TestAGroupHasTheFormOfAKey(t *testing.T) {
	for group, wrong := range map[string]string{"7": "", "": "", " 7": "white space", strings.Repeat("x", keyMax+1): "129 characters"} {
		db := &inserts{id: 1}
		_, err := jobsOfMySQL(t).Add(t.Context(), db, AddModelJob{JobType: 7}.With(WithKey("k"), WithGroup(group)))
		if wrong == "" && err != nil || wrong != "" && (!errors.Is(err, ErrBadKey) || !strings.Contains(err.Error(), "group: ") || !strings.Contains(err.Error(), wrong) || db.query != "") {
			t.Errorf("%q: %v", group, err)
		}
	}
}

func TestMetadataIsStoredAsJSONAndAJobWithoutItIsAPlainRow(t *testing.T) {
	db := &inserts{id: 1}
	jobs, job := jobsOfMySQL(t), AddModelJob{JobType: 7}
	shared := job.With(WithMeta("tenant", "7"))
	other := shared.With(WithMeta("trace", "a<b>"))
	if _, err := jobs.Add(t.Context(), db, other); err != nil || db.args[len(db.args)-1] != `{"tenant":"7","trace":"a<b>"}` {
		t.Error(err, db.args)
	}
	if len(shared.Meta) != 1 {
		t.Errorf("an option has changed the job that it was not applied to: %v", shared.Meta)
	}
	job.Meta = map[string]string{}
	if _, err := jobs.Add(t.Context(), db, job); err != nil || strings.Contains(db.query, "meta") {
		t.Error(err, db.query)
	}
}

func TestMetadataUpToTheColumnsLengthPassesAndMoreIsRefusedWithBothLengths(t *testing.T) {
	full := strings.Repeat("𝔘", metaMax-len(`{"k":""}`))
	for value, wrong := range map[string]string{full: "", full + "x": "1025 characters as JSON, the column holds 1024", "a\xff": "not UTF-8"} {
		db := &inserts{id: 1}
		_, err := jobsOfMySQL(t).Add(t.Context(), db, AddModelJob{JobType: 7}.With(WithMeta("k", value)))
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong) || db.query != "") {
			t.Errorf("%v, want %q", err, wrong)
		}
		if tooLong := value == full+"x"; errors.Is(err, ErrTextTooLong) != tooLong {
			t.Error(err)
		}
	}
}

func TestAnErrorOfOnAddIsReturnedAndNothingIsAdded(t *testing.T) {
	refused := errors.New("no tenant")
	var db inserts
	jobs := jobsOfMySQL(t, OnAdd(func(_ context.Context, job *AddModelJob) error { return refused }))
	job := AddModelJob{JobType: 7}
	for name, add := range map[string]func() error{
		"Add":     func() error { _, err := jobs.Add(t.Context(), &db, job); return err },
		"AddMany": func() error { _, err := jobs.AddMany(t.Context(), &db, []AddModelJob{job}); return err },
		"AddUnique": func() error {
			_, err := jobs.AddUnique(t.Context(), &db, job.With(UniqueKey("k", UniqueForever)))
			return err
		},
		"Definition.Add": func() error { _, err := Define[string](7, "test").Add(t.Context(), jobs, &db, "x"); return err },
	} {
		if err := add(); !errors.Is(err, refused) || !strings.Contains(err.Error(), "add job of type 7: OnAdd: no tenant") || db.query != "" {
			t.Errorf("%s: %v, %q", name, err, db.query)
		}
	}
	second := 0
	jobs = jobsOfMySQL(t, OnAdd(func(context.Context, *AddModelJob) error {
		if second++; second == 2 {
			return refused
		}
		return nil
	}))
	if _, err := jobs.AddMany(t.Context(), &db, []AddModelJob{job, job, job}); !errors.Is(err, refused) || db.query != "" {
		t.Errorf("AddMany: %v, %q", err, db.query)
	}
}

func TestTextThatIsJSONIsStoredAsItStands(t *testing.T) {
	if got := added(t, JSON(`{"a": [1, 2.50], "b": "<&>"}`)); got != `{"a":[1,2.50],"b":"<&>"}` {
		t.Error(got)
	}
	for _, text := range []JSON{"", "{", "a", "1 2"} {
		db := &inserts{id: 1}
		if _, err := jobsOfMySQL(t).Add(t.Context(), db, AddModelJob{JobType: 7, JobParams: text}); err == nil || db.query != "" {
			t.Errorf("%q: %v, %q", text, err, db.query)
		}
	}
}
