package store

import (
	"context"
	"fmt"

	"github.com/create-info/persistent-queue/internal/conn"
)

// SetProgress writes how far a run is. It needs a row that is pending, has the term and is at this attempt. Ours is false
// if the row is not so: a later run has it, or it was finished by other means.
func (s *Store) SetProgress(ctx context.Context, id uint64, term int64, attempt int32, text string) (ours bool, err error) {
	return s.setText(ctx, "progress", id, term, attempt, text)
}

// SetResult writes the result of a run, under the same conditions as [Store.SetProgress].
func (s *Store) SetResult(ctx context.Context, id uint64, term int64, attempt int32, text string) (ours bool, err error) {
	return s.setText(ctx, "result", id, term, attempt, text)
}

// setText changes nothing if it writes the same text again within the same second. Where the connection counts changed
// rows, the count is then 0, so setText reads the row back.
func (s *Store) setText(ctx context.Context, column string, id uint64, term int64, attempt int32, text string) (ours bool, err error) {
	n, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s %s SET %s = ?, update_time = %s WHERE %s",
		s.Tables.Jobs, s.ByPrimary, column, s.NowOnce(), s.ours([]uint64{id}, term, attempt)), text)
	if err != nil || n > 0 {
		return n > 0, conn.Wrap("set "+column, err)
	}
	rows, err := s.MarkedRows(ctx, []uint64{id}, term)
	return len(rows) > 0 && rows[0].Attempts == attempt, err
}

// End is how a run ends in a transaction of its handler.
type End struct {
	Status int32    // a final one
	Result *string  // nil: the column stays as it is
	Log    *Attempt // the row of the log; nil: none
}

// FinishThrough settles one row as [Final] through another handle, which is the caller's transaction. If another
// process is about to mark the row, it waits until that transaction ends.
func (s *Store) FinishThrough(ctx context.Context, h conn.Handle, id uint64, term int64, attempt int32, end End) (ours bool, err error) {
	through := s.Through(h)
	if end.Result != nil { // which needs a row that is not final yet
		if ours, err := through.SetResult(ctx, id, term, attempt, *end.Result); err != nil || !ours {
			return ours, err
		}
	}
	n, err := through.Settle(ctx, []uint64{id}, Final{term, attempt, end.Status})
	if err == nil && n > 0 && end.Log != nil {
		err = through.LogAttempts(ctx, []Attempt{*end.Log})
	}
	return n > 0, err
}

// Progress reads the text that [Store.SetProgress] has written, of whichever run; empty: none, or the row is gone.
func (s *Store) Progress(ctx context.Context, id uint64) (text string, err error) {
	texts, err := conn.Read(ctx, s, conn.Column[string],
		s.FromPrimary(fmt.Sprintf("SELECT COALESCE(progress, '') FROM %s %s WHERE id = ?", s.Tables.Jobs, s.ByPrimary)), id)
	if len(texts) > 0 {
		text = texts[0]
	}
	return text, conn.Wrap("read progress", err)
}

// Standing is how a row stands: what [Store.Standings] reads. A NULL status reads as 0.
type Standing struct {
	ID     uint64
	Status int32
	Version
}

// Standings reads how rows stand. Fewer than asked: the others are gone.
func (s *Store) Standings(ctx context.Context, ids []uint64) ([]Standing, error) {
	args := s.Arguments()
	rows, err := conn.Read(ctx, s, conn.Each(func(r *Standing) []any { return []any{&r.ID, &r.Status, &r.Term, &r.Attempts, &r.Changes} }),
		s.FromPrimary(fmt.Sprintf("SELECT id, COALESCE(job_status, 0) AS status, term, attempts, changes FROM %s %s WHERE %s",
			s.Tables.Jobs, s.ByPrimary, args.In(ids))), args.List...)
	return rows, conn.Wrap("read how jobs stand", err)
}

// Paused reads which job types are paused.
func (s *Store) Paused(ctx context.Context) ([]int32, error) {
	types, err := conn.Read(ctx, s, conn.Column[int32],
		s.FromPrimary(fmt.Sprintf("SELECT job_type FROM %s %s WHERE paused_at IS NOT NULL", s.Tables.Types, s.ByPaused)))
	return types, conn.Wrap("read paused types", err)
}
