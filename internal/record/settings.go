package record

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
)

// TypeSettings is how a job type is run, as JSON.
type TypeSettings struct {
	JobType  int32
	Settings string
}

// settingsTogether is how many types one statement of [Store.WriteSettings] is about.
const settingsTogether = 100

// WriteSettings writes how job types are run, into the rows that [Store.NameTypes] has made. If the table has it already, it only
// reads. If somebody else has written in a later second than was read, it changes nothing; so a statement may be sent again, or late.
func (s *Store) WriteSettings(ctx context.Context, given []TypeSettings) error {
	for some := range slices.Chunk(given, settingsTogether) {
		if err := s.writeSettings(ctx, some); err != nil {
			return conn.Wrap("tell the settings of job types", err)
		}
	}
	return nil
}

func (s *Store) writeSettings(ctx context.Context, given []TypeSettings) error {
	types := make([]int32, len(given))
	for i, t := range given {
		types[i] = t.JobType
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(t *KnownType) []any { return []any{&t.JobType, &t.Settings, &t.ToldAt} }), s.FromPrimary(fmt.Sprintf(
		"SELECT job_type, COALESCE(settings, '') AS settings, COALESCE(told_at, 0) AS told_at FROM %s WHERE job_type IN (%s)",
		s.Tables.Types, conn.Numbers(types))))
	if err != nil {
		return err
	}
	there := make(map[int32]KnownType, len(rows))
	for _, row := range rows {
		there[row.JobType] = row
	}
	var settings, asRead []string
	var args []any
	types = types[:0]
	for _, t := range given {
		if there[t.JobType].Settings == t.Settings {
			continue
		}
		types, args = append(types, t.JobType), append(args, t.Settings)
		settings = append(settings, fmt.Sprintf("WHEN %d THEN ?", t.JobType))
		asRead = append(asRead, fmt.Sprintf("WHEN %d THEN %d", t.JobType, there[t.JobType].ToldAt))
	}
	if len(types) == 0 {
		return nil
	}
	_, err = conn.Exec(ctx, s, fmt.Sprintf("%s %s %s SET settings = CASE job_type %s END, told_at = %s "+
		"WHERE %s AND COALESCE(told_at, 0) = CASE job_type %s END",
		s.Updates, s.Tables.Types, s.ByPrimary, strings.Join(settings, " "), s.NowSecond, s.RowsOf(types), strings.Join(asRead, " ")), args...)
	return err
}

// KnownType is a row of async_job_type_tab.
type KnownType struct {
	JobType     int32
	Name        string // empty: only an older version has run it
	Paused      int64  // unix seconds; 0: it is not
	PausedUntil int64  // unix seconds; 0: until somebody resumes it
	PausedBy    string // and why, if the pause was noted
	PausedWhy   string
	Settings    string // JSON; empty: only an older version has run it
	ToldAt      int64  // since when the settings are these, in unix seconds
	CronAt      int64  // up to this second of unix time, all times of the type's schedule have their jobs; 0: no schedule has begun
	Layout      int64  // 0: none
	Limits      store.Limits
}

// KnownTypes reads all job types that have a row, in their order. It may be asked of a replica.
func (s *Store) KnownTypes(ctx context.Context) ([]KnownType, error) {
	types, err := conn.Read(ctx, s, conn.Each(func(t *KnownType) []any {
		return []any{&t.JobType, &t.Name, &t.Paused, &t.Settings,
			&t.ToldAt, &t.CronAt, &t.Layout, &t.Limits.Workers, &t.Limits.Rate, &t.PausedUntil, &t.PausedBy, &t.PausedWhy}
	}), fmt.Sprintf(
		"SELECT job_type, COALESCE(name, ''), COALESCE(paused_at, 0), COALESCE(settings, ''), COALESCE(told_at, 0), COALESCE(cron_at, 0), "+
			"COALESCE(layout, 0), COALESCE(workers, 0), %s, %s, %s, %s "+
			"FROM %s AS kind "+
			"ORDER BY job_type",
		s.Exactly("COALESCE(rate, 0)"), pauseEnd, s.ofPause("actor"), s.ofPause("why"), s.Tables.Types))
	return types, conn.Wrap("job types", err)
}

// pauseEnd is when a pause ends, in unix seconds; 0: it lasts, or there is none. Versions that know no end leave one behind when they
// resume a type. If it had passed when the type was paused again, it is not the end of that pause.
const pauseEnd = "CASE WHEN paused_until > paused_at THEN paused_until ELSE 0 END"

// ofPause selects a column of the act by which a type was paused, or its pause was given another end. The type's row is called kind. Empty:
// the type is not paused, or nobody has noted it.
func (s *Store) ofPause(column string) string {
	return fmt.Sprintf("CASE WHEN paused_at IS NULL THEN '' ELSE COALESCE((SELECT %s "+
		"FROM %s AS act "+
		"WHERE act.job_type = kind.job_type AND verb = 'pause' AND acted_at >= kind.paused_at "+
		"ORDER BY act.id DESC LIMIT 1), '') END",
		column, s.Tables.Acts)
}

// SetLimits writes down the limits of a job type. It reports whether they were others before. Sent again, it changes nothing.
func (s *Store) SetLimits(ctx context.Context, jobType int32, limits store.Limits) (changed bool, err error) {
	workers, rate := strconv.Itoa(limits.Workers), strconv.FormatFloat(limits.Rate, 'f', -1, 64)
	n := 0
	if limits != (store.Limits{}) {
		n, err = conn.Exec(ctx, s,
			fmt.Sprintf("%s %s (job_type, workers, rate) VALUES (%d, NULLIF(%s, 0), NULLIF(%s, 0))%s",
				s.InsertNew, s.Tables.Types, jobType, workers, rate, s.UnlessThere))
	}
	if err == nil && n == 0 {
		n, err = conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET workers = NULLIF(%s, 0), rate = NULLIF(%s, 0) "+
			"WHERE job_type = %d AND (COALESCE(workers, 0) <> %[2]s OR COALESCE(rate, 0) <> %[3]s)",
			s.ByKeyOf(s.Tables.Types), workers, rate, jobType))
	}
	return n > 0, conn.Wrap("set limits", err)
}
